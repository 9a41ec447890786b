"""Plays a model in parts: an engine for each, made from what its part needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, cast

import numpy as np

from fourfold.cpu.direct import Direct, Lock
from fourfold.cpu.litert import LitertEngine
from fourfold.lazy import lazy_import
from fourfold.plan import Compiled, Plan
from fourfold.plan.hybrid import HybridPart, HybridPlan
from fourfold.players import Player
from fourfold.runtime.hybrid_runner import Engine, Runner, Step
from fourfold.types import Shape

if TYPE_CHECKING:
    from fourfold.cpu import reference
else:
    reference = lazy_import("fourfold.cpu.reference")

MakePlayer = Callable[[Plan], Engine]


def make_hybrid_player(parted: HybridPlan, make_player: MakePlayer, threads: int) -> HybridPlayer:
    """Engines for all parts, strung together."""
    steps = [Step(part, _engine(part, make_player, threads)) for part in parted.parts]
    plan = parted.compiled.plan
    inputs, outputs = ([port.name for port in ports] for ports in (plan.inputs, plan.outputs))
    return HybridPlayer(Runner(steps, inputs, outputs, parted.types), plan)


def _engine(part: HybridPart, make_player: MakePlayer, threads: int) -> Engine:
    if part.plan is not None:
        return make_player(part.plan)
    if part.graph is not None:
        return reference.NumpyEngine(part.graph)
    return LitertEngine(part.content, *part.bindings, threads)


class HybridPlayer:
    """Plays a model in parts the way that a player plays a plan."""

    def __init__(self, runner: Runner, plan: Plan) -> None:
        self._runner, self.plan = runner, plan
        on_gpu = [step.engine for step in runner.steps if step.part.plan is not None]
        self.players = tuple(cast(Player, engine) for engine in on_gpu)

    def shapes(self) -> Mapping[str, Shape]:
        """The shapes of what parts in LiteRT give."""
        engines = (step.engine for step in self._runner.steps)
        found = [engine.shapes() for engine in engines if isinstance(engine, LitertEngine)]
        return {name: shape for shapes in found for name, shape in shapes.items()}

    def run(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        return self._runner.run(arrays)

    def direct(self, compiled: Compiled, lock: Lock) -> Direct | None:
        """The shortest way where all of the model is one part in LiteRT."""
        engines = [step.engine for step in self._runner.steps]
        if len(engines) != 1 or not isinstance(engines[0], LitertEngine):
            return None
        inputs, outputs = (
            {name: port.name for name, port in zip(names, ports, strict=True)}
            for names, ports in (
                (compiled.input_names, self.plan.inputs),
                (compiled.output_names, self.plan.outputs),
            )
        )
        return engines[0].direct(inputs, outputs, lock)

    def profile(self, arrays: Sequence[np.ndarray], runs: int) -> list[float]:
        """The shortest time of each launch of all parts on the GPU."""
        times: dict[int, list[float]] = {}

        def visit(engine: object, given: Sequence[np.ndarray]) -> None:
            for player in self.players:
                if player is engine:
                    times[id(player)] = player.profile(given, runs)

        self._runner.visit(arrays, visit)
        return [seconds for player in self.players for seconds in times[id(player)]]

    def reset(self) -> None:
        self._runner.reset()

    def close(self) -> None:
        self._runner.close()
