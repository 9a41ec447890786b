"""Opens a model in parts for a session: what it runs, what goes in and out, and where it runs."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from fourfold.compile import Wish
from fourfold.cpu.direct import Direct, Lock
from fourfold.cpu.litert import LitertEngine
from fourfold.graph import Graph
from fourfold.opening import Opened, Request, make_player, tuned_choices
from fourfold.placing import (
    Situation,
    Wishes,
    decide,
    describe_whole,
    make_runner,
    read_situation,
)
from fourfold.plan import Compiled, Plan, Port, Program
from fourfold.players.opencl import Player
from fourfold.split import Placement, Runner
from fourfold.store.keys import program_parts
from fourfold.store.store import Store

__all__ = ["PartsPlayer", "Placed", "Wishes", "explain_placement", "join_plans", "open_parts"]


class PartsPlayer:
    """Plays a model in parts the way that a player plays a plan."""

    def __init__(self, runner: Runner, plan: Plan) -> None:
        self._runner, self.plan = runner, plan
        engines = [step.engine for step in runner.steps]
        self.players = tuple(engine for engine in engines if isinstance(engine, Player))

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
        self._runner.visit(arrays, lambda engine, given: _profile(engine, given, runs, times))
        return [seconds for player in self.players for seconds in times[id(player)]]

    def reset(self) -> None:
        self._runner.reset()

    def close(self) -> None:
        self._runner.close()


def _profile(
    engine: object, given: Sequence[np.ndarray], runs: int, times: dict[int, list[float]]
) -> None:
    if isinstance(engine, Player):
        times[id(engine)] = engine.profile(given, runs)


@dataclass(frozen=True, eq=False)
class Placed:
    """A model made ready in parts. `compiled` describes all of the GPU's parts as one plan."""

    player: PartsPlayer
    compiled: Compiled
    placement: Placement


def open_parts(request: Request, store: Store | None, wishes: Wishes) -> Placed:
    """Places a model, plans the GPU's parts and builds them, with what the store has of them."""
    began = time.perf_counter()
    situation = _situation(request, wishes)
    tuned = tuned_choices(request, store)
    decision = decide(situation, tuned)
    request.timings["place"] = time.perf_counter() - began
    took: dict[str, float] = {}

    def play(plan: Plan) -> Player:
        binary = None
        if store is not None:
            binary = store.find_binary(program_parts(plan.program, request.device))
        player = make_player(request, Opened(Compiled(plan, (), ()), binary, "model"), store)
        for stage in ("build", "upload"):
            took[stage] = took.get(stage, 0.0) + request.timings[stage]
        return player

    plan = join_plans(situation.graph, decision.plans.values(), situation.wish.precision)
    player = PartsPlayer(make_runner(situation, decision, play), plan)
    request.timings.update(took)
    model = situation.model
    names = (model.input_names, model.output_names)
    compiled = Compiled(plan, *names, signatures=model.open_sizes)
    return Placed(player, compiled, decision.placement)


def explain_placement(request: Request, wishes: Wishes) -> Placement:
    """Where a model runs that was opened as a whole, told from its file."""
    return describe_whole(_situation(request, wishes))


def _situation(request: Request, wishes: Wishes) -> Situation:
    shapes, form = dict(request.shapes or {}), request.config.launches
    precision, quantized = request.wanted_precision, request.quantized
    wish = Wish(precision, request.literal, shapes, form, quantized)
    return read_situation(request.model, request.title, request.device, wish, wishes)


def join_plans(graph: Graph, plans: Iterable[Plan], precision: str) -> Plan:
    """All launches and buffers of several plans, to be looked at; no player can play it."""
    found = list(plans)
    text = "\n".join(plan.program.text for plan in found)
    return Plan(
        name=graph.name,
        program=Program(text, found[0].program.options if found else ""),
        buffers=tuple(chain.from_iterable(plan.buffers for plan in found)),
        launches=tuple(chain.from_iterable(plan.launches for plan in found)),
        inputs=_ports(graph, graph.arguments),
        outputs=_ports(graph, graph.results),
        constants=np.zeros(0, np.uint8),
        precision=precision,
    )


def _ports(graph: Graph, names: Iterable[str]) -> tuple[Port, ...]:
    return tuple(Port(name, graph.types[name], 0, graph.quantization.get(name)) for name in names)
