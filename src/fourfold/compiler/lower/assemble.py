"""Assembles a plan: its program, its constants in one block, and its device requirements.

Requirements follow from kernel trees, launches and buffers. Loop iterations are estimated from the
sizes of a kernel.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod

from fourfold.codegen.context import Target
from fourfold.codegen.expression import Expression
from fourfold.codegen.kernel import Kernel
from fourfold.codegen.language import Language
from fourfold.codegen.stage import Stage
from fourfold.codegen.stage_table import local_memory
from fourfold.codegen.statement import (
    Branch,
    CopyAhead,
    Declare,
    DiagonalMultiply,
    DotAccumulate,
    Loop,
    MatrixMultiply,
    Statement,
    StoreRounded,
    StoreRoundedBlock,
    WarpgroupMultiply,
)
from fourfold.codegen.walk import Node
from fourfold.compiler.lower.bind import Bound
from fourfold.compiler.lower.constants import Constants
from fourfold.compiler.lower.program import Written, write_list, write_one
from fourfold.device import MAX_LOOP_ITERATIONS
from fourfold.plan import (
    CONSTANT_ALIGNMENT,
    CONSTANTS,
    Buffer,
    BufferUse,
    InputsOnDevice,
    Launch,
    Plan,
    Port,
)
from fourfold.plan.requirements import ImageNeed, Requirements, hardest_images
from fourfold.plan.shared_constants import share_constants
from fourfold.plan.stage_clocks import StageClocks, StageTitle

# The device fact that each special node requires.
_FACTS: dict[object, str] = {
    MatrixMultiply: "matrix_units",
    DiagonalMultiply: "matrix_units",
    CopyAhead: "matrix_units",
    WarpgroupMultiply: "warpgroups",
    "load_words": "matrix_units",
    "load_words_streamed": "matrix_units",
    "load_double_words": "matrix_units",
    "pack_halves": "matrix_units",
    "unpack_halves": "matrix_units",
    "subgroup_shift": "matrix_units",
    "subgroup_size": "subgroups",
    "subgroup_exchange": "subgroups",
    DotAccumulate: "dot_products",
    StoreRounded: "packs_bytes",
    StoreRoundedBlock: "packs_bytes",
    "load_bytes": "packs_bytes",
    "load_taps": "packs_bytes",
}


def find_requirements(written: Written, buffers: Sequence[Buffer], target: Target) -> Requirements:
    """Return the requirements of a plan written for this target."""
    device, prelude = target.device, written.prelude
    facts = prelude.facts | _used_facts(written.special)
    host = any(buffer.kind == "host" for buffer in buffers)
    group = max((prod(launch.local) for launch in written.launches), default=1)
    persistent = group if written.resident_groups else 0
    return Requirements(
        language=device.language,
        language_version=prelude.version,
        half_arithmetic=any(kernel.real == "half" for kernel in written.kernels),
        matrix_units="matrix_units" in facts,
        warpgroups=device.warpgroups if "warpgroups" in facts else "",
        subgroups=(device.subgroups or "ptx") if "subgroups" in facts else "",
        dot_products=device.dot_products if "dot_products" in facts else "",
        packs_bytes="packs_bytes" in facts,
        resident_groups=written.resident_groups,
        forward_progress=written.claims,
        reaches_host=host,
        address_bits=64 if host else 0,
        work_group=group,
        local_memory=local_memory(written.kernels, persistent, len(buffers)),
        loop_rounds=_required_rounds(written, target),
        buffer_bytes=max((buffer.bytes for buffer in buffers), default=0),
        alignment=CONSTANT_ALIGNMENT,
        images=hardest_images(_images(written.launches)),
    )


def _required_rounds(written: Written, target: Target) -> int:
    """Return the most loop iterations of a kernel, if not every device supports as many."""
    if not target.capabilities.counted_rounds:
        return 0
    longest = max(map(loop_rounds, written.kernels), default=0)
    return longest if longest > MAX_LOOP_ITERATIONS else 0


def _used_facts(special: Iterable[Node]) -> set[str]:
    """Return the device facts that kernels require, according to their special nodes."""
    nodes: set[object] = set()
    for item in special:
        if not isinstance(item, Expression):
            nodes.add(type(item))
        # unconditional loads need no special support
        elif item.op != "load_words" or len(item.operands) > 2:
            nodes.add(item.op)
    return {_FACTS[node] for node in nodes if node in _FACTS}


def _images(launches: Iterable[Launch]) -> Iterable[ImageNeed]:
    arguments = (argument for launch in launches for argument in launch.arguments)
    for use in arguments:
        if isinstance(use, BufferUse) and use.image is not None:
            texel = 4 * use.image.dtype.size
            yield ImageNeed(use.end_of_image, use.image.shape[0], texel)


_Values = dict[str, int]  # values of names


def loop_rounds(kernel: Kernel) -> int:
    """Return the iterations of all loops, inner ones once for each iteration of the outer one.

    A loop whose end the kernel computes from data counts once.
    """
    return _count_rounds(kernel.body, dict(kernel.sizes))


def _count_rounds(body: Iterable[Statement], values: _Values) -> int:
    total = 0
    for statement in body:
        match statement:
            case Declare(target, value):
                number = _value(value, values)
                if number is not None:
                    values[str(target.operands[0])] = number
            case Loop(variable, start, stop, step):
                inner = _count_rounds(statement.body, {**values, str(variable.operands[0]): 0})
                total += _count_trips(start, stop, step, values) * (1 + inner)
            case Branch():
                total += max(
                    _count_rounds(statement.body, values),
                    _count_rounds(statement.otherwise, values),
                )
    return total


def _count_trips(start: Expression, stop: Expression, step: Expression, values: _Values) -> int:
    """Return the iterations of the work-item that begins first."""
    end, by = _value(stop, values), _value(step, values)
    if end is None or not by:
        return 1
    return max(0, -(-(end - (_value(start, values) or 0)) // by))


def _value(item: Expression, values: _Values) -> int | None:
    """Return the value of an integer expression if it is known, of a selection the larger operand.

    A selection with an unknown operand is unknown: for example the end of a window, which the
    work-item computes, limited by the end of all windows.
    """
    if item.kind != "int" or item.width != 1:
        return None
    if item.number is not None:
        return int(item.number)
    if item.op == "name":
        return values.get(str(item.operands[0]))
    if item.op == "where":
        chosen = [_value(part, values) for part in item.operands[1:]]
        numbers = [one for one in chosen if one is not None]
        return max(numbers) if len(numbers) == len(chosen) else None
    if item.op not in ("+", "-", "*", "/", "%"):
        return None
    a, b = (_value(part, values) for part in item.operands)
    return None if a is None or b is None else _evaluate(item.op, a, b)


def _evaluate(op: str, a: int, b: int) -> int | None:
    if op in ("/", "%"):
        return None if b == 0 else a // b if op == "/" else a % b
    return a + b if op == "+" else a - b if op == "-" else a * b


@dataclass(frozen=True, eq=False)
class PlanDraft:
    """A plan whose kernels are not rendered yet and whose constants have no final size.

    With `runs`, each of them is one launch, and the state of the persistent kernel becomes the last
    buffer. `host_protocol` is the buffer for its handshake with the host, if any. The last run is
    then one without fetches, which finds each input in one of `inputs_on_device`.
    """

    name: str
    bound: tuple[Bound, ...]
    buffers: tuple[Buffer, ...]
    inputs: tuple[Port, ...] = ()
    outputs: tuple[Port, ...] = ()
    runs: tuple[tuple[Stage, ...], ...] = ()
    host_protocol: int | None = None
    inputs_on_device: tuple[int, ...] = ()
    flops: float | None = None


def assemble(draft: PlanDraft, constants: Constants, language: Language, target: Target) -> Plan:
    """Return the plan of a model or of probes."""
    buffers, clocks = [*draft.buffers], None
    if draft.runs:
        assert language.persistent is not None
        longest = max(map(len, draft.runs))
        size = language.persistent.state_bytes(longest, target.device)
        buffers.append(Buffer("state", "state", size))
        written = write_one(
            draft.runs, constants, language, target, len(buffers), draft.host_protocol
        )
        clocks = _stage_clocks(draft, written, len(buffers) - 1, size)
        if clocks is not None:
            buffers[-1] = Buffer("state", "state", size + clocks.bytes)
    else:
        written = write_list(draft.bound, language, target)
    blob = share_constants(constants.blob())
    buffers[CONSTANTS], *further = constants.buffers()
    launches, on_device = _split_off_device_inputs(draft, written.launches)
    assert not (draft.runs and further), "a persistent kernel needs all constants in one buffer"
    buffers += further
    return Plan(
        name=draft.name,
        program=written.program,
        buffers=tuple(buffers),
        launches=launches,
        inputs=draft.inputs,
        outputs=draft.outputs,
        constants=blob,
        pieces=tuple(constants.layouts),
        precision=target.options.precision,
        requirements=find_requirements(written, buffers, target),
        flops=draft.flops,
        on_device=on_device,
        clocks=clocks,
    )


def _split_off_device_inputs(
    draft: PlanDraft, launches: tuple[Launch, ...]
) -> tuple[tuple[Launch, ...], InputsOnDevice | None]:
    """Return the launches, and the arguments for inputs that are already on the device."""
    if not draft.inputs_on_device:
        return launches, None
    *others, last = launches
    return tuple(others), InputsOnDevice(last.arguments, draft.inputs_on_device)


def _stage_clocks(
    draft: PlanDraft, written: Written, buffer: int, offset: int
) -> StageClocks | None:
    """Return where stages record their times: after the state of `offset` bytes."""
    if written.clock is None:
        return None
    (stages,), launch = draft.runs, written.launches[0]
    titles = tuple(StageTitle(stage.kernel.title, stage.node) for stage in stages)
    groups = prod(launch.grid) // prod(launch.local)
    return StageClocks(written.clock, titles, groups, buffer, offset, written.claims)
