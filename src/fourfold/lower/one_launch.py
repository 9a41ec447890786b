"""One launch or several: whether a plan's launches become stages of one, and in which order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import groupby

from fourfold.device import DeviceInfo
from fourfold.kernel.context import Target
from fourfold.kernel.language import Language, Persistent
from fourfold.kernel.stage import MUCH_MEMORY, Stage
from fourfold.kernel.stage_table import row_stride
from fourfold.lower.bind import Bound
from fourfold.lower.levels import LevelSpan
from fourfold.plan import Launch

FEW = 4
FEW_CORES = 16
LITTLE_WORK = 2e7  # operations a launch


@dataclass(frozen=True)
class Load:
    """What all launches do together: operations, and bytes of values that they read and write."""

    work: float
    moved: int


def in_level_order(bound: Sequence[Bound], levels: Sequence[LevelSpan]) -> tuple[Stage, ...]:
    """Stages level by level. In each those come first that end with it; then groups arrive, and
    who crosses the barrier begins.
    """
    order = sorted(range(len(levels)), key=lambda number: (levels[number], number))
    stages = []
    for span, numbers in groupby(order, key=levels.__getitem__):
        some, ends = list(numbers), not span.crosses
        for number in some:
            first, last = ends and number == some[0], ends and number == some[-1]
            item = bound[number]
            what = (item.kernel, item.launch.arguments)
            stages.append(Stage(*what, first, last, item.launch.node))
    return tuple(stages)


def as_stages(bound: Sequence[Bound]) -> tuple[Stage, ...]:
    """Stages one after the other: a grid barrier between two of them."""
    return tuple(Stage(item.kernel, item.launch.arguments) for item in bound)


def table_bytes(bound: Sequence[Bound], ports: int) -> int:
    """What the table of one launch takes at most: each port may have a stage of its own."""
    if not bound:
        return 0
    return 4 * row_stride([item.kernel for item in bound]) * (len(bound) + ports)


def form_key(launches: Sequence[Launch]) -> str:
    """What a plan computes as a whole, as a key for the choice between one launch and several.

    What its entry points are called is known only once there is a text.
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
    """Whether to play the plan as one launch: as asked for, as tuned, or where launches are dear;
    as far as the language can have one, and the device run it.
    """
    persistent, form = language.persistent, target.options.form
    if persistent is None or not bound:
        return False
    if form == "auto":
        dear = _is_dear(len(bound), persistent, target.device, load)
        key = form_key([item.launch for item in bound])
        form = choices.get(key, "one" if dear else "list")
    return form == "one" and persistent.refuses(as_stages(bound), target.device) is None


def _is_dear(launches: int, persistent: Persistent, device: DeviceInfo, load: Load) -> bool:
    """Where a launch costs more than what replaces it: on a large GPU unless it moves so much that
    more groups than one a unit pay; on a few cores always; where groups must spin while they
    wait, only if a launch has little work.
    """
    if launches < FEW:
        return False
    if not device.is_cpu:
        return load.moved / launches < MUCH_MEMORY * device.compute_units
    little = load.work / launches < LITTLE_WORK
    return device.compute_units <= FEW_CORES and (little or persistent.waits_cheaply(device))
