"""Our outputs beside a CPU engine's: whether they are right, and if not, which layer and why.

Outputs that agree need no more. Where one does not, or is of so few steps that agreement says
little, every layer is judged by itself (see `layers`). The verdict is the engine's rounding only
where each layer of ours is exact for what it was given, the engine's differences are shown to be
roundings, and the session gives what its layers give: then nothing else is left that could differ.
A model in parts has no such last step, since each part is judged from the engine's values: there
the spread between the engine's own two sets of kernels says how far roundings take an output.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fourfold.device import DeviceInfo
from fourfold.options import CompileOptions
from fourfold.tools.report.compare import deviation
from fourfold.tools.report.layer_comparison import LayerComparison
from fourfold.tools.report.layers import AGREES, HALF, ROUNDED, TOLERANCE, Layer
from fourfold.tools.report.verification import (
    DIFFERS,
    GROWN,
    PLAN,
    Output,
    Verification,
    compare_output,
    compare_outputs,
    is_rounded,
)

FURTHER = 4.0  # times as far from the exact result as the engine our floats may be
# Times the engine's own spread, or what halves cost elsewhere, that outputs may be off.
SPREADS = 4.0


def compare_layers(
    source: str | bytes, device: DeviceInfo, options: CompileOptions, inputs: Sequence[np.ndarray]
) -> tuple[Layer, ...]:
    """Accuracy by layer, in the order in which layers run: every value of the parts on the device
    beside those of the format's CPU engine, or of NumPy.
    """
    return tuple(LayerComparison.of(source, device, options, inputs).layers())


@dataclass(frozen=True)
class Sample:
    """A model, what it is compiled with, what it was fed, and what the session gave."""

    source: str | bytes
    device: DeviceInfo
    options: CompileOptions
    inputs: Sequence[np.ndarray]
    ours: Sequence[np.ndarray]
    names: Sequence[str]


def verify_sample(
    sample: Sample, theirs: Sequence[np.ndarray], engine: str, layers: bool = False
) -> Verification:
    """The verdict on one sample; `layers` asks for accuracy by layer even where outputs agree."""
    precision = sample.options.precision
    outputs = compare_outputs(sample.ours, theirs, sample.names, precision)
    found = Verification(engine, precision, str(sample.device), outputs)
    if not layers and all(output.verdict == AGREES for output in outputs):
        return found
    args = (sample.source, sample.device, sample.options, sample.inputs)
    comparison = LayerComparison.of(*args)
    found = replace(found, layers=tuple(comparison.layers()))
    plain = comparison.engine_outputs()
    outputs = tuple(map(_with_spread, outputs, theirs, plain))
    return _Judgement(sample, theirs, comparison, replace(found, outputs=outputs)).verification()


def _with_spread(output: Output, theirs: np.ndarray, plain: np.ndarray | None) -> Output:
    return output if plain is None else replace(output, spread=deviation(theirs, plain))


@dataclass(frozen=True)
class _Judgement:
    """What layers tell of outputs."""

    sample: Sample
    theirs: Sequence[np.ndarray]
    comparison: LayerComparison
    found: Verification

    def verification(self) -> Verification:
        verdict, reason = self._verdict()
        outputs = tuple(
            replace(output, verdict=verdict) if output.verdict == DIFFERS else output
            for output in self.found.outputs
        )
        return replace(self.found, outputs=outputs, reason=reason)

    def _verdict(self) -> tuple[str, str]:
        """For the outputs that are not near: the first that holds."""
        first, engine = self.found.first, self.found.engine
        if first is not None and first.is_fault:
            return DIFFERS, f"{first.title}: {first.verdict}: {first.reason}"
        if all(output.is_near for output in self.found.outputs):
            return AGREES, ""
        lost = self._broken_plan()
        if lost is not None:
            return PLAN, lost
        lost = self._lost_precision()
        if lost is not None:
            return HALF, lost
        lost = self._beyond_spread()
        if lost is not None:
            return (DIFFERS if self.found.precision == "fp32" else HALF), lost
        if any(is_rounded(layer) for layer in self.found.layers):
            verdict, reason = f"{ROUNDED} {engine}", _rounding_words(self.found)
        else:
            verdict, reason = self._grown()
        return verdict, reason if verdict == DIFFERS else f"{reason}{self._spread_words()}"

    def _broken_plan(self) -> str | None:
        """Whether the session gives something else than its layers when each is looked at."""
        if not self.comparison.is_whole:
            return None
        every = self._named(self.comparison.outputs())
        for number, (name, ours, seen) in enumerate(every):
            near = compare_output(name, ours, seen, self.found.precision).is_near
            if not near and not self._loses_as_much(number, seen):
                return f"output '{name}' is not what its layers give when each is looked at"
        return None

    def _loses_as_much(self, number: int, seen: np.ndarray) -> bool:
        """Whether halves alone take layers that are looked at, each of which is stored, as far from
        full precision as the session's output is.
        """
        if self.found.precision == "fp32":
            return False
        full = self.comparison.outputs(full=True)[number]
        own, looked_at = deviation(self.sample.ours[number], full), deviation(seen, full)
        return not own.broken and own.largest <= SPREADS * looked_at.largest

    def _lost_precision(self) -> str | None:
        """Whether outputs are far from those in full precision."""
        if self.found.precision == "fp32" or not self.comparison.is_whole:
            return None
        for name, ours, full in self._named(self.comparison.outputs(full=True)):
            if not compare_output(name, ours, full, self.found.precision).is_near:
                worst = self.found.largest_losses[0]
                return f"most is lost in {worst.title}; precision='fp32' agrees"
        return None

    def _beyond_spread(self) -> str | None:
        """Whether outputs of a model in parts are further off than roundings take them."""
        if self.comparison.is_whole:
            return None
        for output in self.found.outputs:
            spread = 0.0 if output.spread is None else output.spread.largest
            far = output.difference.broken or output.difference.largest > SPREADS * spread
            if far and not output.is_near:
                off, engine = output.difference.largest, self.found.engine
                own = f"{engine}'s own two sets of kernels are {spread:.1e} apart"
                return f"every layer agrees, but '{output.name}' is {off:.1e} off, where {own}"
        return None

    def _spread_words(self) -> str:
        """How far the engine is from itself, for who wonders whether that is much."""
        spreads = [one for one in self.found.outputs if one.spread is not None and not one.is_near]
        if not spreads:
            return ""
        widest = max(spreads, key=lambda one: one.spread.largest if one.spread else 0.0)
        assert widest.spread is not None
        own = f"{widest.spread.largest:.1e} of the range"
        if widest.step:
            own = f"{widest.spread.absolute / widest.step:.4g} steps"
        return f"; {self.found.engine}'s own two sets of kernels are up to {own} apart"

    def _grown(self) -> tuple[str, str]:
        """Roundings of floats that grow from layer to layer: who is nearer to the exact result.

        Values on a grid jump a whole step where floats differ in the last digit, on either side:
        how far from the exact result they end is chance, and the layers are all that tells.
        """
        engine = self.found.engine
        if not self.comparison.is_whole:
            return GROWN, "every layer agrees; last digits grow from layer to layer"
        if any(layer.step for layer in self.found.layers):
            return GROWN, "every layer agrees; last digits decide which step a value is rounded to"
        exact = self.comparison.exact_outputs()
        words = ""
        for (name, ours, right), theirs in zip(self._named(exact), self.theirs, strict=True):
            found, other = deviation(ours, right), deviation(theirs, right).largest
            mine = found.largest
            words = f"'{name}' is {mine:.1e} from the exact result, that of {engine} {other:.1e}"
            allowed = max(TOLERANCE[self.found.precision], FURTHER * other)
            if found.broken or not mine <= allowed:
                return DIFFERS, f"every layer agrees, but together {words}"
        return GROWN, f"every layer agrees; {words}"

    def _named(self, others: Sequence[np.ndarray]) -> list[tuple[str, np.ndarray, np.ndarray]]:
        return list(zip(self.sample.names, self.sample.ours, others, strict=True))


def _rounding_words(found: Verification) -> str:
    rounded = [layer for layer in found.layers if is_rounded(layer)]
    first, engine = rounded[0], found.engine
    ours = f"our {len(found.layers)} layers are exact for what they are given"
    theirs = f"{engine} rounds in {len(rounded)}, first in {first.title}"
    return f"{ours}; {theirs}: {first.reason}"
