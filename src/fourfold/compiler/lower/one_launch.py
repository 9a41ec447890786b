"""Decides whether a plan's launches become stages of one launch, and in which order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import groupby

from fourfold.codegen.context import Target
from fourfold.codegen.language import Language, Persistent
from fourfold.codegen.stage import MAX_BYTES_PER_UNIT, Stage
from fourfold.codegen.stage_table import row_stride
from fourfold.compiler.lower.bind import Bound
from fourfold.compiler.lower.levels import LevelSpan
from fourfold.device import DeviceInfo
from fourfold.plan import Launch

MIN_LAUNCHES = 4
MAX_CPU_CORES = 16
MAX_LAUNCH_FLOPS = 2e7  # operations per launch


@dataclass(frozen=True)
class Load:
    """The totals of all launches: operations, and bytes of values that they read and write."""

    work: float
    moved: int


def in_level_order(bound: Sequence[Bound], levels: Sequence[LevelSpan]) -> tuple[Stage, ...]:
    """Return stages level by level.

    In each level, stages that end with it come first; then groups arrive at the barrier, and stages
    that cross it begin.
    """
    order = sorted(range(len(levels)), key=lambda number: (levels[number], number))
    stages = []
    for span, numbers in groupby(order, key=levels.__getitem__):
        members, ends = list(numbers), not span.crosses
        for number in members:
            first, last = ends and number == members[0], ends and number == members[-1]
            item = bound[number]
            launch = item.launch
            stages.append(Stage(item.kernel, launch.arguments, first, last, launch.node))
    return tuple(stages)


def as_stages(bound: Sequence[Bound]) -> tuple[Stage, ...]:
    """Return stages one after the other, with a grid barrier between each two."""
    return tuple(Stage(item.kernel, item.launch.arguments) for item in bound)


def table_bytes(bound: Sequence[Bound], ports: int) -> int:
    """Return the maximum size of the table of one launch: each port may have a stage of its own."""
    if not bound:
        return 0
    return 4 * row_stride([item.kernel for item in bound]) * (len(bound) + ports)


def form_key(launches: Sequence[Launch]) -> str:
    """Return a key of the whole plan, for the choice between one launch and several.

    Entry points have no names before the text is written, so titles are used instead.
    """
    lines = (str(launch._replace(entry=launch.title)) for launch in launches)
    digest = blake2b("".join(lines).encode(), digest_size=16)
    return f"launches of {len(launches)} kernels {digest.hexdigest()}"


def wants_one_launch(
    bound: Sequence[Bound],
    language: Language,
    target: Target,
    choices: Mapping[str, str],
    load: Load,
) -> bool:
    """Return whether to run as one launch: as requested, as tuned, or if launches are costly.

    The language must support it and the device be able to run it.
    """
    persistent, form = language.persistent, target.options.form
    if persistent is None or not bound:
        return False
    if form == "auto":
        expensive = _launches_are_expensive(len(bound), persistent, target.device, load)
        key = form_key([item.launch for item in bound])
        form = choices.get(key, "one" if expensive else "list")
    return form == "one" and persistent.refuses(as_stages(bound), target.device) is None


def _launches_are_expensive(
    launches: int, persistent: Persistent, device: DeviceInfo, load: Load
) -> bool:
    """Return whether launches cost more than grid barriers.

    That holds on a GPU, unless launches move so much memory that more than one group per compute
    unit pays off. It holds on CPUs with few cores, if waiting groups sleep; if they must spin, only
    if launches have little work.
    """
    if launches < MIN_LAUNCHES:
        return False
    if not device.is_cpu:
        return load.moved / launches < MAX_BYTES_PER_UNIT * device.compute_units
    has_little_work = load.work / launches < MAX_LAUNCH_FLOPS
    return device.compute_units <= MAX_CPU_CORES and (
        has_little_work or persistent.waits_cheaply(device)
    )
