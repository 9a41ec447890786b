"""Accuracy by layer: what each layer adds to the difference from a CPU engine, and whose it is.

Each tensor of the file is computed once more, in double precision, by the definition of its
operator: from our own values, which tells what our kernel did, and from the engine's, which tells
what the engine did. Neither side answers for what it was given.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain

import numpy as np

from fourfold.backends.cpu.registry import usable_engine
from fourfold.compiler.pipeline import LoweringInput
from fourfold.compiler.placement import decide, read_problem
from fourfold.device import DeviceInfo
from fourfold.formats import Model
from fourfold.options import CompileOptions, PlacementOptions
from fourfold.tools.report.compare import deviation
from fourfold.tools.report.exact import ExactGraph
from fourfold.tools.report.exact_fit import ExactFit
from fourfold.tools.report.exact_tensors import ExactTensors
from fourfold.tools.report.layers import (
    CARRIED,
    HALF,
    KERNEL,
    MEANING,
    OVERFLOW,
    OWN_TOLERANCE,
    REWRITE,
    ROUNDED,
    STEPS,
    TOLERANCE,
    Layer,
)
from fourfold.tools.report.rounding import imitations
from fourfold.tools.report.values import EngineTensors, FileTensors, KernelTensors, play_all

LAST_DIGIT = 2.0**-24  # of a float: what one addition of many may lose


class LayerComparison:
    """A model run on both sides, to be compared value by value."""

    def __init__(
        self,
        model: Model,
        lowerings: Sequence[LoweringInput],
        options: CompileOptions,
        inputs: Sequence[np.ndarray],
    ) -> None:
        self._model, self._lowerings, self._options = model, lowerings, options
        self._graph, self._passed = model.main, dict(zip(model.main.arguments, inputs, strict=True))
        self._engine = usable_engine(model.cpu_engine)
        self.tensors = FileTensors(model)
        self.kernels = self._play(lowerings)

    @staticmethod
    def of(
        source: str | bytes,
        device: DeviceInfo,
        options: CompileOptions,
        inputs: Sequence[np.ndarray],
    ) -> LayerComparison:
        """Compare the parts that a session with placement='gpu' runs on the device."""
        problem = read_problem(source, device, options, PlacementOptions("gpu"))
        decision = decide(problem, {})
        lowerings = [part.lowering for part in decision.lowered.values()]
        return LayerComparison(decision.problem.model, lowerings, options, inputs)

    @property
    def _precision(self) -> str:
        return self._options.precision

    @property
    def is_whole(self) -> bool:
        """Whether one part is all of the model, so that its results are the model's."""
        return len(self._lowerings) == 1 and all(map(self.kernels.has, self._graph.results))

    def outputs(self, full: bool = False) -> list[np.ndarray]:
        """What our kernels gave in the end, in the precision asked for or in full."""
        kernels = self.full if full else self.kernels
        return [kernels.known(name) for name in self._graph.results]

    def engine_outputs(self) -> list[np.ndarray | None]:
        """What the engine gave with the kernels that show every value."""
        return [self.engine.value(name) for name in self._graph.results]

    def exact_outputs(self) -> list[np.ndarray]:
        """The model by its definitions alone, from its inputs on."""
        exact = ExactGraph(self._graph, self._passed.get)
        return [exact.value(name) for name in self._graph.results]

    @cached_property
    def engine(self) -> EngineTensors:
        """The engine's values, asked for once ours are packed: so both need less memory."""
        values = self._engine.compute_values(self._model, [*self._passed.values()])
        return EngineTensors(self.tensors, values)

    @cached_property
    def _exact(self) -> ExactTensors:
        return ExactTensors(self._graph, self.tensors, self.engine)

    @cached_property
    def full(self) -> KernelTensors:
        """The same as `kernels` in full precision."""
        options = replace(self._options, precision="fp32")
        return self._play([one.asked_for(options) for one in self._lowerings])

    def _play(self, lowerings: Sequence[LoweringInput]) -> KernelTensors:
        """Each part gets the engine's values, so that none answers for those before it."""
        found = KernelTensors(self.tensors)
        for lowering in lowerings:
            arrays = {name: self._argument(name) for name in lowering.graph.arguments}
            names = found.choose(lowering.graph)
            for name, array in chain(arrays.items(), play_all(lowering, arrays, names)):
                found.add(name, array)
        return found

    def _argument(self, name: str) -> np.ndarray:
        passed = self._passed.get(name)
        found = self.engine.value(name) if passed is None else passed
        assert found is not None, f"the engine has no '{name}'"
        return np.asarray(found, order="C")

    def layers(self) -> Iterator[Layer]:
        """Every tensor that both sides keep, and those that the engine alone keeps and rounds."""
        for names in self.tensors.made.values():
            layer = self._layer(names[0])
            if layer is not None:
                yield layer

    def _layer(self, name: str) -> Layer | None:
        layer = self._difference(name)
        if layer is None:
            return None
        layer, shown = self._engine_judged(layer)
        if self.kernels.name(name) is not None:
            return self._judged(layer, shown)
        assert layer.engine_own is not None
        layer = replace(layer, difference=layer.engine_own)
        return None if shown is None else replace(layer, verdict=shown[0], reason=shown[1])

    def _difference(self, name: str) -> Layer | None:
        """How far the two sides are apart, where ours is kept; None where the engine has none."""
        expected, ours = self.engine.value(name), self.kernels.value(name)
        if expected is None or expected.dtype == object:
            return None
        found, step = (
            deviation(expected if ours is None else ours, expected),
            self._exact.step(name),
        )
        allowed = _allowed(expected, step, TOLERANCE[self._precision])
        return Layer(name, self.tensors.title(name), expected.shape, found, allowed, step=step)

    def _engine_judged(self, layer: Layer) -> tuple[Layer, tuple[str, str] | None]:
        """What the engine adds, and whose that is; both sides at once would be too much memory."""
        fit = ExactFit(self._exact, layer.name, self.engine)
        return replace(layer, engine_own=fit.deviation), self._engine_verdict(layer.name, fit)

    def _judged(self, layer: Layer, shown: tuple[str, str] | None) -> Layer:
        """The first that holds: ours is wrong by itself; the engine's is; both got other inputs."""
        fit = ExactFit(self._exact, layer.name, self.kernels)
        layer = replace(layer, own=fit.deviation)
        if not fit.is_exact(self._allowed_by_itself(layer.name, self._precision)):
            verdict, reason = self._blame(layer)
            return replace(layer, verdict=verdict, reason=reason)
        if shown is not None:
            return replace(layer, verdict=shown[0], reason=shown[1])
        wrong = layer.difference.broken or layer.difference.largest > layer.allowed
        return replace(layer, verdict=CARRIED) if wrong else layer

    def _is_exact_in_full(self, name: str) -> bool:
        fit = ExactFit(self._exact, name, self.full)
        return fit.is_exact(self._allowed_by_itself(name, "fp32"))

    def _allowed_by_itself(self, name: str, precision: str) -> float:
        """What a layer may add: each number of a long sum can cost a last digit."""
        return max(OWN_TOLERANCE[precision], self.tensors.summed(name) * LAST_DIGIT)

    def _blame(self, layer: Layer) -> tuple[str, str]:
        """What is wrong with our own result."""
        name = layer.name
        if self._precision != "fp32" and self._is_exact_in_full(name):
            lost = layer.difference.beyond_half or layer.difference.broken
            return (OVERFLOW if lost else HALF), "in full precision it is exact"
        called = self.kernels.name(name)
        assert called is not None
        for lowering in self._lowerings:
            if called in lowering.graph.producers:
                return self._kernel_or_rewrite(lowering, called)
        return KERNEL, "it is passed on wrongly"

    def _kernel_or_rewrite(self, lowering: LoweringInput, called: str) -> tuple[str, str]:
        """Which of the two made it: the node as it was rewritten tells them apart."""
        graph = ExactGraph(lowering.graph, self.kernels.array)
        found = deviation(self.kernels.known(called), graph.value(called))
        if not found.broken and found.largest <= OWN_TOLERANCE[self._precision]:
            return REWRITE, "the rewritten graph says something else than the model"
        return KERNEL, "our kernel does not give what its op's definition does"

    def _engine_verdict(self, name: str, fit: ExactFit) -> tuple[str, str] | None:
        """Nothing where the engine gives the exact result; else whether its rounding is why."""
        if fit.is_exact(self._allowed_by_itself(name, "fp32")):
            return None
        verdict = f"{ROUNDED} {self._engine.title}"
        if fit.noise.is_rounding():
            most = fit.noise.most
            return verdict, f"it is at most {most:.2f} steps from the exact result, without bias"
        for title, ways in imitations() if self.tensors.rounds(name) else ():
            if fit.is_imitated(ways):
                return verdict, f"it rounds the input to {title}: so rounded, ours is the same"
        return MEANING, f"{self._engine.title} gives another result for the same inputs"


def _allowed(expected: np.ndarray, step: float, tolerance: float) -> float:
    """How far a value may be off, relative to its range."""
    reach = float(expected.max()) - float(expected.min()) if expected.size else 0.0
    return max(tolerance, STEPS * step / reach if reach else 0.0)
