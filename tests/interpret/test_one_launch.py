"""All stages in one launch, interpreted: results equal those of a list of launches bit by bit, and
no stages race between two grid barriers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from interpreted_devices import KHR, NVIDIA, RESIDENT, X86
from ops.test_one_launch import BRANCHES, NETWORK, inputs_of
from ops.test_side_by_side import BLOCKS, HEADS
from random_graphs import Random, build
from tree_plans import plan_of

from fourfold.backends.interpreter.player import Player
from fourfold.codegen.context import KernelOptions
from fourfold.codegen.expression import const, load
from fourfold.codegen.kernel import Kernel
from fourfold.codegen.stage import Stage
from fourfold.codegen.stage_table import ARRIVES, AWAITS, HEAD
from fourfold.codegen.tree.language import StageList
from fourfold.compiler.lower import make_plan
from fourfold.compiler.rewrite import rewrite
from fourfold.device import DeviceInfo
from fourfold.errors import DeviceError
from fourfold.graph import Graph
from fourfold.plan import BufferUse, Launch, Plan
from fourfold.types import DType

FLAGS = 5  # position of the flags in a row
GRAPHS = {"network": NETWORK, "branches": BRANCHES, "blocks": BLOCKS, "heads": HEADS}
SMALL = {name: text.replace("41,37", "11,7") for name, text in GRAPHS.items()}


def joined(graph: Graph, device: DeviceInfo, precision: str = "fp32") -> Plan:
    plan = make_plan(rewrite(graph), device, KernelOptions(precision, form="one"))
    assert [launch.entry for launch in plan.launches] == ["one_launch"]
    return plan


def compare(graph: Graph, device: DeviceInfo, precision: str) -> None:
    listed = make_plan(rewrite(graph), device, KernelOptions(precision, form="list"))
    one, several = Player(device, joined(graph, device, precision)), Player(device, listed)
    for seed in range(2):
        arrays = inputs_of(graph, seed)
        for player in (one, several):
            player.poison()
        for result, expected in zip(one.run(arrays), several.run(arrays), strict=True):
            assert not np.isnan(result).any()
            np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize(
    ("like", "precision"),
    [(NVIDIA, "fp32"), (NVIDIA, "mixed"), (RESIDENT, "fp16"), (X86, "fp32")],
    ids=["nvidia-fp32", "nvidia-mixed", "resident-fp16", "x86-fp32"],
)
@pytest.mark.parametrize("name", SMALL)
def test_the_bits_of_a_list(name: str, like: DeviceInfo, precision: str) -> None:
    compare(build(SMALL[name]), like, precision)


@pytest.mark.parametrize("seed", range(740, 746))
def test_the_bits_of_a_list_of_random_graphs(seed: int) -> None:
    compare(Random(seed).graph(size=12), RESIDENT, "fp32")


def with_table(plan: Plan, change: Callable[[np.ndarray], None]) -> Plan:
    """Return the plan with another table."""
    *_, count, start = plan.launches[0].arguments
    stride = int(plan.program.text.partition("(stages one_launch ")[2].split()[0])
    constants = plan.constants.copy()
    change(constants[start : start + count * stride * 4].view(np.int32).reshape(count, stride))
    return replace(plan, constants=constants)


def test_without_meetings_stages_race() -> None:
    def forget(table: np.ndarray) -> None:
        table[:, FLAGS] = 0

    graph = build(SMALL["network"])
    player = Player(NVIDIA, with_table(joined(graph, NVIDIA), forget))
    with pytest.raises(DeviceError, match=r"(?s)has a data race on .*of kernel 'fetch_"):
        player.run(inputs_of(graph, 0))


@pytest.mark.parametrize("name", ["network", "branches", "blocks"])
def test_no_meeting_is_too_many(name: str) -> None:
    """Leaving out any of them lets two stages race."""
    graph = build(SMALL[name])
    plan = joined(graph, RESIDENT)
    waits = [n for n, flags in enumerate(_flags(plan)) if flags & AWAITS]
    assert len(waits) > 2
    for wait in waits:

        def forget(table: np.ndarray, wait: int = wait) -> None:
            arrival = max(n for n in range(wait) if table[n, FLAGS] & ARRIVES)
            table[wait, FLAGS] &= ~AWAITS
            table[arrival, FLAGS] &= ~ARRIVES

        with pytest.raises(DeviceError, match="has a data race on"):
            Player(RESIDENT, with_table(plan, forget)).run(inputs_of(graph, 0))


def _flags(plan: Plan) -> list[int]:
    actual: list[int] = []
    with_table(plan, lambda table: actual.extend(table[:, FLAGS].tolist()))
    return actual


def test_a_stage_that_crosses_a_meeting_is_done_by_the_next_one_only() -> None:
    graph = build(SMALL["blocks"])
    plan = joined(graph, RESIDENT)
    crossing = _flags(plan).index(0)  # the stage neither waits nor arrives

    def read_it_at_once(table: np.ndarray) -> None:
        made = HEAD + 2  # its second pointer: the output
        table[crossing + 1, HEAD : HEAD + 2] = table[crossing, made : made + 2]

    with pytest.raises(DeviceError, match=r"(?s)has a data race on 'src'.*wrote"):
        Player(RESIDENT, with_table(plan, read_it_at_once)).run(inputs_of(graph, 0))


def test_stages_side_by_side_must_not_share_memory() -> None:
    graph = build(SMALL["blocks"])
    plan = joined(graph, RESIDENT)
    crossing = _flags(plan).index(0)

    def write_what_others_read(table: np.ndarray) -> None:
        made = HEAD + 2
        table[crossing, made : made + 2] = table[crossing + 1, HEAD : HEAD + 2]

    with pytest.raises(DeviceError, match=r"(?s)has a data race on .*of kernel"):
        Player(RESIDENT, with_table(plan, write_what_others_read)).run(inputs_of(graph, 0))


def in_place(faulty: bool) -> Plan:
    """Return two stages of small groups that share memory, the second in place or not."""
    kernels = []
    for title, own in (("fill", True), ("count", faulty)):
        kernel = Kernel(title, literal=True)
        (x,) = kernel.ids(8, local=(4,))
        shared = kernel.local_array("shared", "float", 1, 4)
        kept = kernel.pointer("kept", DType.F32, None, writable=own)
        target = kept if own else kernel.pointer("dst", DType.F32, None, writable=True)
        before = load(kept, x, "float") if title == "count" else const(1.0)
        kernel.store(shared, kernel.local_id(0), before)
        kernel.barrier()
        kernel.store(target, x, load(shared, kernel.local_id(0), "float") + 1.0)
        kernels.append(kernel)
    plan = plan_of(kernels, {}, {"dst": "f32[8]"}, {"kept": "f32[8]"})
    stages = [
        Stage(kernel, one.arguments) for kernel, one in zip(kernels, plan.launches, strict=True)
    ]
    made = StageList().join([stages], RESIDENT, len(plan.buffers), None)
    (run,) = made.runs
    arguments = (*(BufferUse(n, 0) for n in range(len(plan.buffers))), len(stages), 0)
    launch = Launch(made.entry, arguments, made.grid, made.local, "", run.title, len(stages))
    constants = np.ascontiguousarray(run.table).reshape(-1).view(np.uint8)
    buffers = [
        one._replace(bytes=constants.nbytes) if one.kind == "constants" else one
        for one in plan.buffers
    ]
    program = plan.program._replace(text=made.text)
    return replace(
        plan, program=program, buffers=tuple(buffers), launches=(launch,), constants=constants
    )


def test_a_group_may_be_made_again() -> None:
    """GPUs run the last of some small groups again to fill a real group."""
    assert Player(RESIDENT, in_place(faulty=False)).run([])[0].tolist() == [3.0] * 8
    with pytest.raises(DeviceError, match=r"(?s)has a data race on 'kept'.*repeated"):
        Player(RESIDENT, in_place(faulty=True)).run([])


def test_subgroups_of_any_size() -> None:
    """Kernels that query the sub-group size are correct for any size."""
    graph = build(NETWORK)
    plan = make_plan(rewrite(graph), KHR, KernelOptions(form="list"))
    assert plan.requirements.subgroups == "khr"
    arrays = inputs_of(graph, 3)
    results = [Player(KHR, plan, subgroup=size).run(arrays)[0] for size in (1, 2, 8, 16, 64)]
    for result in results:
        np.testing.assert_allclose(result, results[0], atol=1e-6)
