"""ModelInstance: a model made ready for one set of input shapes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from fourfold import players
from fourfold.cpu.protocol import Results
from fourfold.errors import UnsupportedError
from fourfold.lazy import lazy_import
from fourfold.log import Log
from fourfold.plan import Compiled
from fourfold.runtime.about import About
from fourfold.runtime.binary_cache import BinaryCache, start_player
from fourfold.runtime.direct_run import DirectRun
from fourfold.runtime.inputs import Inputs
from fourfold.runtime.instance_slots import InstanceSlots
from fourfold.runtime.loading import (
    LoadedPlan,
    PlanLoader,
    load_prepared,
)
from fourfold.runtime.request import Request
from fourfold.runtime.tensor_info import TensorInfo, describe_ports
from fourfold.store.prepared import is_prepared

if TYPE_CHECKING:
    from fourfold.placement import Placement
    from fourfold.runtime import cutting, hybrid_loading, race
    from fourfold.runtime import other_plans as variants
    from fourfold.runtime import profile as profiles
    from fourfold.runtime.hybrid_player import HybridPlayer
    from fourfold.store.store import Store
else:
    hybrid_loading = lazy_import("fourfold.runtime.hybrid_loading")
    variants = lazy_import("fourfold.runtime.other_plans")
    profiles = lazy_import("fourfold.runtime.profile")
    race, cutting = lazy_import("fourfold.runtime.race"), lazy_import("fourfold.runtime.cutting")

log = Log("runtime")


Direct = Callable[[Inputs], Results | None]


class ModelInstance(InstanceSlots):
    """A model made ready: who plays it, and what goes in and out. Not for two threads at once."""

    def __init__(
        self,
        request: Request,
        store: Store | None,
        make_room: Callable[[int], None] = lambda needed: None,
    ) -> None:
        """`make_room` is told how many bytes are about to be set aside on the device."""
        self.request, self._store = request, store
        self._playing = threading.Lock()  # who uses the player holds it, by whichever way
        self._hybrid: hybrid_loading.LoadedHybrid | None = None
        self._explained: Placement | None = None
        self.player: players.Player | HybridPlayer
        self.inputs: tuple[TensorInfo, ...]
        self.outputs: tuple[TensorInfo, ...]
        self.direct: Direct = not_direct
        loaded = load_whole(request, store)
        if loaded is None:
            hybrid = hybrid_loading.load_hybrid(request, store, make_room)
            self._use_hybrid(hybrid)
            built = hybrid.built
        else:
            self._describe(loaded.compiled, loaded.origin)
            make_room(self.plan.device_bytes)
            self.player = start_player(request, loaded.compiled.plan, loaded.binary, store)
            built = loaded.binary is None
        self._binaries = BinaryCache(request, store, built)
        self._find_direct()
        options, elsewhere = request.placement_options, request.device.remote
        if options.measured and not options.strict and not elsewhere:
            self._race()

    def _race(self) -> None:
        """Whoever asks for 'auto' gets the CPU where the model was seen to run faster there."""
        faster = race.race_cpu(self.request, self._store, self.player)
        if faster is not None:
            self.player.close()
            self._use_hybrid(faster)
        self.reset()

    def _use_hybrid(self, hybrid: hybrid_loading.LoadedHybrid) -> None:
        self._hybrid, self.player = hybrid, hybrid.player
        self._describe(hybrid.compiled, hybrid.origin)
        shapes, names = hybrid.player.shapes(), [port.name for port in self.plan.outputs]
        self.outputs = tuple(
            replace(info, shape=shapes.get(name, info.shape))
            for info, name in zip(self.outputs, names, strict=True)
        )

    def _find_direct(self) -> None:
        if self._hybrid is not None:
            self.direct = self._hybrid.player.direct(self._playing) or not_direct
        else:
            player = cast(players.Player, self.player)
            how = (self.inputs, self.outputs, self._playing, self._binaries.after_run)
            self.direct = DirectRun(player, *how)

    def _describe(self, compiled: Compiled, origin: str) -> None:
        self.origin, self.plan, self.about = origin, compiled.plan, About(compiled.about)
        self.inputs = describe_ports(
            self.plan.inputs,
            compiled.input_names,
            compiled.signatures,
            compiled.pixels,
            self.about.input,
        )
        self.outputs = describe_ports(
            self.plan.outputs, compiled.output_names, read=self.about.output
        )
        self.input_names = tuple(info.name for info in self.inputs)
        self.output_names = tuple(info.name for info in self.outputs)

    @property
    def placement(self) -> Placement:
        if self._hybrid is not None:
            return self._hybrid.placement
        if self._explained is None:
            self._explained = hybrid_loading.explain_placement(self.request)
        return self._explained

    @property
    def store(self) -> Store | None:
        """Where plans, binaries and tuned choices are kept."""
        return self._store

    @property
    def in_parts(self) -> bool:
        """Whether engines for the CPU run some of it, or all."""
        return self._hybrid is not None

    def run(self, arrays: Sequence[Any]) -> dict[str, np.ndarray]:
        """All outputs as new arrays; among the inputs may be memory of the device."""
        with self._playing:
            run = self.player.run if _on_host(arrays) else self.player.run_bound
            results = run(arrays)
        self._after_run()
        return {info.name: result for info, result in zip(self.outputs, results, strict=True)}

    def run_into(self, arrays: Sequence[Any], into: Sequence[Any]) -> dict[str, Any]:
        """Some outputs alone, in the order of all: those that `into` has an array or memory of the
        device for.
        """
        with self._playing:
            run = self.player.run if _on_host(arrays) and _on_host(into) else self.player.run_bound
            results = run(arrays, into)
        self._after_run()
        pairs = zip(self.outputs, results, strict=True)
        return {info.name: result for info, result in pairs if result is not None}

    def bound_run(self, arrays: Sequence[Any], into: Sequence[Any]) -> players.BoundRun | None:
        """A run with memory of the device alone, for `play_bound`; None where none is shorter."""
        with self._playing:
            player = None if self.in_parts else cast(players.Player, self.player)
            return None if player is None else player.bound_run(arrays, into)

    def play_bound(self, run: players.BoundRun) -> bool:
        """Says whether it could be played."""
        with self._playing:
            return run.play()

    def cut_request(self, outputs: Sequence[str]) -> Request | None:
        """What to make ready for these outputs alone; None where it cannot be, or does not pay."""
        hybrid = None if self._hybrid is None else self._hybrid.plan
        if self.origin == "file" or not cutting.can_cut(self.plan, hybrid):
            return None
        return cutting.cut_request(self.request, outputs, self._store)

    def _after_run(self) -> None:
        self._binaries.after_run(self.player)

    def profile(self, arrays: Sequence[np.ndarray], runs: int) -> profiles.Profile:
        """The times of all kernels, launched or within one launch."""
        with self._playing:
            return profiles.profile_model(self.player, self.other_plans, arrays, runs)

    @property
    def other_plans(self) -> variants.OtherPlans:
        """What else can be made of the model, to look into it."""
        return variants.OtherPlans(self.plan, self.request, self._store, self.origin)

    def run_seconds(self, arrays: Sequence[np.ndarray], runs: int) -> list[float]:
        """How long runs take where the device is."""
        with self._playing:
            return self.player.run_seconds(arrays, runs)

    def use_player(self, player: players.Player | HybridPlayer, direct: Direct) -> None:
        """Go on with another player, whose slots are its own, and with its shorter way."""
        self._close_slots()
        with self._playing:
            self.player, self.direct = player, direct

    def reset(self) -> None:
        """Forget what was kept from run to run."""
        self.drain()
        with self._playing:
            self.player.reset()
        if self.in_parts:
            self._find_direct()

    def close(self) -> None:
        """Free the device's memory, after what has begun has ended, and what is kept is kept."""
        self._close_slots()
        self._close_thread()
        self._binaries.close()
        direct, self.direct = self.direct, not_direct
        with self._playing:
            if isinstance(direct, DirectRun):
                direct.close()
            self.player.close()
            del self.player  # it is described for as long as somebody asks, and holds nothing


def _on_host(arrays: Iterable[object]) -> bool:
    return all(one is None or isinstance(one, np.ndarray) for one in arrays)


def not_direct(inputs: Inputs) -> None:
    """Most models have no shorter way than that by a player."""


def load_whole(request: Request, store: Store | None) -> LoadedPlan | None:
    """All of the model as one plan for the device; None where it has to run in parts."""
    if request.placement_options.only_cpu:
        return None
    if is_prepared(request.model):
        return load_prepared(request, store)
    loader = PlanLoader(request, store)
    loaded = loader.find()
    if loaded is not None:
        return loaded
    if store is not None and hybrid_loading.is_kept_in_parts(request, store):
        return None
    try:
        return loader.compile()
    except UnsupportedError as error:
        if request.placement_options.strict:
            raise
        log.debug("%s runs in parts: %s: %s", request.title, error.what, error.why)
        return None
