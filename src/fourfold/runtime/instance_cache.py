"""InstanceCache: the same model made ready for several sets of shapes, the last used ones kept."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import replace

from fourfold.runtime.instance import ModelInstance
from fourfold.runtime.request import Request
from fourfold.timings import Timings
from fourfold.types import Shape

MakeInstance = Callable[[Request], ModelInstance]


class InstanceCache:
    """Instances of a model by the shapes of its inputs, the current one among them."""

    def __init__(self, first: Request, make: MakeInstance, limit: int) -> None:
        self._first, self._make, self._limit = first, make, limit
        self.current = make(first)
        self._own_shapes = {info.name: info.shape for info in self.current.inputs}
        self._instances = OrderedDict({_key(first): self.current})
        self.told: set[str] = set()  # inputs of which the log knows that they are converted

    def change(self, shapes: Mapping[str, Shape]) -> bool:
        """Make the model with these shapes the current one; says whether that is another one."""
        now = {info.name: info.shape for info in self.current.inputs}
        if all(now[name] == shape for name, shape in shapes.items()):
            return False
        request = self._request({**now, **shapes})
        key = _key(request)
        if key not in self._instances:
            self._instances[key] = self._make(request)
        self._instances.move_to_end(key)
        self.current = self._instances[key]
        self.current.reset()
        while len(self._instances) > max(self._limit, 1):
            self._instances.popitem(last=False)[1].close()
        return True

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
