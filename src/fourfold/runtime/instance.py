"""ModelInstance: a model made ready for one set of input shapes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from fourfold import backends
from fourfold.backends.cpu.protocol import Lock, Results
from fourfold.errors import DeviceError
from fourfold.plan import CompiledModel
from fourfold.runtime.binary_cache import BinaryCache
from fourfold.runtime.executor import Executor, open_executor
from fourfold.runtime.inputs import Inputs, listed
from fourfold.runtime.loading import LoadResult, PlayerFactory
from fourfold.runtime.request import Request
from fourfold.runtime.tensor_info import TensorInfo, describe_ports
from fourfold.support.lazy import lazy_import

if TYPE_CHECKING:
    from concurrent import futures

    from fourfold.backends import thread_slot
    from fourfold.graph import metadata as descriptions
    from fourfold.plan import placement as placements
    from fourfold.plan.placement import Placement
    from fourfold.runtime import cutting, fitting, in_flight, race, views
    from fourfold.runtime import profile as profiles
    from fourfold.store.store import Store
else:  # a plain start and run need none of these
    futures = lazy_import("concurrent.futures")
    thread_slot = lazy_import("fourfold.backends.thread_slot")
    descriptions = lazy_import("fourfold.graph.metadata")
    placements = lazy_import("fourfold.plan.placement")
    profiles = lazy_import("fourfold.runtime.profile")
    race, cutting = lazy_import("fourfold.runtime.race"), lazy_import("fourfold.runtime.cutting")
    fitting = lazy_import("fourfold.runtime.fitting")
    in_flight = lazy_import("fourfold.runtime.in_flight")
    views = lazy_import("fourfold.runtime.views")


class DeviceShare:
    """Device memory of a model and of its runs in flight, which have their own inputs and outputs.
    Only a model that runs whole on the device has such runs.
    """

    def __init__(self, model: CompiledModel, limit: int | None) -> None:
        self._model, self._limit, self._slots = model, limit, 0
        self._slot_bytes = 0
        if model.is_whole:
            plan = model.plan
            buffers = {port.buffer for port in (*plan.inputs, *plan.outputs) if plan.buffers}
            self._slot_bytes = sum(plan.buffers[number].allocated for number in buffers)

    @property
    def bytes(self) -> int:
        return self._model.device_bytes + self._slots * self._slot_bytes

    @property
    def is_full(self) -> bool:
        """True if the limit leaves too little memory for another run in flight."""
        return self._limit is not None and self.bytes + self._slot_bytes > self._limit

    def take_slot(self) -> None:
        """Count another run in flight. Raises a DeviceError if there is too little memory
        for it.
        """
        if self.is_full:
            raise DeviceError(
                f"a run in flight does not fit into memory_limit={self._limit}",
                f"{self.bytes} bytes are in use, and inputs and outputs need {self._slot_bytes}",
                f"pass memory_limit={self.bytes + self._slot_bytes} or more, or use run()",
            )
        self._slots += 1


class DirectRun:
    """Runs a player from arrays to new arrays. Holds no reference to the session, so that the
    session is freed when its last user drops it.
    """

    def __init__(
        self,
        player: backends.Player,
        inputs: Sequence[TensorInfo],
        outputs: Sequence[TensorInfo],
        lock: Lock,
        after_run: Callable[[Any], None],
    ) -> None:
        """`lock` protects the player; `after_run` is called with the player after each run."""
        self._player: backends.Player | None = player
        self._inputs, self._lock, self._after_run = inputs, lock, after_run
        self._names = [info.name for info in inputs]
        self._results = [info.name for info in outputs]

    def __call__(self, inputs: Inputs) -> Results | None:
        """Return the results; None if the inputs need a conversion or an error message."""
        arrays: Sequence[Any] = listed(self._names, inputs)
        infos = self._inputs
        if len(arrays) != len(infos) or not all(map(TensorInfo.is_taken, infos, arrays)):
            return None
        with self._lock:
            player = self._player
            if player is None:  # another thread closed the session
                return None
            results = player.run(arrays)
        self._after_run(player)
        return dict(zip(self._results, results, strict=True))

    def close(self) -> None:
        """Drop the player. The caller holds the lock."""
        self._player = None


class About:
    """Metadata and signatures of a model. It holds no reference to a player, so that the
    description of an input can outlive its session.
    """

    def __init__(self, content: bytes) -> None:
        self._content = content

    @cached_property
    def _decoded(self) -> tuple[descriptions.ModelMetadata, descriptions.Signatures]:
        return descriptions.decode_metadata(self._content)

    @property
    def metadata(self) -> descriptions.ModelMetadata:
        return self._decoded[0]

    @property
    def signatures(self) -> descriptions.Signatures:
        return self._decoded[1]

    def input(self, index: int) -> descriptions.TensorMetadata | None:
        return descriptions.tensor_at(self.metadata.inputs, index)

    def output(self, index: int) -> descriptions.TensorMetadata | None:
        return descriptions.tensor_at(self.metadata.outputs, index)


Direct = Callable[[Inputs], Results | None]


class ModelInstance:
    """A compiled model with an executor, ready to run. Not thread-safe.

    Runs in flight, and arrays in memory that kernels use, have their own memory in addition to the
    player's, which is allocated on first use.
    """

    _thread: futures.ThreadPoolExecutor | None = None  # for players that run one at a time

    def __init__(
        self,
        request: Request,
        store: Store | None,
        loaded: LoadResult,
        make_room: Callable[[int], None],
    ) -> None:
        """`make_room` is called with the bytes that are about to be allocated on the device."""
        self.request, self._store = request, store
        self._playing = threading.Lock()  # held while the executor is in use
        self._use_model(loaded, make_room)
        can_move = bool(self.model.plans) and not request.device.remote
        if request.placement_options.is_measured and can_move:
            self._measure()

    def _use_model(self, loaded: LoadResult, make_room: Callable[[int], None]) -> None:
        model, request = loaded.model, self.request
        make_room(model.device_bytes)
        factory = PlayerFactory(request, self._store, loaded.find_binary)
        self.executor = open_executor(model, factory, request.placement_options)
        self.model, self.origin = model, loaded.origin
        self._describe(model)
        self._binaries = BinaryCache(request, self._store, factory.built)
        self._find_direct()

    def _measure(self) -> None:
        """Switch to the CPU engines if the model was measured to run faster there."""
        faster = race.race_cpu(self.request, self._store, self.executor)
        if faster is not None:
            self.executor.close()
            self._use_model(faster, lambda needed: None)
        self.reset()

    def _find_direct(self) -> None:
        player = self.executor.player
        if player is None:
            self.direct = self.executor.direct(self._playing) or not_direct
        else:
            self.direct = DirectRun(
                player, self.inputs, self.outputs, self._playing, self._binaries.after_run
            )

    def _describe(self, model: CompiledModel) -> None:
        self.about = About(model.about)
        self.inputs = describe_ports(
            model.inputs, model.input_names, model.open_sizes, model.pixels, self.about.input
        )
        outputs = describe_ports(model.outputs, model.output_names, read=self.about.output)
        shapes = self.executor.shapes()
        self.outputs = tuple(
            replace(info, shape=shapes[port.name]) if port.name in shapes else info
            for info, port in zip(outputs, model.outputs, strict=True)
        )
        self.input_names = tuple(info.name for info in self.inputs)
        self.output_names = tuple(info.name for info in self.outputs)

    @cached_property
    def placement(self) -> Placement:
        """The target of every operator, as recorded when the model was compiled."""
        return placements.Placement.from_bytes(self.model.placement)

    @property
    def store(self) -> Store | None:
        """The store of compiled models, binaries and tuned choices."""
        return self._store

    @property
    def in_parts(self) -> bool:
        """True if CPU engines run some of the model, or all of it."""
        return not self.model.is_whole

    def run(self, arrays: Sequence[Any]) -> dict[str, np.ndarray]:
        """Return all outputs as new arrays. Inputs may be in device memory."""
        with self._playing:
            executor = self.executor
            run = executor.run if _on_host(arrays) else executor.run_bound
            results = run(arrays)
        self._after_run()
        return {info.name: result for info, result in zip(self.outputs, results, strict=True)}

    def run_into(self, arrays: Sequence[Any], into: Sequence[Any]) -> dict[str, Any]:
        """Return only the outputs for which `into` has an array or device memory, in the model's
        order.
        """
        with self._playing:
            executor = self.executor
            run = executor.run if _on_host(arrays) and _on_host(into) else executor.run_bound
            results = run(arrays, into)
        self._after_run()
        pairs = zip(self.outputs, results, strict=True)
        return {info.name: result for info, result in pairs if result is not None}

    def bound_run(self, arrays: Sequence[Any], into: Sequence[Any]) -> backends.BoundRun | None:
        """Return a run from device memory to device memory for `play_bound`; None if there
        is none.
        """
        with self._playing:
            player = self.executor.player
            return None if player is None else player.bound_run(arrays, into)

    def play_bound(self, run: backends.BoundRun) -> bool:
        """Execute a bound run; returns False if that was not possible."""
        with self._playing:
            return run.play()

    def cut_request(self, outputs: Sequence[str]) -> Request | None:
        """Return a request for only these outputs; None if the model cannot be cut, or that saves
        too little.
        """
        if self.origin == "file" or not cutting.can_cut(self.model):
            return None
        return cutting.cut_request(self.request, outputs, self._store)

    def _after_run(self) -> None:
        self._binaries.after_run(*self.executor.players)

    def profile(self, arrays: Sequence[np.ndarray], runs: int) -> profiles.Profile:
        """Return the times of all kernels, as launches or as stages of one launch."""
        with self._playing:
            return profiles.profile_model(self.executor, self.other_plans, arrays, runs)

    @property
    def other_plans(self) -> profiles.OtherPlans:
        """Other plans of the model, for profiling and tracing."""
        return profiles.OtherPlans(self.model, self.request, self._store, self.origin)

    def run_seconds(self, arrays: Sequence[np.ndarray], runs: int) -> list[float]:
        """Return the seconds of runs, by the clock of the machine that the device is on."""
        with self._playing:
            return self.executor.run_seconds(arrays, runs)

    def use_executor(self, executor: Executor, direct: Direct) -> None:
        """Replace the executor, whose slots are closed, and the direct path."""
        self._close_slots()
        with self._playing:
            self.executor, self.direct = executor, direct

    @cached_property
    def device_share(self) -> DeviceShare:
        """The device memory that the instance uses."""
        return DeviceShare(self.model, self.request.compile_options.memory_limit)

    @cached_property
    def flights(self) -> in_flight.RunsInFlight:
        """The runs in flight."""
        names = [info.name for info in self.outputs]
        full = partial(getattr, self.device_share, "is_full")
        return in_flight.RunsInFlight(self._open_slot, names, self._after_run, full)

    @cached_property
    def views(self) -> views.Views:
        """Arrays that the caller fills and reads, in memory that kernels use."""
        names = [info.name for info in self.inputs], [info.name for info in self.outputs]
        open_slot = partial(self._open_slot, staged=False)
        return views.Views(open_slot, names, self._after_run, self._check_limits)

    def _check_limits(self, arrays: Sequence[np.ndarray]) -> None:
        """Raise an InputError if an array contains a number that the model cannot use."""
        for info, array in zip(self.inputs, arrays, strict=True):
            if info.number_outside(array) is not None:
                fitting.check_limits(info, array)

    def _open_slot(self, staged: bool = True) -> backends.Slot:
        player = self.executor.player
        if player is not None:
            self.device_share.take_slot()
            slot = player.open_slot(staged)
            if slot is not None:
                return slot
        if self._thread is None:
            self._thread = futures.ThreadPoolExecutor(1, "fourfold-run")
        inputs, outputs = self.model.inputs, self.model.outputs
        return thread_slot.ThreadSlot(self._play, self._thread, inputs, outputs)

    def _play(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        with self._playing:
            return self.executor.run(arrays)

    def reset(self) -> None:
        """Reset the states that runs keep."""
        self.drain()
        with self._playing:
            self.executor.reset()
        if self.in_parts:
            self._find_direct()

    def drain(self) -> None:
        """Wait for all runs in flight."""
        for name in ("flights", "views"):
            if name in vars(self):
                getattr(self, name).drain()

    def _close_slots(self) -> None:
        """Close all slots, after their runs have ended."""
        for name in ("flights", "views"):
            if name in vars(self):
                vars(self).pop(name).close()

    def _close_thread(self) -> None:
        if self._thread is not None:
            self._thread.shutdown()

    def close(self) -> None:
        """Finish runs in flight, store binaries, and free device memory."""
        self._close_slots()
        self._close_thread()
        self._binaries.close()
        direct, self.direct = self.direct, not_direct
        with self._playing:
            if isinstance(direct, DirectRun):
                direct.close()
            self.executor.close()


def _on_host(arrays: Iterable[object]) -> bool:
    return all(one is None or isinstance(one, np.ndarray) for one in arrays)


def not_direct(inputs: Inputs) -> None:
    """Direct path of a model that has none."""
