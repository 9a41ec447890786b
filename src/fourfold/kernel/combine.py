"""Combining what the work-items of a group hold: by exchange as far as that reaches, then through
local memory.

Neighbours of one sub-group (a warp, as NVIDIA calls it) hand each other numbers without memory and
without a barrier. How many they are a compiler knows, and we often do not.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import NamedTuple

from fourfold.device import DeviceInfo
from fourfold.kernel.expression import (
    Expression,
    Operand,
    Pointer,
    bitcast,
    const,
    convert,
    lift,
    load,
    minimum,
    vector,
    where,
)
from fourfold.kernel.intrinsics import subgroup_exchange, subgroup_size
from fourfold.kernel.kernel import Kernel, Variable

FULL_GROUP = 64  # work-items that keep a GPU's unit busy
FEW = 8  # lanes whose numbers each of them can as well read itself
WIDEST = 64  # lanes that exchange at most where the size of a sub-group is not known


Combine = Callable[[Expression, Expression], Expression]


class Team(NamedTuple):
    """Work-items that combine what they hold: this one's place, how many they are, and how many
    neighbours among them already have the same.
    """

    lane: Expression
    lanes: int
    together: Expression = const(1)

    @property
    def is_done(self) -> bool:
        return self.together.number == self.lanes


def team_ids(
    kernel: Kernel, device: DeviceInfo, teams: int, lanes: int
) -> tuple[Expression, Expression]:
    """The number of this work-item's team, and its lane in it. Teams have groups of their own, or
    share one where they are small.
    """
    together = _teams_in_group(device, teams, lanes)
    if together == 1:
        (item,) = kernel.ids(teams * lanes, local=(lanes,))
        return kernel.let(item // lanes, "team"), kernel.let(kernel.local_id(0), "lane")
    if lanes == 1:
        (team,) = kernel.ids(teams, local=(together,))
        return team, const(0)
    lane, team = kernel.ids(lanes, teams, local=(lanes, together), stay=True)
    if teams % together:
        # All must reach the barriers: those beyond the last team do once more what it does.
        team = kernel.let(minimum(team, kernel.size("last_team", teams - 1)), "team")
    return team, lane


def _teams_in_group(device: DeviceInfo, teams: int, lanes: int) -> int:
    """As many as make a group worth launching; the stages of one launch share its groups anyway."""
    if device.is_cpu or device.resident:
        return 1
    together, most = 1, min(FULL_GROUP, device.max_work_group)
    while together < teams and together * 2 * lanes <= most:
        together *= 2
    return together


def group_combine(
    kernel: Kernel,
    values: list[Variable],
    lanes: int,
    combine: Combine,
    axis: int = 0,
    row: Operand | None = None,
) -> None:
    """Combine each variable over the `lanes` work-items along a local axis; all get the result.

    `row` tells rows of lanes in one group apart, which by default are its teams; a group of one
    lane needs nothing.
    """
    team = Team(kernel.local_id(axis), lanes)
    if axis == 0:
        team = exchange(kernel, values, team, combine)
    if team.is_done:
        return
    rows = kernel.local_items // lanes
    if row is None:
        row = kernel.local_id(1) if rows > 1 else const(0)
    kind, width = values[0].kind, values[0].width
    shared = kernel.local_array("shared", kind, width, lanes * rows * len(values))
    shelves = [kernel.let((lift(row) + n * rows) * lanes, "shelf") for n in range(len(values))]
    combine_lanes(kernel, shared, list(zip(shelves, values, strict=True)), team, combine)


def exchange(kernel: Kernel, values: list[Variable], team: Team, combine: Combine) -> Team:
    """Combine each variable over as many neighbours of a team as can hand each other numbers.

    Teams follow each other along the first local axis. What the lower lane holds comes first, so
    that all compute the very same.
    """
    lane, lanes, _ = team
    reach = _reach(kernel, lanes)
    if reach.number == 1:
        return team
    widest = min(lanes, WIDEST if reach.number is None else int(reach.number))
    for apart in (1 << step for step in range(widest.bit_length() - 1)):
        with kernel.when(reach > apart):
            lower = kernel.let((lane // apart % 2).equals(0), "lower")
            for value in values:
                other = kernel.let(exchanged(value, apart), "other")
                pair = where(lower, value, other), where(lower, other, value)
                kernel.set(value, combine(*pair))
    return Team(lane, lanes, kernel.let(minimum(reach, widest), "together"))


def exchanged(value: Expression, apart: int) -> Expression:
    """What the work-item so far away holds of a value: its number differs in that one bit."""
    if value.kind in ("half", "bool"):
        moved = exchanged(convert(value, "float" if value.kind == "half" else "int"), apart)
        return convert(moved, value.kind)
    lanes = [_exchanged_word(value.lane(number), apart) for number in range(value.width)]
    return vector(*lanes) if value.width > 1 else lanes[0]


def _exchanged_word(value: Expression, apart: int) -> Expression:
    return bitcast(subgroup_exchange(bitcast(value, "float"), apart), value.kind)


def _reach(kernel: Kernel, lanes: int) -> Expression:
    """How many neighbours can exchange. Where that is a known number, all of them must at once."""
    size = kernel.subgroup_size
    if lanes == 1 or lanes & (lanes - 1) or (size is not None and lanes < size):
        return const(1)
    return kernel.let(subgroup_size(), "reach") if size is None else const(size)


def combine_lanes(
    kernel: Kernel,
    shared: Pointer,
    values: list[tuple[Expression, Variable]],
    team: Team,
    combine: Combine,
) -> None:
    """Combine each variable over a team, by what lies at its place in local memory."""
    lane, lanes, together = team
    parts = lanes // together
    with kernel.when(together < lanes):
        with kernel.when((lane % together).equals(0)):
            for place, value in values:
                kernel.store(shared, place + lane // together, value)
        kernel.barrier()
        if parts.number is None:
            _read_any(kernel, shared, values, parts, combine)
        else:
            _read_known(kernel, shared, values, (lane, int(parts.number)), combine)
        kernel.barrier()


def _read_any(
    kernel: Kernel,
    shared: Pointer,
    values: list[tuple[Expression, Variable]],
    parts: Expression,
    combine: Combine,
) -> None:
    """All combine what so many left in local memory."""
    for place, value in values:
        kernel.set(value, load(shared, place, value.kind, value.width))
        with kernel.loop(parts, 1, title="part") as part:
            held = load(shared, place + part, value.kind, value.width)
            kernel.set(value, combine(value, held))


def _read_known(
    kernel: Kernel,
    shared: Pointer,
    values: list[tuple[Expression, Variable]],
    share: tuple[Expression, int],
    combine: Combine,
) -> None:
    """The same where their number is known: what many left is combined by some first, each its
    share, and then by all. To read a few numbers takes less time than one more barrier.
    """
    lane, parts = share
    left = parts
    if parts > FEW:
        left = 1 << (parts.bit_length() // 2)
        with kernel.when(lane < left):
            for place, value in values:
                held = _Held(kernel, shared, place, value, lane)
                kernel.store(shared, place + lane, held.combined(combine, parts // left, left))
        kernel.barrier()
    for place, value in values:
        held = _Held(kernel, shared, place, value)
        kernel.set(value, held.combined(combine, left))


class _Held(NamedTuple):
    """What lanes left in local memory of a value, from a place on, or from a lane behind it."""

    kernel: Kernel
    shared: Pointer
    place: Expression
    value: Expression
    lane: Expression = const(0)

    def combined(self, combine: Combine, count: int, apart: int = 1) -> Expression:
        """So many of them, a step apart; by a loop where text is to be short."""
        if not self.kernel.short or count <= FEW // 2:
            return reduce(combine, (self._at(number * apart) for number in range(count)))
        total = self.kernel.variable(self._at(0), "held")
        with self.kernel.loop(count * apart, apart, apart, title="part") as part:
            self.kernel.set(total, combine(total, self._at(part)))
        return total

    def _at(self, number: Operand) -> Expression:
        place = self.place + self.lane + number
        return load(self.shared, place, self.value.kind, self.value.width)
