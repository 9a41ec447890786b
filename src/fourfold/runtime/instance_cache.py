"""InstanceCache: the same model made ready for several sets of shapes, the last used ones kept."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol

from fourfold.errors import FourfoldError
from fourfold.runtime.instance import ModelInstance
from fourfold.runtime.request import Request
from fourfold.timings import Timings
from fourfold.types import Shape


class MakeInstance(Protocol):
    """Makes a model ready; `make_room` is told what that takes on the device before it is taken."""

    def __call__(self, request: Request, *, make_room: Callable[[int], None]) -> ModelInstance: ...


class InstanceCache:
    """Instances of a model by the shapes of its inputs, the current one among them."""

    def __init__(self, first: Request, make: MakeInstance, limit: int) -> None:
        self._first, self._make, self._limit = first, make, limit
        self._instances: OrderedDict[tuple[tuple[str, Shape], ...], ModelInstance] = OrderedDict()
        self.current = make(first, make_room=self._make_room)
        self._own_shapes = {info.name: info.shape for info in self.current.inputs}
        self._instances[_key(first)] = self.current

    def change(self, shapes: Mapping[str, Shape]) -> bool:
        """Make the model with these shapes the current one; says whether that is another one."""
        now = {info.name: info.shape for info in self.current.inputs}
        if all(now[name] == shape for name, shape in shapes.items()):
            return False
        request = self._request({**now, **shapes})
        key = _key(request)
        if key not in self._instances:
            self._instances[key] = self._made(request)
        self._instances.move_to_end(key)
        self.current = self._instances[key]
        self.current.reset()
        while len(self._instances) > max(self._limit, 1):
            self._instances.popitem(last=False)[1].close()
        return True

    def _made(self, request: Request) -> ModelInstance:
        """A new instance. Where it fails after the current one gave way, that one comes back."""
        before = self.current.request
        try:
            return self._make(request, make_room=self._make_room)
        except FourfoldError:
            if _key(before) not in self._instances:
                self.current = self._make(before, make_room=self._make_room)
                self._instances[_key(before)] = self.current
            raise

    def _make_room(self, needed: int) -> None:
        """Close what was not used for the longest time until the rest and what is needed keep the
        limit of memory. A plan that would not keep it alone is never made.
        """
        limit = self._first.compile_options.memory_limit
        while limit is not None and self._instances and needed + self._held > limit.bytes:
            self._instances.popitem(last=False)[1].close()

    @property
    def _held(self) -> int:
        return sum(instance.plan.device_bytes for instance in self._instances.values())

    def _request(self, shapes: Mapping[str, Shape]) -> Request:
        """A request for these shapes, which names those only that the first one did not have."""
        options = self._first.compile_options
        changed = {name: size for name, size in shapes.items() if size != self._own_shapes[name]}
        options = replace(options, shapes={**options.shapes, **changed})
        return self._first._replace(compile_options=options, timings=Timings())

    def close(self) -> None:
        for instance in self._instances.values():
            instance.close()
        self._instances.clear()


def _key(request: Request) -> tuple[tuple[str, Shape], ...]:
    shapes = request.compile_options.shapes
    return tuple(sorted((name, tuple(size)) for name, size in shapes.items()))
