"""Assembles a plan: writes the program, and joins the constants into one block."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from fourfold.kernel.context import Target
from fourfold.kernel.language import Language
from fourfold.kernel.stage import Stage
from fourfold.lower.bind import Bound
from fourfold.lower.constants import Constants
from fourfold.lower.program import Written, write_list, write_one
from fourfold.lower.requirements import find_requirements
from fourfold.plan import CONSTANTS, Buffer, InputsOnDevice, Launch, Plan, Port
from fourfold.plan.shared_constants import share_constants
from fourfold.plan.stage_clocks import StageClocks, StageTitle


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
    launches, on_device = _without_fetching(draft, written.launches)
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
        precision=target.options.precision,
        requirements=find_requirements(written, buffers, target),
        flops=draft.flops,
        on_device=on_device,
        clocks=clocks,
    )


def _without_fetching(
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
