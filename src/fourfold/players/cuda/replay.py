"""Runs put in by one call: launches whose arguments say where ports are, and copies around them."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from math import prod
from typing import NamedTuple

from fourfold.device import DeviceInfo
from fourfold.errors import DeviceError
from fourfold.plan import Argument, BufferUse, Launch, Plan
from fourfold.players.cuda import binding as cu
from fourfold.players.port_buffers import port_buffers, used_buffers


class Copy(NamedTuple):
    """So many bytes from one address to another, of the device's memory or of pinned memory."""

    target: int
    source: int
    size: int


class Route(NamedTuple):
    """Where ports are in one run, by the numbers of their buffers, and what is copied before and
    after its launches. The only launch of a plan may have other arguments than in other runs.
    """

    places: tuple[tuple[int, int], ...]
    before: tuple[Copy, ...] = ()
    after: tuple[Copy, ...] = ()
    arguments: tuple[Argument, ...] | None = None


class LaunchBinder:
    """Makes launches of a plan's, each with every argument set. A run of those that it makes is
    captured in a graph, unless they are to be put in one by one.
    """

    captures = True

    def __init__(
        self, info: DeviceInfo, plan: Plan, module: cu.Module, addresses: Mapping[int, int]
    ) -> None:
        """`addresses` has those buffers that are the same in all runs."""
        self._info, self._plan, self._addresses = info, plan, addresses
        asked = {launch.entry: launch.local_bytes for launch in plan.launches}
        self._functions = {name: module.function(name, size) for name, size in asked.items()}
        self._ports = port_buffers(plan)
        self._waits = plan.requirements.resident_groups > 0
        self._fixed: dict[int, cu.Launch] = {}  # those that see no port, by their numbers

    def bind(self, route: Route) -> list[cu.Launch]:
        """A launch for each of the plan's. Those that see no port are the same for all runs."""
        places = dict(route.places)
        if route.arguments is not None:
            (only,) = self._plan.launches
            return [self._launch(only._replace(arguments=route.arguments), places)]
        bound = []
        for number, launch in enumerate(self._plan.launches):
            if self._ports & used_buffers(launch):
                bound.append(self._launch(launch, places))
                continue
            if number not in self._fixed:
                self._fixed[number] = self._launch(launch, {})
            bound.append(self._fixed[number])
        return bound

    def _launch(self, launch: Launch, places: Mapping[int, int]) -> cu.Launch:
        """A kernel with its arguments: a pointer is an address and a step from there."""
        values: list[cu.Value] = []
        for argument in launch.arguments:
            if isinstance(argument, BufferUse):
                number = argument.buffer
                address = places[number] if number in places else self._addresses[number]
                values += [ctypes.c_ulonglong(address), ctypes.c_longlong(argument.offset)]
            else:
                values.append(ctypes.c_int(argument))
        rest = [1] * (3 - len(launch.grid))
        items = [*launch.local, *rest]
        sizes = zip([*launch.grid, *rest], items, strict=True)
        groups = [size // by for size, by in sizes]
        function = self._functions[launch.entry]
        if self._waits:
            self._check_residency(function, prod(groups), prod(items))
        return cu.Launch(function, groups, items, values, cooperative=self._waits)

    def _check_residency(self, function: cu.Function, groups: int, items: int) -> None:
        """Groups that wait for each other must all be on the GPU at once."""
        most = function.groups_at_once(items) * self._info.compute_units
        if groups > most:
            why = f"{groups} groups wait for each other, and {self._info.name} holds {most} at once"
            fix = "set FOURFOLD_LAUNCHES=list"
            raise DeviceError("the plan cannot run as one launch", why, fix)


class Replay:
    """A run by one route. Put in for the second time it is captured in a graph, which takes longer
    than putting it in once.
    """

    def __init__(self, route: Route, binder: LaunchBinder) -> None:
        self.route, self.launches = route, binder.bind(route)
        self._captures = binder.captures
        self._graph: cu.Graph | None = None
        self._was_put = self._was_captured = False
        self.is_released = False

    @property
    def stays_on_device(self) -> bool:
        """Whether it reads nothing of the host's, and nothing is copied behind it."""
        return self.route.arguments is not None and not self.route.after

    def put(self, stream: cu.Stream) -> None:
        """Put it into a stream."""
        if self._was_put and not self._was_captured:
            self.capture()
        self._was_put = True
        if self._graph is None:
            self._put_all(stream)
        else:
            self._graph.launch(stream)

    def capture(self) -> None:
        """Make a graph of it. Some drivers capture no cooperative launches: they are put in one by
        one.
        """
        self._was_captured = True
        if not self._captures:
            return
        try:
            self._graph = cu.Graph(self._put_all)
        except cu.Error as error:
            if error.lost or error.out_of_memory:
                raise

    def _put_all(self, stream: cu.Stream) -> None:
        for one in self.route.before:
            stream.copy(*one)
        for launch in self.launches:
            launch.put(stream)
        for one in self.route.after:
            stream.copy(*one)

    def release(self) -> None:
        self.is_released = True
        graph, self._graph = self._graph, None
        if graph is not None:
            graph.release()


class LastRun:
    """Knows into which stream the last run was put, for those who wait for it from wherever they
    are: into its `own`, or into another as long as it `is_alone`, without runs in flight.
    """

    def __init__(self, context: cu.Context, own: cu.Stream) -> None:
        self.context, self.own, self._stream = context, own, own
        self.is_alone = True

    def share(self) -> cu.Stream:
        """Its own stream, for runs in flight."""
        self.is_alone = False
        return self.own

    def put(self, replay: Replay, stream: cu.Stream) -> None:
        self._stream = stream
        replay.put(stream)

    def finish(self) -> None:
        """Wait for it, and for all before it."""
        with self.context:
            self._stream.finish()


def launch_seconds(launches: Sequence[cu.Launch], stream: cu.Stream) -> list[float]:
    """What each of these launches takes, one after the other."""
    events = [cu.Event(timed=True) for _ in range(len(launches) + 1)]
    try:
        events[0].record(stream)
        for event, launch in zip(events[1:], launches, strict=True):
            launch.put(stream)
            event.record(stream)
        stream.finish()
        pairs = zip(events[1:], events[:-1], strict=True)
        return [event.seconds_from(first) for event, first in pairs]
    finally:
        for event in events:
            event.release()
