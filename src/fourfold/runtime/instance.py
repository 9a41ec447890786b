"""ModelInstance: a model made ready for one set of input shapes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from fourfold import backends
from fourfold.backends.cpu.protocol import Results
from fourfold.plan import CompiledModel
from fourfold.runtime.about import About
from fourfold.runtime.binary_cache import BinaryCache
from fourfold.runtime.direct_run import DirectRun
from fourfold.runtime.executor import Executor, open_executor
from fourfold.runtime.inputs import Inputs
from fourfold.runtime.instance_slots import InstanceSlots
from fourfold.runtime.loading import LoadResult, PlayerFactory, load_compiled
from fourfold.runtime.request import Request
from fourfold.runtime.tensor_info import describe_ports
from fourfold.support.lazy import lazy_import

if TYPE_CHECKING:
    from fourfold.plan import placement as placements
    from fourfold.plan.placement import Placement
    from fourfold.runtime import cutting, race
    from fourfold.runtime import other_plans as variants
    from fourfold.runtime import profile as profiles
    from fourfold.store.store import Store
else:
    placements = lazy_import("fourfold.plan.placement")
    variants = lazy_import("fourfold.runtime.other_plans")
    profiles = lazy_import("fourfold.runtime.profile")
    race, cutting = lazy_import("fourfold.runtime.race"), lazy_import("fourfold.runtime.cutting")

Direct = Callable[[Inputs], Results | None]


class ModelInstance(InstanceSlots):
    """A compiled model with an executor, ready to run. Not thread-safe."""

    def __init__(
        self,
        request: Request,
        store: Store | None,
        make_room: Callable[[int], None] = lambda needed: None,
    ) -> None:
        """`make_room` is called with the bytes that are about to be allocated on the device."""
        self.request, self._store = request, store
        self._playing = threading.Lock()  # held while the executor is in use
        self._use_model(load_compiled(request, store), make_room)
        if request.placement_options.is_measured and not request.device.remote:
            self._measure()

    def _use_model(self, loaded: LoadResult, make_room: Callable[[int], None]) -> None:
        model, request = loaded.model, self.request
        make_room(model.device_bytes)
        factory = PlayerFactory(request, self._store, loaded.find_binary)
        threads = request.placement_options.thread_count
        self.executor = open_executor(model, factory, threads)
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
    def other_plans(self) -> variants.OtherPlans:
        """Other plans of the model, for profiling and tracing."""
        return variants.OtherPlans(self.model, self.request, self._store, self.origin)

    def run_seconds(self, arrays: Sequence[np.ndarray], runs: int) -> list[float]:
        """Return the seconds of runs, by the clock of the machine that the device is on."""
        with self._playing:
            return self.executor.run_seconds(arrays, runs)

    def use_executor(self, executor: Executor, direct: Direct) -> None:
        """Replace the executor, whose slots are closed, and the direct path."""
        self._close_slots()
        with self._playing:
            self.executor, self.direct = executor, direct

    def reset(self) -> None:
        """Reset the states that runs keep."""
        self.drain()
        with self._playing:
            self.executor.reset()
        if self.in_parts:
            self._find_direct()

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
