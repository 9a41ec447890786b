"""Plays a model in parts: an engine for each, run in turn, each with what those before it gave."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np

from fourfold.cpu.direct import Direct, Lock
from fourfold.cpu.litert import LitertEngine
from fourfold.device import GPU
from fourfold.errors import InputError
from fourfold.lazy import lazy_import
from fourfold.plan import Plan
from fourfold.plan.hybrid import HybridPart, HybridPlan
from fourfold.players import Player
from fourfold.types import Shape

if TYPE_CHECKING:
    from fourfold.cpu import reference
else:
    reference = lazy_import("fourfold.cpu.reference")


class Engine(Protocol):
    """Whoever runs a part: arrays in, arrays out, in the order of the part's values."""

    def run(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]: ...

    def reset(self) -> None: ...

    def close(self) -> None: ...


MakePlayer = Callable[[Plan], Engine]
BeforeGpu = Callable[[Player, Sequence[np.ndarray]], None]


def make_hybrid_player(hybrid: HybridPlan, make_player: MakePlayer, threads: int) -> HybridPlayer:
    """A player with an engine for each part; `make_player` makes those of the GPU's parts."""
    return HybridPlayer(hybrid, [_engine(part, make_player, threads) for part in hybrid.parts])


def _engine(part: HybridPart, make_player: MakePlayer, threads: int) -> Engine:
    if part.plan is not None:
        return make_player(part.plan)
    if part.graph is not None:
        return reference.NumpyEngine(part.graph)
    return LitertEngine(part.content, *part.bindings, threads)


class HybridPlayer:
    """Plays a model in parts the way that a player plays a plan. Not for two threads at once."""

    def __init__(self, hybrid: HybridPlan, engines: Sequence[Engine]) -> None:
        self._hybrid, self._engines = hybrid, tuple(engines)
        self.plan = hybrid.compiled.plan
        on_gpu = (engine for part, engine in self._steps() if part.plan is not None)
        self.players = tuple(cast(Player, engine) for engine in on_gpu)
        self._outputs = [port.name for port in self.plan.outputs]
        self._last_reader = {name: i for i, part in enumerate(hybrid.parts) for name in part.inputs}
        self._last_reader |= dict.fromkeys(self._outputs, len(hybrid.parts))

    def _steps(self) -> zip[tuple[HybridPart, Engine]]:
        return zip(self._hybrid.parts, self._engines, strict=True)

    def run(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The model's outputs for its inputs, both in the model's order, as new arrays."""
        return self._run(arrays, lambda player, given: None)

    def _run(self, arrays: Sequence[np.ndarray], before_gpu: BeforeGpu) -> list[np.ndarray]:
        values = {port.name: one for port, one in zip(self.plan.inputs, arrays, strict=True)}
        fresh: set[str] = set()  # results that nobody else holds
        for number, (part, engine) in enumerate(self._steps()):
            given = [self._given(name, values[name], part) for name in part.inputs]
            if part.plan is not None:
                before_gpu(cast(Player, engine), given)
                fresh.update(part.outputs)
            values.update(zip(part.outputs, engine.run(given), strict=True))
            for name in part.inputs:
                if self._last_reader[name] == number:
                    values.pop(name, None)
        return [values[name] if name in fresh else values[name].copy() for name in self._outputs]

    def _given(self, name: str, array: np.ndarray, part: HybridPart) -> np.ndarray:
        """A value as a part can take it: a GPU part was made for one shape."""
        if part.target != GPU:
            return array
        expected = self._hybrid.types[name]
        if array.shape != expected.shape:
            raise InputError(
                f"'{name}' came out as {list(array.shape)}",
                f"the GPU's part was made for {list(expected.shape)}, as the file says",
                "open the model with placement='cpu', or give it inputs of the file's own shapes",
            )
        return np.asarray(array, order="C")

    def shapes(self) -> Mapping[str, Shape]:
        """The shapes of what parts in LiteRT give."""
        found = [one.shapes() for one in self._engines if isinstance(one, LitertEngine)]
        return {name: shape for shapes in found for name, shape in shapes.items()}

    def direct(self, lock: Lock) -> Direct | None:
        """The shortest way where all of the model is one part in LiteRT: from names to names."""
        if len(self._engines) != 1 or not isinstance(self._engines[0], LitertEngine):
            return None
        compiled = self._hybrid.compiled
        inputs, outputs = (
            {name: port.name for name, port in zip(names, ports, strict=True)}
            for names, ports in (
                (compiled.input_names, self.plan.inputs),
                (compiled.output_names, self.plan.outputs),
            )
        )
        return self._engines[0].direct(inputs, outputs, lock)

    def profile(self, arrays: Sequence[np.ndarray], runs: int) -> list[float]:
        """The shortest time of each launch of all parts on the GPU."""
        times: list[float] = []
        self._run(arrays, lambda player, given: times.extend(player.profile(given, runs)))
        return times

    def reset(self) -> None:
        """Forget all states."""
        for engine in self._engines:
            engine.reset()

    def close(self) -> None:
        for engine in self._engines:
            engine.close()
