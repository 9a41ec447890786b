"""Every op, every case, every precision, on every device, against the NumPy reference.

All cases of an op are nodes of one graph, so that the device's compiler is started once for them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from op_inputs import case_graph

from fourfold.device import DeviceInfo
from fourfold.graph import Graph
from fourfold.kernel.context import KernelOptions
from fourfold.lower import make_plan
from fourfold.op import Case, Op
from fourfold.op.registry import registry
from fourfold.players import ask_facts, make_player
from fourfold.rewrite import rewrite

WITH_KERNELS = [name for name, op in registry().items() if op.variants or op.pointwise]
JUMPING = ("cast", "floor_div", "floor_mod", "grid_sample", "max_pool2d_index", "remainder")
TOLERANCE = {"fp32": 2e-5, "mixed": 4e-3, "fp16": 2e-2}


@dataclass(frozen=True)
class Trial:
    """A graph with its inputs, and what the references say of each output."""

    graph: Graph
    inputs: list[np.ndarray]
    expected: dict[str, np.ndarray]


def trial(op: Op, cases: tuple[Case, ...]) -> Trial:
    """One graph with a node for each case."""
    graph, every = case_graph(op, cases)
    expected: dict[str, np.ndarray] = {}
    inputs: list[np.ndarray] = []
    for node, case, arrays in zip(graph.nodes, cases, every, strict=True):
        values = op.reference(case.attributes, *arrays)
        values = values if isinstance(values, tuple) else (values,)
        expected |= dict(zip(node.outputs, values, strict=True))
        pairs = zip(node.inputs, arrays, strict=True)
        inputs += [a for name, a in pairs if a is not None and name in graph.inputs]
    return Trial(graph, inputs, expected)


def play(
    item: Trial, device: DeviceInfo, options: KernelOptions, like: DeviceInfo
) -> dict[str, np.ndarray]:
    """What a device makes of the plan for another one."""
    player = make_player(device, make_plan(rewrite(item.graph, verify=True), like, options))
    player.poison()
    results = player.run([np.ascontiguousarray(array) for array in item.inputs])
    player.close()
    return dict(zip(item.graph.outputs, results, strict=True))


def complaint(result: np.ndarray, wanted: np.ndarray, tolerance: float) -> str | None:
    """What is wrong with a result, or None."""
    if result.shape != wanted.shape or result.dtype != wanted.dtype:
        return f"{result.dtype}{result.shape} instead of {wanted.dtype}{wanted.shape}"
    if wanted.dtype.kind != "f":
        return None if np.array_equal(result, wanted) else f"{result} instead of {wanted}"
    if np.isnan(result).any():
        return "NaN"
    error = np.abs(result - wanted).max(initial=0)
    limit = tolerance * max(1.0, float(np.abs(wanted).max(initial=0)))
    return None if error <= limit else f"off by {error:.3g}, allowed {limit:.3g}"


def check(op: Op, device: DeviceInfo, options: KernelOptions, like: DeviceInfo) -> None:
    item = trial(op, op.cases)
    results = play(item, device, options, like)
    wrong = []
    for name, wanted in item.expected.items():
        case = op.cases[int(name[3:].split("_")[0])]
        tolerance = TOLERANCE[options.precision] * case.tolerance
        found = complaint(results[name], wanted, tolerance)
        if found:
            wrong.append(f"{case.inputs} {case.attributes}: {found}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("precision", ["fp32", "mixed", "fp16"])
@pytest.mark.parametrize("name", WITH_KERNELS)
def test_cases(name: str, precision: str, device: DeviceInfo) -> None:
    if precision == "fp16" and not ask_facts(device, ["half_arithmetic"]).half_arithmetic:
        pytest.skip(f"{device.name} does not compute in half precision")
    if precision == "fp16" and name in JUMPING:
        pytest.skip("what half precision rounds may jump to the next whole number")
    check(registry()[name], device, KernelOptions(precision, form="list"), device)


@pytest.mark.parametrize("name", [name for name in WITH_KERNELS if registry()[name].variants])
def test_cases_as_a_gpu_has_them(name: str, device: DeviceInfo) -> None:
    """Kernels with groups of work-items that meet, on whatever device there is."""
    if not device.is_cpu:
        pytest.skip("it has them anyway")
    like = replace(device, kind="gpu", compute_units=16, max_work_group=256, dot_products=False)
    check(registry()[name], device, KernelOptions(form="list"), like)
