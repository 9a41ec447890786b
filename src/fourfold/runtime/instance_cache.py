"""InstanceCache: a model compiled for the input shapes that were used last."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from fourfold.errors import DeviceError, FourfoldError, InputError
from fourfold.runtime.instance import ModelInstance
from fourfold.runtime.loading import load_compiled
from fourfold.runtime.request import Request
from fourfold.support.lazy import lazy_import
from fourfold.support.log import INFO, Log
from fourfold.support.timings import Timings
from fourfold.types import Shape

if TYPE_CHECKING:
    from fourfold.runtime import open_instance, opened
    from fourfold.store.store import Store
else:
    open_instance = lazy_import("fourfold.runtime.open_instance")
    opened = lazy_import("fourfold.runtime.opened")

log = Log("runtime")

ShapesKey = tuple[tuple[str, Shape], ...]


class InstanceCache:
    """Instances of a model by input shapes, one of them current, and instances of the model cut to
    some of its outputs.
    """

    def __init__(self, first: Request, store: Store | None, limit: int) -> None:
        self._first, self._store, self._limit = first, store, max(limit, 1)
        self._instances: OrderedDict[ShapesKey, ModelInstance] = OrderedDict()
        try:
            loaded = load_compiled(first, store)
            self.current = ModelInstance(first, store, loaded, self._make_room)
        except InputError as error:
            if not error.open_inputs:
                raise
            self.current = cast("ModelInstance", open_instance.OpenInstance(first, error))
        self._log_opened(self.current)
        self._own_shapes = {info.name: info.shape for info in self.current.inputs}
        self._instances[_key(first)] = self.current
        # Cut instances do not count towards the limit; None if cutting would not save enough.
        self._cut: OrderedDict[tuple[ShapesKey, tuple[str, ...]], ModelInstance | None]
        self._cut = OrderedDict()
        self.told: set[str] = set()  # inputs whose conversion in every run was logged

    @property
    def default_shapes(self) -> dict[str, Shape]:
        """Shapes of the inputs that the options did not set, as the model was opened."""
        stated = self._first.compile_options.shapes
        return {name: shape for name, shape in self._own_shapes.items() if name not in stated}

    def change(self, shapes: Mapping[str, Shape]) -> bool:
        """Make the instance with these shapes current; return whether that changed it."""
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
        _close_oldest(self._instances, self._limit)
        return True

    def _made(self, request: Request) -> ModelInstance:
        """Return a new instance. If it fails after the current one was closed, reopen that one."""
        before = self.current.request
        try:
            return self._make_ready(request)
        except FourfoldError:
            if _key(before) not in self._instances:
                self.current = self._make_ready(before)
                self._instances[_key(before)] = self.current
            raise

    def _make_ready(self, request: Request) -> ModelInstance:
        loaded = load_compiled(request, self._store)
        instance = ModelInstance(request, self._store, loaded, self._make_room)
        self._log_opened(instance)
        return instance

    def _log_opened(self, instance: ModelInstance) -> None:
        if log.hears(INFO) and isinstance(instance, ModelInstance):
            placement = instance.placement if instance.in_parts else None
            request, model = instance.request, instance.model
            log.info("%s", opened.describe_opening(request, model, instance.origin, placement))

    def _make_room(self, needed: int) -> None:
        """Close the least recently used instances until the others and the needed bytes fit into
        the memory limit. A plan that does not fit alone is never compiled.
        """
        limit = self._first.compile_options.memory_limit
        while limit is not None and self._instances and needed + self._held > limit:
            self._instances.popitem(last=False)[1].close()

    @property
    def _held(self) -> int:
        return sum(instance.device_share.bytes for instance in self._instances.values())

    def cut_to(self, outputs: Sequence[str]) -> ModelInstance | None:
        """Return the current model without what only other outputs need; None if that saves
        nothing, or if the model cannot be cut.
        """
        wanted = tuple(info.name for info in self.current.outputs if info.name in outputs)
        if len(wanted) == len(self.current.outputs):
            return None
        key = (_key(self.current.request), wanted)
        if key not in self._cut:
            self._cut[key] = self._make_cut(wanted)
        self._cut.move_to_end(key)
        _close_oldest(self._cut, self._limit)
        return self._cut[key]

    def _make_cut(self, outputs: Sequence[str]) -> ModelInstance | None:
        if self._first.compile_options.memory_limit is not None:
            return None  # the whole model would have to be closed for it, and reopened
        request = self.current.cut_request(outputs)
        try:
            return None if request is None else self._make_ready(request)
        except DeviceError as error:  # there may not be enough memory for both
            log.warn_once(f"{self._first.title} runs whole for {list(outputs)}: {error.what}")
            return None

    def _request(self, shapes: Mapping[str, Shape]) -> Request:
        """Return a request for these shapes that states only those which differ from the first."""
        options = self._first.compile_options
        changed = {name: size for name, size in shapes.items() if size != self._own_shapes[name]}
        options = replace(options, shapes={**options.shapes, **changed})
        return self._first._replace(compile_options=options, timings=Timings())

    def close(self) -> None:
        _close_oldest(self._instances, 0)
        _close_oldest(self._cut, 0)


def _key(request: Request) -> ShapesKey:
    shapes = request.compile_options.shapes
    return tuple(sorted((name, tuple(size)) for name, size in shapes.items()))


def _close_oldest(instances: OrderedDict[Any, Any], left: int) -> None:
    """Close the least recently used instances until `left` remain."""
    while len(instances) > left:
        oldest = instances.popitem(last=False)[1]
        if oldest is not None:
            oldest.close()
