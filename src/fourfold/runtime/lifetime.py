"""Lifetime: how a session is opened and closed, copied, sent to a process, and met in a child."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from fourfold import forks, players
from fourfold.cpu import CPU
from fourfold.device import DeviceInfo
from fourfold.errors import DeviceError, InputError
from fourfold.lazy import lazy_import
from fourfold.runtime.instance import ModelInstance, not_direct
from fourfold.runtime.instance_cache import InstanceCache
from fourfold.runtime.request import Request
from fourfold.types import Shape

if TYPE_CHECKING:
    import pickle

    from fourfold.runtime import other_api
    from fourfold.runtime.device_memory import MemoryBinding
    from fourfold.runtime.in_flight import Waiter
    from fourfold.runtime.repeated_runs import RepeatedRuns
    from fourfold.store.store import Store
else:
    pickle, other_api = lazy_import("pickle"), lazy_import("fourfold.runtime.other_api")

S = TypeVar("S", bound="Lifetime")
CALLBACK = "on_fallback"


class Lifetime:
    """What a session is around its runs. One thread at a time holds `_lock`; who closes waits for
    whoever runs. `_passed` is what the caller said, from which the same can be opened elsewhere.
    """

    device: DeviceInfo
    _passed: Mapping[str, Any]

    def _open(self, request: Request, store: Store | None, limit: int) -> None:
        """`limit` is for how many shapes the model stays ready."""
        self._opened_with = (request, store, limit)
        self._lock, self._closed, self._forked = threading.Lock(), False, False
        self._waiter: Waiter | None = None
        self._bound: dict[
            str, MemoryBinding
        ] = {}  # memory of the device for inputs and outputs by name
        self._instances = self._make_instances()
        self._direct = self._instance.direct
        self._repeated: RepeatedRuns | None = None  # few callers have memory of the device
        forks.follow(self, Lifetime._begin_anew)

    def _open_by_any_api(
        self, request: Request, store: Store | None, limit: int, wanted: object
    ) -> None:
        """As `_open`; a GPU that was not `wanted` by a certain API is taken by another where the
        best has neither a plan for it nor a compiler.
        """
        try:
            self._open(request, store, limit)
        except (DeviceError, InputError) as error:
            other = other_api.other_device(request, wanted)
            if other is None:
                raise
            players.say_other_api(other, error)
            self.device = other
            self._open(request._replace(device=other), store, limit)

    def _make_instances(self) -> InstanceCache:
        request, store, limit = self._opened_with
        return InstanceCache(request, partial(ModelInstance, store=store), limit)

    @property
    def _instance(self) -> ModelInstance:
        return self._instances.current

    def close(self) -> None:
        """Free the device's memory, after what runs has ended; the session cannot run afterwards.
        Closing once more does nothing.
        """
        with self._lock:
            self._closed, self._direct, self._repeated = True, not_direct, None
            waiter, self._waiter = self._waiter, None
            if not self._forked:
                self._instances.close()
        if waiter is not None:
            waiter.close()

    def __enter__(self: S) -> S:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise InputError("this session is closed", "close() was called", "make a new Session")
        if self._forked:
            self._open_in_child()

    def _begin_anew(self) -> None:
        """In a forked child: leave to the parent what it opened."""
        forks.leave_behind((self._instances, self._waiter))
        forks.end_without_destructors()
        self._lock, self._direct, self._waiter = threading.Lock(), not_direct, None
        self._bound, self._repeated, self._forked = {}, None, True

    def _open_in_child(self) -> None:
        """Open what the parent had opened, in its last shapes; a DeviceError where that cannot
        be.
        """
        if self.device != CPU:
            forks.check_not_lost(self.device.api)
        shapes = {info.name: info.shape for info in self._instance.inputs}
        self._instances, self._forked = self._make_instances(), False
        self._instances.change(shapes)
        self._direct = self._instance.direct

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[type, Mapping[str, Any]]]:
        """What another process gets: the source and the options, with the shapes of now."""
        if self.device.shared_context or self.device.shared_queue:
            raise InputError(
                "this session cannot be pickled",
                "it runs in a context or stream of the caller's, which other processes do not have",
                f"open it with device={self.device.address!r} to send it",
            )
        _check_callback(self._passed[CALLBACK])
        return _open_again, (type(self), self._options_now())

    def __copy__(self: S) -> S:
        """The same opened once more, with memory and states of its own."""
        return type(self)(**self._options_now())

    def __deepcopy__(self: S, memo: Mapping[int, object]) -> S:
        return self.__copy__()

    def _options_now(self) -> dict[str, Any]:
        with self._lock:
            self._check_open()
            shapes: Mapping[str, Shape] = self._instance.request.compile_options.shapes
            return {**self._passed, "shapes": shapes or None}


def _open_again(kind: Callable[..., S], options: Mapping[str, Any]) -> S:
    """What is called where a session is unpickled."""
    return kind(**options)


def _check_callback(function: object) -> None:
    """An InputError where a caller's function cannot be sent to another process."""
    try:
        pickle.dumps(function)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InputError(
            "this session cannot be pickled",
            f"its {CALLBACK} cannot: {error}",
            "pass a function that stands in a module by its name, or leave it out: "
            "session.placement.fallbacks has the same",
        ) from error
