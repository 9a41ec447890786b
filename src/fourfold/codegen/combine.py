"""Reductions over the work-items of a group: by sub-group exchange, then through local memory.

Work-items of one sub-group (NVIDIA: a warp) exchange values without memory and without a barrier.
The compiler knows the size of a sub-group; at planning time it is often unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import NamedTuple

from fourfold.codegen.expression import (
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
from fourfold.codegen.intrinsics import subgroup_exchange, subgroup_size
from fourfold.codegen.kernel import Kernel, Variable
from fourfold.device import DeviceInfo

FULL_GROUP = 64  # work-items that keep a compute unit of a GPU busy
MAX_DIRECT_READS = 8  # up to this many values, every lane reads all of them itself
MAX_EXCHANGE_LANES = 64  # lanes that exchange if the size of a sub-group is unknown


Combine = Callable[[Expression, Expression], Expression]


class Team(NamedTuple):
    """Work-items that reduce their values together.

    `lane` is this work-item's index, `lanes` the number of work-items, and `together` the number of
    neighbours that already hold the same partial result.
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
    """Return the index of this work-item's team and its lane in the team.

    Each team has its own group, or several share one if they are small.
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
        # All work-items must reach the barriers: those beyond the last team repeat its work.
        team = kernel.let(minimum(team, kernel.size("last_team", teams - 1)), "team")
    return team, lane


def _teams_in_group(device: DeviceInfo, teams: int, lanes: int) -> int:
    """Return how many teams fill a group; one if groups are resident."""
    if device.is_cpu or device.resident:
        return 1
    together, max_items = 1, min(FULL_GROUP, device.max_work_group)
    while together < teams and together * 2 * lanes <= max_items:
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
    """Reduce each variable over the `lanes` work-items along a local axis; all get the result.

    `row` distinguishes rows of lanes in one group, by default its teams. A group of one lane emits
    nothing.
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
    """Reduce each variable over as many neighbours of a team as can exchange values.

    Teams follow each other along the first local axis. The value of the lower lane is always the
    first operand, so that all lanes compute identical results.
    """
    lane, lanes, _ = team
    reach = _reach(kernel, lanes)
    if reach.number == 1:
        return team
    widest = min(lanes, MAX_EXCHANGE_LANES if reach.number is None else int(reach.number))
    for apart in (1 << step for step in range(widest.bit_length() - 1)):
        with kernel.when(reach > apart):
            lower = kernel.let((lane // apart % 2).equals(0), "lower")
            for value in values:
                other = kernel.let(exchanged(value, apart), "other")
                kernel.set(value, combine(where(lower, value, other), where(lower, other, value)))
    return Team(lane, lanes, kernel.let(minimum(reach, widest), "together"))


def exchanged(value: Expression, apart: int) -> Expression:
    """Return the value of the work-item whose index differs in the bit `apart`."""
    if value.kind in ("half", "bool"):
        moved = exchanged(convert(value, "float" if value.kind == "half" else "int"), apart)
        return convert(moved, value.kind)
    lanes = [_exchanged_word(value.lane(number), apart) for number in range(value.width)]
    return vector(*lanes) if value.width > 1 else lanes[0]


def _exchanged_word(value: Expression, apart: int) -> Expression:
    return bitcast(subgroup_exchange(bitcast(value, "float"), apart), value.kind)


def _reach(kernel: Kernel, lanes: int) -> Expression:
    """Return how many neighbours can exchange. A constant means that all must do so together."""
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
    """Reduce each variable over a team through local memory, at the offset given with it."""
    lane, lanes, together = team
    parts = lanes // together
    with kernel.when(together < lanes):
        with kernel.when((lane % together).equals(0)):
            for offset, value in values:
                kernel.store(shared, offset + lane // together, value)
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
    """Let every lane reduce `parts` values from local memory."""
    for offset, value in values:
        kernel.set(value, load(shared, offset, value.kind, value.width))
        with kernel.loop(parts, 1, title="part") as part:
            held = load(shared, offset + part, value.kind, value.width)
            kernel.set(value, combine(value, held))


def _read_known(
    kernel: Kernel,
    shared: Pointer,
    values: list[tuple[Expression, Variable]],
    share: tuple[Expression, int],
    combine: Combine,
) -> None:
    """Reduce a known number of values from local memory.

    If there are many, some lanes reduce a share each first, and then all lanes reduce the results.
    Reading a few values takes less time than one more barrier.
    """
    lane, parts = share
    left = parts
    if parts > MAX_DIRECT_READS:
        left = 1 << (parts.bit_length() // 2)
        with kernel.when(lane < left):
            for offset, value in values:
                held = _Held(kernel, shared, offset, value, lane)
                kernel.store(shared, offset + lane, held.combined(combine, parts // left, left))
        kernel.barrier()
    for offset, value in values:
        held = _Held(kernel, shared, offset, value)
        kernel.set(value, held.combined(combine, left))


class _Held(NamedTuple):
    """Values that lanes stored in local memory, starting at `place` plus `lane`."""

    kernel: Kernel
    shared: Pointer
    offset: Expression
    value: Expression
    lane: Expression = const(0)

    def combined(self, combine: Combine, count: int, apart: int = 1) -> Expression:
        """Reduce `count` values that are `apart` elements apart."""
        if not self.kernel.short or count <= MAX_DIRECT_READS // 2:
            return reduce(combine, (self._at(number * apart) for number in range(count)))
        total = self.kernel.variable(self._at(0), "held")
        with self.kernel.loop(count * apart, apart, apart, title="part") as part:
            self.kernel.set(total, combine(total, self._at(part)))
        return total

    def _at(self, number: Operand) -> Expression:
        index = self.offset + self.lane + number
        return load(self.shared, index, self.value.kind, self.value.width)
