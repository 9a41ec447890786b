"""Runs submitted with one call: launches with bound arguments, and the copies around them."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from math import prod
from typing import NamedTuple

from fourfold.backends.cuda import binding as cu
from fourfold.backends.port_buffers import port_buffers, used_buffers
from fourfold.device import DeviceInfo
from fourfold.errors import DeviceError
from fourfold.plan import Argument, BufferUse, Launch, Plan


class Copy(NamedTuple):
    """A copy between two addresses of device memory or pinned memory, in bytes."""

    target: int
    source: int
    size: int


class Route(NamedTuple):
    """Addresses of the ports of one run by buffer number, and the copies before and after its
    launches.

    `arguments` replaces those of the only launch of a plan, if set.
    """

    addresses: tuple[tuple[int, int], ...]
    before: tuple[Copy, ...] = ()
    after: tuple[Copy, ...] = ()
    arguments: tuple[Argument, ...] | None = None


class LaunchBinder:
    """Creates the launches of a plan with all arguments set. A run of them is captured in a graph
    if `captures` is set.
    """

    captures = True

    def __init__(
        self, info: DeviceInfo, plan: Plan, module: cu.Module, addresses: Mapping[int, int]
    ) -> None:
        """`addresses` has those buffers that are the same in all runs."""
        self._info, self._plan, self._addresses = info, plan, addresses
        local_sizes = {launch.entry: launch.local_bytes for launch in plan.launches}
        self._functions = {name: module.function(name, size) for name, size in local_sizes.items()}
        self._ports = port_buffers(plan)
        self._is_cooperative = plan.requirements.resident_groups > 0
        self._fixed: dict[int, cu.Launch] = {}  # launches that use no port, by number

    def bind(self, route: Route) -> list[cu.Launch]:
        """Return a launch for each of the plan's. Launches that use no port are
        shared by all runs.
        """
        addresses = dict(route.addresses)
        if route.arguments is not None:
            (only,) = self._plan.launches
            return [self._launch(only._replace(arguments=route.arguments), addresses)]
        bound = []
        for number, launch in enumerate(self._plan.launches):
            if self._ports & used_buffers(launch):
                bound.append(self._launch(launch, addresses))
                continue
            if number not in self._fixed:
                self._fixed[number] = self._launch(launch, {})
            bound.append(self._fixed[number])
        return bound

    def _launch(self, launch: Launch, addresses: Mapping[int, int]) -> cu.Launch:
        """Bind a kernel's arguments: a pointer is an address and an offset."""
        values: list[cu.Value] = []
        for argument in launch.arguments:
            if isinstance(argument, BufferUse):
                number = argument.buffer
                address = addresses[number] if number in addresses else self._addresses[number]
                values += [ctypes.c_ulonglong(address), ctypes.c_longlong(argument.offset)]
            else:
                values.append(ctypes.c_int(argument))
        padding = [1] * (3 - len(launch.grid))
        items = [*launch.local, *padding]
        sizes = zip([*launch.grid, *padding], items, strict=True)
        groups = [size // by for size, by in sizes]
        function = self._functions[launch.entry]
        if self._is_cooperative:
            self._check_residency(function, prod(groups), prod(items))
        return cu.Launch(function, groups, items, values, cooperative=self._is_cooperative)

    def _check_residency(self, function: cu.Function, groups: int, items: int) -> None:
        """Check that all work-groups that wait for each other fit on the GPU at once."""
        limit = function.groups_at_once(items) * self._info.compute_units
        if groups > limit:
            why = (
                f"{groups} groups wait for each other, but {self._info.name} holds {limit} at once"
            )
            fix = "set FOURFOLD_LAUNCHES=list"
            raise DeviceError("the plan cannot run as one launch", why, fix)


class Replay:
    """A run with one route. It is captured in a graph when it is submitted for the second time,
    because capturing takes longer than submitting once.
    """

    def __init__(self, route: Route, binder: LaunchBinder) -> None:
        self.route, self.launches = route, binder.bind(route)
        self._captures = binder.captures
        self._graph: cu.Graph | None = None
        self._was_put = self._was_captured = False
        self.is_released = False

    @property
    def stays_on_device(self) -> bool:
        """Return True if it neither reads from the host nor copies anything afterwards."""
        return self.route.arguments is not None and not self.route.after

    def put(self, stream: cu.Stream) -> None:
        """Submit it to a stream."""
        if self._was_put and not self._was_captured:
            self.capture()
        self._was_put = True
        if self._graph is None:
            self._put_all(stream)
        else:
            self._graph.launch(stream)

    def capture(self) -> None:
        """Capture it in a graph. Some drivers cannot capture cooperative launches, which are then
        submitted one by one.
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
    """Tracks the stream of the last run, to wait for it: the player's `own`, or another one while
    `is_alone` (no runs in flight).
    """

    def __init__(self, context: cu.Context, own: cu.Stream) -> None:
        self.context, self.own, self._stream = context, own, own
        self.is_alone = True

    def share(self) -> cu.Stream:
        """Return its own stream for runs in flight."""
        self.is_alone = False
        return self.own

    def put(self, replay: Replay, stream: cu.Stream) -> None:
        self._stream = stream
        replay.put(stream)

    def finish(self) -> None:
        """Wait for the last run, and everything before it."""
        with self.context:
            self._stream.finish()


def launch_seconds(launches: Sequence[cu.Launch], stream: cu.Stream) -> list[float]:
    """Return the seconds that each of these launches takes, one after the other."""
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
