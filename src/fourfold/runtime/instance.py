"""A model made ready for one set of input shapes, and those that are kept for several."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fourfold import players
from fourfold.cpu.direct import Lock, Results
from fourfold.errors import UnsupportedError
from fourfold.lazy import lazy_import
from fourfold.options import PlacementOptions
from fourfold.plan import Compiled, Port
from fourfold.runtime.binary_cache import BinaryCache
from fourfold.runtime.inputs import Inputs, TensorInfo
from fourfold.runtime.loading import (
    LoadedPlan,
    Request,
    compile_request,
    load_plan,
    make_player,
    tuned_choices,
)
from fourfold.types import Shape

if TYPE_CHECKING:
    from fourfold.runtime import hybrid_loading, race
    from fourfold.store.store import Store
else:
    hybrid_loading = lazy_import("fourfold.runtime.hybrid_loading")
    race = lazy_import("fourfold.runtime.race")

AUTO = "auto"


@dataclass(frozen=True)
class KernelTime:
    """How long one launch takes: its kernel, the node it came from, and the seconds."""

    kernel: str
    node: str
    seconds: float


class ModelInstance:
    """A model made ready: who plays it, and what goes in and out. Not for two threads at once."""

    def __init__(
        self, request: Request, store: Store | None, wishes: Mapping[str, Any], lock: Lock
    ) -> None:
        self.request, self._store, self._wishes, self._lock = request, store, wishes, lock
        self._placed: hybrid_loading.LoadedHybrid | None = None
        self.inputs: tuple[TensorInfo, ...] = ()
        self.outputs: tuple[TensorInfo, ...] = ()
        self._explained: Any = None
        self.direct: Callable[[Inputs], Results | None] = not_direct
        opened = self._open_whole()
        if opened is None:
            placed = hybrid_loading.load_hybrid(request, store, self._wished())
            self._take_parts(placed)
            built = placed.built
        else:
            self._take(opened.compiled, opened.origin)
            self.player: Any = make_player(request, opened, store)
            built = opened.binary is None
        self._keeper = BinaryCache(request, store, wanted=built)
        if wishes.get("placement") == AUTO and not wishes.get("strict"):
            self._race()

    def _race(self) -> None:
        """Whoever asks for 'auto' gets the CPU where the model was seen to run faster there."""
        faster = race.race_cpu(self.request, self._store, self._wished(), self.player)
        if faster is not None:
            self.player.close()
            self._take_parts(faster)
        self.reset()

    def _take_parts(self, placed: Any) -> None:
        self._placed, self.player = placed, placed.player
        self._take(placed.compiled, placed.origin)
        shapes, names = self.player.shapes(), [port.name for port in self.plan.outputs]
        self.outputs = tuple(
            replace(info, shape=shapes.get(name, info.shape))
            for info, name in zip(self.outputs, names, strict=True)
        )
        self._take_direct()

    def _take_direct(self) -> None:
        if self._placed is not None:
            found = self.player.direct(self._placed.compiled, self._lock)
            self.direct = found or not_direct

    def _open_whole(self) -> LoadedPlan | None:
        """All of the model on the device; None where it has to be placed in parts."""
        if self._wishes:
            self._wished()  # says what is wrong with them
        if self._wishes.get("placement") == "cpu" or self._wishes.get("max_partitions") == 0:
            return None
        try:
            return load_plan(self.request, self._store, self._is_in_parts)
        except UnsupportedError:
            if self._wishes.get("strict"):
                raise
            return None

    def _is_in_parts(self, store: Store) -> bool:
        return hybrid_loading.is_in_parts(self.request, store, self._wished())

    def _wished(self) -> PlacementOptions:
        return PlacementOptions(**self._wishes)

    def _take(self, compiled: Compiled, origin: str) -> None:
        self.origin, self.plan = origin, compiled.plan
        inputs = _infos(self.plan.inputs, compiled.input_names, compiled.signatures)
        known = compiled.pixels
        self.inputs = tuple(replace(one, pixels=known.get(one.name, "")) for one in inputs)
        self.outputs = _infos(self.plan.outputs, compiled.output_names)

    @property
    def placement(self) -> Any:
        if self._placed is not None:
            return self._placed.placement
        if self._explained is None:
            self._explained = hybrid_loading.explain_placement(self.request, self._wished())
        return self._explained

    def run(self, arrays: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
        results = self.player.run(arrays)
        self._keeper.after_run(self.player)
        return {info.name: result for info, result in zip(self.outputs, results, strict=True)}

    def profile(self, arrays: Sequence[np.ndarray], runs: int) -> list[KernelTime]:
        """The shortest time of every launch; one launch in all is made a list of them for this."""
        listed = self._as_list()
        player = listed or self.player
        times = player.profile(arrays, runs)
        launches = player.plan.launches
        if listed is not None:
            listed.close()
        pairs = zip(launches, times, strict=True)
        return [KernelTime(launch.entry, launch.node, seconds) for launch, seconds in pairs]

    def _as_list(self) -> players.Player | None:
        """Another player with one launch a kernel, where this one has all in one."""
        in_parts = self._placed is not None
        if in_parts or self.plan.stages == len(self.plan.launches) or self.origin == "file":
            return None
        tuned = tuned_choices(self.request, self._store)
        compiled = compile_request(self.request, tuned, form="list")
        return players.make_player(self.request.device, compiled.plan)

    def reset(self) -> None:
        """Forget what was kept from run to run."""
        self.player.reset()
        self._take_direct()

    def close(self) -> None:
        """Free the device's memory, after what is being kept is kept."""
        self._keeper.close()
        self.player.close()


class InstanceCache:
    """The same model made ready for several sets of shapes, the last used ones kept."""

    def __init__(
        self, first: Request, make: Callable[[Request], ModelInstance], limit: int
    ) -> None:
        self._first, self._make, self._limit = first, make, limit
        self.current = make(first)
        self._own = {info.name: info.shape for info in self.current.inputs}
        self._kept = OrderedDict({self._key(first): self.current})

    def change(self, shapes: Mapping[str, Shape]) -> bool:
        """Make the model with these shapes the current one; says whether that is another one."""
        now = {info.name: info.shape for info in self.current.inputs}
        if all(now[name] == shape for name, shape in shapes.items()):
            return False
        request = self._request({**now, **shapes})
        key = self._key(request)
        if key not in self._kept:
            self._kept[key] = self._make(request)
        self._kept.move_to_end(key)
        self.current = self._kept[key]
        self.current.reset()
        while len(self._kept) > max(self._limit, 1):
            self._kept.popitem(last=False)[1].close()
        return True

    def _request(self, shapes: Mapping[str, Shape]) -> Request:
        """A request for these shapes, which names those only that the first one did not have."""
        named = dict(self._first.shapes or {})
        named |= {name: shape for name, shape in shapes.items() if shape != self._own[name]}
        return replace(self._first, shapes=named or None, timings={})

    @staticmethod
    def _key(request: Request) -> tuple[tuple[str, Shape], ...]:
        return tuple(sorted((name, tuple(size)) for name, size in (request.shapes or {}).items()))

    def close(self) -> None:
        for ready in self._kept.values():
            ready.close()
        self._kept.clear()


def not_direct(inputs: Inputs) -> None:
    """Most models have no shorter way than that by a player."""


def _infos(
    ports: Sequence[Port], names: Sequence[str], signatures: Sequence[Shape] = ()
) -> tuple[TensorInfo, ...]:
    known = dict(zip(names, signatures, strict=False))
    return tuple(
        TensorInfo(
            name, port.type.shape, port.type.dtype.numpy, port.quantization, known.get(name, ())
        )
        for port, name in zip(ports, names, strict=True)
    )
