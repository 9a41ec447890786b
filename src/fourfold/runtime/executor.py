"""Executor: runs the parts of a compiled model, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, cast

import numpy as np

from fourfold.backends import Player
from fourfold.backends.cpu.protocol import CpuEngine, Direct, Lock, PartRunner
from fourfold.backends.protocol import Into, Outputs
from fourfold.backends.timing import TimedRuns
from fourfold.errors import InputError
from fourfold.options import PlacementOptions
from fourfold.plan import CompiledModel, Part, Plan, Port
from fourfold.support.lazy import lazy_import
from fourfold.types import Shape

host_memory = lazy_import("fourfold.backends.host_memory")
registry = lazy_import("fourfold.backends.cpu.registry")

Runner = Player | PartRunner  # runs a part on the device, or in a CPU engine
MakePlayer = Callable[[Plan], Player]
BeforePlan = Callable[[Player, Sequence[np.ndarray]], None]


def open_executor(
    model: CompiledModel, make_player: MakePlayer, options: PlacementOptions
) -> Executor:
    """Return an executor with a runner for each part; `make_player` opens plans."""
    return Executor(model, [_open_part(part, make_player, options) for part in model.parts])


def _open_part(part: Part, make_player: MakePlayer, options: PlacementOptions) -> Runner:
    if part.plan is not None:
        return make_player(part.plan)
    engine: CpuEngine = registry.find_engine(part.target, options.isolate)
    return engine.open_part(part, options.thread_count)


class Executor(TimedRuns):
    """Runs a compiled model. Not for two threads at once.

    A model that runs whole on the device goes straight to `player`. Otherwise each part gets the
    values that the caller or earlier parts provide, in host memory.
    """

    def __init__(self, model: CompiledModel, runners: Sequence[Runner]) -> None:
        self.model, self._runners = model, tuple(runners)
        steps = tuple(self._steps())
        self.players = tuple(cast(Player, one) for part, one in steps if part.plan is not None)
        self.player: Player | None = self.players[0] if model.is_whole else None
        on_cpu = (one for part, one in steps if part.plan is None)
        self._on_cpu = tuple(cast(PartRunner, one) for one in on_cpu)
        self._outputs = [port.name for port in model.outputs]
        self._last_reader = {name: i for i, part in enumerate(model.parts) for name in part.inputs}
        self._last_reader |= dict.fromkeys(self._outputs, len(model.parts))
        self._needed_values: dict[tuple[str, ...], frozenset[str]] = {}

    def with_runners(self, wrap: Callable[[str, Runner], Runner]) -> Executor:
        """Return an executor with other runners; `wrap` makes each from its target and the old."""
        return Executor(self.model, [wrap(part.target, one) for part, one in self._steps()])

    def _steps(self) -> zip[tuple[Part, Runner]]:
        return zip(self.model.parts, self._runners, strict=True)

    def run(self, arrays: Sequence[np.ndarray], into: Into | None = None) -> Outputs:
        """Return the model's outputs for its inputs, both in the model's order.

        Outputs are new arrays, or the arrays of `into` unless a result has another shape. An output
        that is None in `into` is not fetched, and parts that only it needs do not run.
        """
        if self.player is not None:
            return self.player.run(arrays, into)
        return self._run_parts(arrays, into, lambda player, values: None)

    def _run_parts(
        self, arrays: Sequence[np.ndarray], into: Into | None, before_plan: BeforePlan
    ) -> Outputs:
        values = {port.name: one for port, one in zip(self.model.inputs, arrays, strict=True)}
        targets = {} if into is None else dict(zip(self._outputs, into, strict=True))
        requested = [name for name in self._outputs if into is None or targets[name] is not None]
        needed = self._needed(requested)
        fresh: set[str] = set()  # results that nothing else holds
        for number, (part, runner) in enumerate(self._steps()):
            if not self._is_needed(number, needed):
                continue
            inputs = [self._input(name, values[name], part) for name in part.inputs]
            if part.plan is not None:
                before_plan(cast(Player, runner), inputs)
                destinations = _destinations(part.plan, part, needed, targets)
                results = cast(Player, runner).run(inputs, destinations)
                fresh.update(part.outputs)
            else:
                needs = [name in needed for name in part.outputs]
                results = cast(PartRunner, runner).run(inputs, needs)
            values.update(zip(part.outputs, results, strict=True))
            for name in part.inputs:
                if self._last_reader[name] == number:
                    values.pop(name, None)
        return [
            _delivered(values[name], targets.get(name), name in fresh)
            if name in requested
            else None
            for name in self._outputs
        ]

    def _needed(self, outputs: Sequence[str]) -> frozenset[str]:
        """Return these outputs, and the values that parts need to compute them."""
        key = tuple(outputs)
        if key not in self._needed_values:
            needed = set(outputs)
            for number in reversed(range(len(self._runners))):
                if self._is_needed(number, needed):
                    needed.update(self.model.parts[number].inputs)
            self._needed_values[key] = frozenset(needed)
        return self._needed_values[key]

    def _is_needed(self, number: int, needed: Collection[str]) -> bool:
        """Return whether a part provides a needed value, or has a state that later runs
        depend on.
        """
        if number in self.model.states:
            return True
        return any(name in needed for name in self.model.parts[number].outputs)

    def _input(self, name: str, array: np.ndarray, part: Part) -> np.ndarray:
        """Return a value as a part can take it: a plan was compiled for one shape."""
        if part.plan is None:
            return array
        expected = self.model.crossing[name]
        if array.shape != expected.shape:
            raise InputError(
                f"'{name}' has shape {list(array.shape)} at run time",
                f"the device's part was compiled for {list(expected.shape)}, as the file says",
                "open the model with placement='cpu', or pass inputs of the shapes in the file",
            )
        return np.asarray(array, order="C")

    def run_bound(self, arrays: Sequence[Any], into: Sequence[Any] | None = None) -> Outputs:
        """Run with device memory among inputs and outputs. Between parts it is copied to the
        host, where the parts exchange values.
        """
        if self.player is not None:
            return self.player.run_bound(arrays, into)
        ports = (self.model.inputs, self.model.outputs)
        results: Outputs = host_memory.run_through_host(self.run, ports, arrays, into)
        return results

    def run_seconds(self, arrays: Sequence[np.ndarray], runs: int) -> list[float]:
        """Return the seconds of runs, by the clock of the machine that the device is on."""
        if self.player is not None:
            return self.player.run_seconds(arrays, runs)
        return super().run_seconds(arrays, runs)

    def shapes(self) -> Mapping[str, Shape]:
        """Return the shapes of results that only the CPU engines know."""
        shapes = (runner.shapes() for runner in self._on_cpu)
        return {name: shape for one in shapes for name, shape in one.items()}

    def direct(self, lock: Lock) -> Direct | None:
        """Return the shortest path from named arrays to named arrays of a model that is one part
        in a CPU engine; None where its engine has none, and for other models.
        """
        if len(self._runners) != 1 or not self._on_cpu:
            return None
        model = self.model
        inputs = {n: port.name for n, port in zip(model.input_names, model.inputs, strict=True)}
        outputs = {n: port.name for n, port in zip(model.output_names, model.outputs, strict=True)}
        return self._on_cpu[0].direct(inputs, outputs, lock)

    def profile(self, arrays: Sequence[np.ndarray], runs: int) -> list[float]:
        """Return the shortest time of each launch of all plans."""
        if self.player is not None:
            return self.player.profile(arrays, runs)
        times: list[float] = []
        self._run_parts(
            arrays, None, lambda player, values: times.extend(player.profile(values, runs))
        )
        return times

    def reset(self) -> None:
        """Reset all states."""
        for runner in self._runners:
            runner.reset()

    def close(self) -> None:
        """Close all runners and release them."""
        for runner in self._runners:
            runner.close()
        self._runners = self.players = self._on_cpu = ()
        self.player = None


def _destinations(
    plan: Plan, part: Part, needed: Collection[str], targets: Mapping[str, Any]
) -> Into | None:
    """Return where a plan's results go; None where all are needed, as new arrays."""
    if all(name in needed and targets.get(name) is None for name in part.outputs):
        return None
    return [
        _destination(port, name in needed, targets.get(name))
        for name, port in zip(part.outputs, plan.outputs, strict=True)
    ]


def _destination(port: Port, needed: bool, target: np.ndarray | None) -> np.ndarray | None:
    if target is not None and target.shape == port.type.shape:
        return target
    return np.empty(port.type.shape, port.type.dtype.numpy) if needed else None


def _delivered(value: np.ndarray, target: np.ndarray | None, fresh: bool) -> np.ndarray:
    """Return a result in the caller's array, or in one that nothing else holds."""
    if value is target:
        return value
    if target is not None and target.shape == value.shape:
        np.copyto(target, value, casting="equiv")
        return target
    return value if fresh else value.copy()
