"""From kernels to a plan: the program is written, the constants become one block."""

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
    """A plan whose kernels are no text yet. The size of its constants is not known.

    With `runs` each of these is one launch, and the state of the persistent kernel becomes the last
    buffer; `host_protocol` is the buffer by which that kernel speaks with the host, if it does. The
    last run is then one that fetches nothing, and finds each input in one of `inputs_on_device`.
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
    """The plan, of a model or of trials."""
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
    assert not (draft.runs and further), "a persistent kernel looks for its table in one buffer"
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
    """What is launched, and with which arguments where inputs are on the device."""
    if not draft.inputs_on_device:
        return launches, None
    *others, last = launches
    return tuple(others), InputsOnDevice(last.arguments, draft.inputs_on_device)


def _stage_clocks(
    draft: PlanDraft, written: Written, buffer: int, offset: int
) -> StageClocks | None:
    """Where stages note their times: behind the state, which takes up so many bytes."""
    if written.clock is None:
        return None
    (stages,), launch = draft.runs, written.launches[0]
    titles = tuple(StageTitle(stage.kernel.title, stage.node) for stage in stages)
    groups = prod(launch.grid) // prod(launch.local)
    return StageClocks(written.clock, titles, groups, buffer, offset, written.claims)
