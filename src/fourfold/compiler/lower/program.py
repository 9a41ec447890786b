"""Writes the text of a plan's kernels: each kernel is rendered once, as a launch or as a stage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from fourfold.codegen.context import Target
from fourfold.codegen.kernel import Kernel
from fourfold.codegen.language import Language, Prelude
from fourfold.codegen.stage import Stage, folded_launch
from fourfold.codegen.stage_table import local_memory
from fourfold.codegen.walk import Node, special_nodes
from fourfold.compiler.lower.bind import Bound
from fourfold.compiler.lower.constants import Constants
from fourfold.plan import Argument, BufferUse, Launch, Program
from fourfold.plan.stage_clocks import StageClock

_ANY = "entry_of_any_name"  # placeholder for the name until the text is known to be new


@dataclass(frozen=True)
class Written:
    """A program with its launches, and one kernel of each text in it.

    `resident_groups` is the number of groups of a launch that wait for each other, so that all must
    be resident at once. With `claims`, groups wait for work that others have claimed. `clock` is
    the clock with which they record their times.
    """

    program: Program
    launches: tuple[Launch, ...]
    kernels: tuple[Kernel, ...]
    special: tuple[Node, ...]  # of all kernels
    prelude: Prelude
    resident_groups: int = 0
    claims: bool = False
    clock: StageClock | None = None


def write_list(bound: Sequence[Bound], language: Language, target: Target) -> Written:
    """Write each kernel as an entry point; equal texts share one, named by title and number."""
    entries: dict[str, tuple[str, Kernel]] = {}
    counts: dict[str, int] = {}
    launches = []
    for item in bound:
        title = item.kernel.title
        text = language.render(item.kernel, _ANY, item.images, item.buffers)
        if text not in entries:
            number = counts.get(title, 0)
            counts[title] = number + 1
            entries[text] = (f"{title}_{number}", item.kernel)
        local_bytes = _launch_memory(item.kernel, target)
        launch = item.launch._replace(entry=entries[text][0], local_bytes=local_bytes)
        grid, local = folded_launch(launch.grid, launch.local, language.capabilities.max_groups)
        launches.append(launch._replace(grid=grid, local=local))
    kernels = tuple(kernel for _, kernel in entries.values())
    special = tuple(special_nodes(kernels))
    prelude = language.prelude(special, target)
    named = (text.replace(_ANY, name) for text, (name, _) in entries.items())
    program = Program("\n".join([prelude.text, *named]), prelude.build_options)
    return Written(
        program=program, launches=tuple(launches), kernels=kernels, special=special, prelude=prelude
    )


def _launch_memory(kernel: Kernel, target: Target) -> int:
    """Return the local memory that a launch must allocate; 0 if the kernel declares it itself."""
    declared = target.capabilities.declared_local_memory
    needed = local_memory([kernel], 0) if declared else 0
    return needed if needed > declared else 0


def write_one(
    runs: Sequence[Sequence[Stage]],
    constants: Constants,
    language: Language,
    target: Target,
    buffers: int,
    host_protocol: int | None,
) -> Written:
    """Write one kernel for all stages, and a launch and a constant table for each run."""
    assert language.persistent is not None
    clock = language.persistent.stage_clock(target.device) if target.options.clocked else None
    joined = language.persistent.join(runs, target.device, buffers, host_protocol, clock)
    uses = tuple(BufferUse(number, 0) for number in range(buffers))
    launches = []
    for stages, run in zip(runs, joined.runs, strict=True):
        arguments: tuple[Argument, ...] = (*uses, len(stages), constants.offset(run.table))
        launch = Launch(
            entry=joined.entry,
            arguments=arguments,
            grid=joined.grid,
            local=joined.local,
            title=joined.entry,
            node=run.title,
            stages=len(stages),
            local_bytes=joined.local_bytes,
        )
        launches.append(launch)
    special = tuple(special_nodes(joined.kernels))
    prelude = language.prelude(special, target)
    options = prelude.build_options + ("" if clock is None else clock.build_options)
    program = Program(prelude.text + joined.text, options)
    shares = language.persistent.shares(target.device)
    groups = prod(joined.grid) // prod(joined.local) if shares else 0
    return Written(
        program=program,
        launches=tuple(launches),
        kernels=joined.kernels,
        special=special,
        prelude=prelude,
        resident_groups=groups,
        claims=not shares,
        clock=clock,
    )
