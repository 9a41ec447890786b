"""Accuracy by layer: the error that each layer adds, on our side and on the CPU engine's.

Each tensor of the file is computed again in double precision by the definition of its operator:
from our own values, to find the error of our kernel, and from the engine's values, to find the
error of the engine. Errors of a layer's inputs do not count against it.
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

LAST_DIGIT = 2.0**-24  # relative error of one float32 addition


class LayerComparison:
    """Runs a model on both sides, and compares their values one by one."""

    def __init__(
        self,
        model: Model,
        lowerings: Sequence[LoweringInput],
        options: CompileOptions,
        inputs: Sequence[np.ndarray],
        isolate: bool = False,
    ) -> None:
        self._model, self._lowerings, self._options = model, lowerings, options
        self._graph, self._passed = model.main, dict(zip(model.main.arguments, inputs, strict=True))
        self._engine = usable_engine(model.cpu_engine, isolate)
        self.tensors = FileTensors(model)
        self.kernels = self._play(lowerings)

    @staticmethod
    def of(
        source: str | bytes,
        device: DeviceInfo,
        options: CompileOptions,
        inputs: Sequence[np.ndarray],
        isolate: bool = False,
    ) -> LayerComparison:
        """Compare the parts that a session with placement='gpu' runs on the device."""
        problem = read_problem(source, device, options, PlacementOptions("gpu", isolate=isolate))
        decision = decide(problem, {})
        lowerings = [part.lowering for part in decision.lowered.values()]
        return LayerComparison(decision.problem.model, lowerings, options, inputs, isolate)

    @property
    def _precision(self) -> str:
        return self._options.precision

    @property
    def is_whole(self) -> bool:
        """True if one part is the whole model, so that its results are the model's."""
        return len(self._lowerings) == 1 and all(map(self.kernels.has, self._graph.results))

    def outputs(self, full: bool = False) -> list[np.ndarray]:
        """Return the outputs of our kernels, in the requested precision or in fp32."""
        kernels = self.full if full else self.kernels
        return [kernels.known(name) for name in self._graph.results]

    def engine_outputs(self) -> list[np.ndarray | None]:
        """Return the outputs of the engine's plain kernels, which show every value."""
        return [self.engine.value(name) for name in self._graph.results]

    def exact_outputs(self) -> list[np.ndarray]:
        """Return the outputs by the definitions of all operators, from the model's inputs."""
        exact = ExactGraph(self._graph, self._passed.get)
        return [exact.value(name) for name in self._graph.results]

    @cached_property
    def engine(self) -> EngineTensors:
        """The engine's values, computed after ours are packed to save memory."""
        values = self._engine.compute_values(self._model, [*self._passed.values()])
        return EngineTensors(self.tensors, values)

    @cached_property
    def _exact(self) -> ExactTensors:
        return ExactTensors(self._graph, self.tensors, self.engine)

    @cached_property
    def full(self) -> KernelTensors:
        """Values of our kernels in fp32."""
        options = replace(self._options, precision="fp32")
        return self._play([one.with_compile_options(options) for one in self._lowerings])

    def _play(self, lowerings: Sequence[LoweringInput]) -> KernelTensors:
        """Run each part on the engine's values, so that errors before it do not count."""
        tensors = KernelTensors(self.tensors)
        for lowering in lowerings:
            arrays = {name: self._argument(name) for name in lowering.graph.arguments}
            names = tensors.choose(lowering.graph)
            for name, array in chain(arrays.items(), play_all(lowering, arrays, names)):
                tensors.add(name, array)
        return tensors

    def _argument(self, name: str) -> np.ndarray:
        passed = self._passed.get(name)
        array = self.engine.value(name) if passed is None else passed
        assert array is not None, f"the engine has no '{name}'"
        return np.asarray(array, order="C")

    def layers(self) -> Iterator[Layer]:
        """Yield tensors that both sides have, and those that only the engine has and rounds."""
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
        """Return the difference of the two sides, if ours is known; None if the engine's is not."""
        expected, ours = self.engine.value(name), self.kernels.value(name)
        if expected is None or expected.dtype == object:
            return None
        difference = deviation(expected if ours is None else ours, expected)
        step = self._exact.step(name)
        allowed = _allowed(expected, step, TOLERANCE[self._precision])
        return Layer(name, self.tensors.title(name), expected.shape, difference, allowed, step=step)

    def _engine_judged(self, layer: Layer) -> tuple[Layer, tuple[str, str] | None]:
        """Add the engine's own error and the verdict on it. Both sides at once would take too much
        memory.
        """
        fit = ExactFit(self._exact, layer.name, self.engine)
        return replace(layer, engine_own=fit.deviation), self._engine_verdict(layer.name, fit)

    def _judged(self, layer: Layer, shown: tuple[str, str] | None) -> Layer:
        """Add the first verdict that holds: our error, the engine's error, or other inputs."""
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
        """Return the largest error a layer may add; it grows with the length of its sums."""
        return max(OWN_TOLERANCE[precision], self.tensors.summed(name) * LAST_DIGIT)

    def _blame(self, layer: Layer) -> tuple[str, str]:
        """Return the verdict and the reason for an error of our own."""
        name = layer.name
        if self._precision != "fp32" and self._is_exact_in_full(name):
            lost = layer.difference.beyond_half or layer.difference.broken
            return (OVERFLOW if lost else HALF), "in fp32 it is exact"
        called = self.kernels.name(name)
        assert called is not None
        for lowering in self._lowerings:
            if called in lowering.graph.producers:
                return self._kernel_or_rewrite(lowering, called)
        return KERNEL, "it is passed on wrongly"

    def _kernel_or_rewrite(self, lowering: LoweringInput, called: str) -> tuple[str, str]:
        """Return whether the kernel or a rewrite is wrong, by evaluating the rewritten node."""
        graph = ExactGraph(lowering.graph, self.kernels.array)
        difference = deviation(self.kernels.known(called), graph.value(called))
        if not difference.broken and difference.largest <= OWN_TOLERANCE[self._precision]:
            return REWRITE, "the rewritten graph differs from the model"
        return KERNEL, "our kernel differs from the definition of its op"

    def _engine_verdict(self, name: str, fit: ExactFit) -> tuple[str, str] | None:
        """Return None if the engine is exact, else whether its rounding explains the error."""
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
    """Return the largest allowed difference of a value, relative to its range."""
    reach = float(expected.max()) - float(expected.min()) if expected.size else 0.0
    return max(tolerance, STEPS * step / reach if reach else 0.0)
