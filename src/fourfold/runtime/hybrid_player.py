"""Plays a model in parts: a runner for each, run in turn, each with what those before it gave."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, cast

import numpy as np

from fourfold.cpu.protocol import Direct, Lock, PartRunner
from fourfold.cpu.registry import find_engine
from fourfold.errors import InputError
from fourfold.plan import Plan, Port
from fourfold.plan.hybrid import HybridPart, HybridPlan
from fourfold.players import Player
from fourfold.players.host_memory import run_through_host
from fourfold.players.protocol import Into, Outputs
from fourfold.players.timing import TimedRuns
from fourfold.types import Shape

Runner = Player | PartRunner  # of a part on the device, or of one on the CPU
MakePlayer = Callable[[Plan], Player]
BeforeGpu = Callable[[Player, Sequence[np.ndarray]], None]


def make_hybrid_player(hybrid: HybridPlan, make_player: MakePlayer, threads: int) -> HybridPlayer:
    """A player with a runner for each part; `make_player` makes those of the GPU's parts."""
    return HybridPlayer(hybrid, [_runner(part, make_player, threads) for part in hybrid.parts])


def _runner(part: HybridPart, make_player: MakePlayer, threads: int) -> Runner:
    if part.plan is not None:
        return make_player(part.plan)
    return find_engine(part.target).open_part(part, threads)


class HybridPlayer(TimedRuns):
    """Plays a model in parts the way that a player plays a plan. Not for two threads at once."""

    def __init__(self, hybrid: HybridPlan, runners: Sequence[Runner]) -> None:
        self._hybrid, self._runners = hybrid, tuple(runners)
        self.plan = hybrid.compiled.plan
        steps = tuple(self._steps())
        self.players = tuple(cast(Player, one) for part, one in steps if part.plan is not None)
        on_cpu = (one for part, one in steps if part.plan is None)
        self._on_cpu = tuple(cast(PartRunner, one) for one in on_cpu)
        self._outputs = [port.name for port in self.plan.outputs]
        self._last_reader = {name: i for i, part in enumerate(hybrid.parts) for name in part.inputs}
        self._last_reader |= dict.fromkeys(self._outputs, len(hybrid.parts))
        self._demands: dict[tuple[str, ...], frozenset[str]] = {}

    def with_runners(self, wrap: Callable[[str, Runner], Runner]) -> HybridPlayer:
        """The same with other runners, made of these; they are told the name of who runs a part."""
        return HybridPlayer(self._hybrid, [wrap(part.target, one) for part, one in self._steps()])

    def _steps(self) -> zip[tuple[HybridPart, Runner]]:
        return zip(self._hybrid.parts, self._runners, strict=True)

    def run(self, arrays: Sequence[np.ndarray], into: Into | None = None) -> Outputs:
        """The model's outputs for its inputs, both in the model's order: as new arrays, or `into`
        those that are given, unless a result turns out to have another shape. What is None there
        is not fetched, and parts that are needed for nothing else are not run.
        """
        return self._run(arrays, into, lambda player, given: None)

    def _run(
        self, arrays: Sequence[np.ndarray], into: Into | None, before_gpu: BeforeGpu
    ) -> Outputs:
        values = {port.name: one for port, one in zip(self.plan.inputs, arrays, strict=True)}
        targets = {} if into is None else dict(zip(self._outputs, into, strict=True))
        wanted = [name for name in self._outputs if into is None or targets[name] is not None]
        needed = self._needed(wanted)
        fresh: set[str] = set()  # results that nobody else holds
        for number, (part, runner) in enumerate(self._steps()):
            if not self._is_needed(number, needed):
                continue
            given = [self._given(name, values[name], part) for name in part.inputs]
            if part.plan is not None:
                before_gpu(cast(Player, runner), given)
                found = cast(Player, runner).run(given, _places(part.plan, part, needed, targets))
                fresh.update(part.outputs)
            else:
                needs = [name in needed for name in part.outputs]
                found = cast(PartRunner, runner).run(given, needs)
            values.update(zip(part.outputs, found, strict=True))
            for name in part.inputs:
                if self._last_reader[name] == number:
                    values.pop(name, None)
        return [
            _delivered(values[name], targets.get(name), name in fresh) if name in wanted else None
            for name in self._outputs
        ]

    def _needed(self, wanted: Sequence[str]) -> frozenset[str]:
        """The values that are wanted, and those that parts need for them."""
        key = tuple(wanted)
        if key not in self._demands:
            needed = set(wanted)
            for number in reversed(range(len(self._runners))):
                if self._is_needed(number, needed):
                    needed.update(self._hybrid.parts[number].inputs)
            self._demands[key] = frozenset(needed)
        return self._demands[key]

    def _is_needed(self, number: int, needed: Collection[str]) -> bool:
        """Whether a part gives something that is needed, or to a run that comes later."""
        states = self._hybrid.states
        if states is None or number in states:
            return True
        return any(name in needed for name in self._hybrid.parts[number].outputs)

    def _given(self, name: str, array: np.ndarray, part: HybridPart) -> np.ndarray:
        """A value as a part can take it: a GPU part was made for one shape."""
        if part.plan is None:
            return array
        expected = self._hybrid.types[name]
        if array.shape != expected.shape:
            raise InputError(
                f"'{name}' came out as {list(array.shape)}",
                f"the GPU's part was made for {list(expected.shape)}, as the file says",
                "open the model with placement='cpu', or give it inputs of the file's own shapes",
            )
        return np.asarray(array, order="C")

    def run_bound(self, arrays: Sequence[Any], into: Sequence[Any] | None = None) -> Outputs:
        """As `run`; memory of the device goes through the host, where the parts meet."""
        ports = (self.plan.inputs, self.plan.outputs)
        return run_through_host(self.run, ports, arrays, into)

    def shapes(self) -> Mapping[str, Shape]:
        """The shapes of results that only the CPU's engines know."""
        found = (runner.shapes() for runner in self._on_cpu)
        return {name: shape for shapes in found for name, shape in shapes.items()}

    def direct(self, lock: Lock) -> Direct | None:
        """The shortest way where all of the model is one part on the CPU: from names to names."""
        if len(self._runners) != 1 or not self._on_cpu:
            return None
        compiled = self._hybrid.compiled
        inputs, outputs = (
            {name: port.name for name, port in zip(names, ports, strict=True)}
            for names, ports in (
                (compiled.input_names, self.plan.inputs),
                (compiled.output_names, self.plan.outputs),
            )
        )
        return self._on_cpu[0].direct(inputs, outputs, lock)

    def profile(self, arrays: Sequence[np.ndarray], runs: int) -> list[float]:
        """The shortest time of each launch of all parts on the GPU."""
        times: list[float] = []
        self._run(arrays, None, lambda player, given: times.extend(player.profile(given, runs)))
        return times

    def reset(self) -> None:
        """Forget all states."""
        for runner in self._runners:
            runner.reset()

    def close(self) -> None:
        """Close all runners, and hold none of them any longer."""
        for runner in self._runners:
            runner.close()
        self._runners = self.players = self._on_cpu = ()


def _places(
    plan: Plan, part: HybridPart, needed: Collection[str], targets: Mapping[str, Any]
) -> Into | None:
    """Where the results of a part on the device go; None where all are wanted, as new arrays."""
    names = part.outputs
    if all(name in needed and targets.get(name) is None for name in names):
        return None
    return [
        _place(port, name in needed, targets.get(name))
        for name, port in zip(names, plan.outputs, strict=True)
    ]


def _place(port: Port, needed: bool, target: np.ndarray | None) -> np.ndarray | None:
    if target is not None and target.shape == port.type.shape:
        return target
    return np.empty(port.type.shape, port.type.dtype.numpy) if needed else None


def _delivered(value: np.ndarray, target: np.ndarray | None, fresh: bool) -> np.ndarray:
    """A result for the caller: in its own array, or in one that nobody else holds."""
    if value is target:
        return value
    if target is not None and target.shape == value.shape:
        np.copyto(target, value, casting="equiv")
        return target
    return value if fresh else value.copy()
