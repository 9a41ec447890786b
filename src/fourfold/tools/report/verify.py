"""verify: outputs of a model compared with its CPU runtime, and the layer at fault if they differ.

If all outputs agree, nothing else is compared. If one differs, or spans so few quantization steps
that its agreement means little, every layer is judged by itself (see `layers`). The verdict is
"rounding of the runtime" only if each layer is exact for its inputs, the runtime's differences are
shown to be rounding, and the session gives the same results as its layers. A model in parts has no
such last check, because each part gets the runtime's values as inputs: there the difference between
the runtime's optimized and plain kernels bounds the effect of rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from fourfold.device import DeviceInfo
from fourfold.errors import InputError
from fourfold.options import CompileOptions, SessionOptions
from fourfold.runtime.inputs import Inputs, match_inputs
from fourfold.runtime.opening import Model, find_store, model_reader, path_or_bytes
from fourfold.runtime.random_inputs import random_inputs
from fourfold.session import Session, require_compiled
from fourfold.support.lazy import lazy_import
from fourfold.support.progress import ProgressOption
from fourfold.tools.report.compare import deviation
from fourfold.tools.report.layer_comparison import LayerComparison
from fourfold.tools.report.layers import AGREES, HALF, ROUNDED, TOLERANCE, Layer
from fourfold.tools.report.rival import find_rival, model_of_signature
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

if TYPE_CHECKING:
    from fourfold.processing.pixels.stated import StatedPixels
    from fourfold.tools.accuracy import evaluate as evaluation
    from fourfold.tools.accuracy.accuracy import Accuracy
    from fourfold.tools.accuracy.dataset import PathOption
    from fourfold.tools.accuracy.evaluate import DatasetOptions
else:  # few models are verified on datasets
    evaluation = lazy_import("fourfold.tools.accuracy.evaluate")

# Largest distance of our floats from the exact result, in multiples of the runtime's distance.
MAX_DISTANCE_RATIO = 4.0
# Largest difference of outputs, in multiples of the runtime's own spread or of the loss by fp16.
MAX_SPREADS = 4.0
_UNVERIFIABLE = ("pixels", "postprocess")


@overload
def verify(
    source: Model, inputs: Inputs = None, *, layers: bool = False, seed: int = 0, **options: Any
) -> Verification: ...
@overload
def verify(
    source: Model,
    *,
    dataset: PathOption,
    images: PathOption | None = None,
    labels: Sequence[str] = (),
    float_model: Model | None = None,
    limit: int | None = None,
    score: float | None = None,
    stated: StatedPixels | None = None,
    seed: int = 0,
    progress: ProgressOption | None = True,
    **options: Any,
) -> Accuracy: ...


def verify(
    source: Model,
    inputs: Inputs = None,
    *,
    layers: bool = False,
    seed: int = 0,
    dataset: PathOption | None = None,
    **options: Any,
) -> Verification | Accuracy:
    """Compare a model with its format's CPU runtime (LiteRT, ONNX Runtime): outputs, or accuracy.

    If outputs differ, every layer is compared, and the verdict names the layer at fault. Without an
    installed CPU runtime, the NumPy definitions of operators are used.

    With `dataset=`, the result is the accuracy on labelled pictures instead: top-1 and top-5, or
    mean average precision. Ctrl-C returns the accuracy on the pictures that were measured so far.

    Args:
        source: The model, as `Session` takes it; prepared files have no CPU runtime.
        inputs: Inputs, as `Session.run` takes them; random values by default.
        layers: Compare every layer even if the outputs agree.
        seed: Seed of the random inputs, and of the order of pictures.
        dataset: Folder with one folder of pictures per class, named by its label or its number, or
            a file with COCO annotations.
        images: Folder with the pictures of COCO annotations, if it is not near them.
        labels: Class labels; by default those of the model's metadata.
        float_model: The float model that a quantized model was made from, to compare with.
        limit: Maximum number of pictures, chosen at random.
        score: Minimum score of boxes; by default 0.001.
        stated: Scaling, fit or channel order of pictures that override those of the model.
        progress: True shows a progress bar; a function is called with each step.
        **options: The options of `Session`, by name. `follow_batch` is always False here, because
            the CPU runtimes take reshapes literally.
    """
    if dataset is None:
        with Verifier(source, SessionOptions.of(options)) as verifier:
            return verifier.verify(inputs, layers=layers, seed=seed)
    if inputs is not None or layers:
        what, why = "verify got a dataset and inputs or layers", "it measures accuracy on pictures"
        raise InputError(what, why, "leave inputs= and layers= out, or dataset=")
    names = [name for name in evaluation.OPTION_NAMES if name in options]
    chosen = {name: options.pop(name) for name in names}
    progress = options.pop("progress", True)
    measured = evaluation.DatasetOptions(dataset, seed=seed, **chosen)
    with Verifier(source, SessionOptions.of(options)) as verifier:
        return verifier.measure(measured, progress)


class Verifier:
    """A session and the CPU runtime that it is compared with, for any number of inputs."""

    def __init__(self, source: Model, options: SessionOptions) -> None:
        for name in _UNVERIFIABLE:
            if getattr(options, name) is not None:
                why = "the CPU runtime takes and gives the model's own tensors"
                raise InputError(f"verify does not take {name}=", why, f"leave {name}= out")
        config, content = options.settings(), path_or_bytes(source)
        store = find_store(options.cache, options.serialization_dir, config)
        self._options = replace(options, follow_batch=False)
        self._compile_options = self._options.compile_options(config)
        self._model = model_reader(content, store, config)().content
        self.engine, self.note = find_rival(self._model, options.isolate)
        self.session = require_compiled(Session.open(content, self._options))

    def __enter__(self) -> Verifier:
        return self

    def __exit__(self, *error: object) -> None:
        self.session.close()

    def verify(self, inputs: Inputs = None, *, layers: bool = False, seed: int = 0) -> Verification:
        """Run the model on both sides and compare; see `fourfold.verify`."""
        session = self.session
        if inputs is None:
            inputs = random_inputs(session.inputs, seed)
        arrays, new_shapes = match_inputs(session.inputs, inputs, set(), lambda *_: None)
        named = {info.name: array for info, array in zip(session.inputs, arrays, strict=True)}
        session.reset()
        results = session.run(named)
        shapes = {**self._compile_options.shapes, **new_shapes}
        sample = Sample(
            self._model,
            session.device,
            replace(self._compile_options, precision=session.precision, shapes=shapes),
            arrays,
            list(results.values()),
            [info.name for info in session.outputs],
            self._options.isolate,
        )
        model = model_of_signature(self._model, self._options.signature)
        expected = self.engine.open_model(model, named, self._options.threads)()
        verification = verify_sample(sample, expected, self.engine.title, layers)
        return replace(verification, note=self.note)

    def measure(self, options: DatasetOptions, progress: ProgressOption | None = None) -> Accuracy:
        """Return the accuracy on a dataset, of the device and of the CPU runtime; see
        `fourfold.verify`.
        """
        model = model_of_signature(self._model, self._options.signature)
        reference = evaluation.Reference(self.engine, model, self._options.threads)
        accuracy = evaluation.measure_accuracy(self.session, reference, options, progress)
        note = self.note and f"compared with NumPy: {self.note}"
        return replace(accuracy, notes=(*accuracy.notes, note) if note else accuracy.notes)


def compare_layers(
    source: str | bytes, device: DeviceInfo, options: CompileOptions, inputs: Sequence[np.ndarray]
) -> tuple[Layer, ...]:
    """Return the accuracy of each layer in the order of execution: values of the parts on the
    device, compared with those of the format's CPU runtime, or of NumPy.
    """
    return tuple(LayerComparison.of(source, device, options, inputs).layers())


@dataclass(frozen=True)
class Sample:
    """A model, its compile options, the inputs of a run, and the session's outputs."""

    source: str | bytes
    device: DeviceInfo
    options: CompileOptions
    inputs: Sequence[np.ndarray]
    ours: Sequence[np.ndarray]
    names: Sequence[str]
    isolate: bool = False  # the CPU runtime runs in another process


def verify_sample(
    sample: Sample, theirs: Sequence[np.ndarray], engine: str, layers: bool = False
) -> Verification:
    """Return the verdict on one sample; with `layers`, compare layers even if outputs agree."""
    precision = sample.options.precision
    outputs = compare_outputs(sample.ours, theirs, sample.names, precision)
    result = Verification(engine, precision, str(sample.device), outputs)
    if not layers and all(output.verdict == AGREES for output in outputs):
        return result
    comparison = LayerComparison.of(
        sample.source, sample.device, sample.options, sample.inputs, sample.isolate
    )
    result = replace(result, layers=tuple(comparison.layers()))
    plain = comparison.engine_outputs()
    outputs = tuple(map(_with_spread, outputs, theirs, plain))
    return _Judgement(sample, theirs, comparison, replace(result, outputs=outputs)).verification()


def _with_spread(output: Output, theirs: np.ndarray, plain: np.ndarray | None) -> Output:
    return output if plain is None else replace(output, spread=deviation(theirs, plain))


@dataclass(frozen=True)
class _Judgement:
    """Derives the verdict on outputs from the layers."""

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
        """Return the first verdict that holds for outputs that are not near, and its reason."""
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
        """Return a reason if the session's outputs differ from those of its observed layers."""
        if not self.comparison.is_whole:
            return None
        named = self._named(self.comparison.outputs())
        for number, (name, ours, observed) in enumerate(named):
            near = compare_output(name, ours, observed, self.found.precision).is_near
            if not near and not self._loses_as_much(number, observed):
                return f"output '{name}' differs from the result of its layers run one by one"
        return None

    def _loses_as_much(self, number: int, observed: np.ndarray) -> bool:
        """Return whether fp16 storage alone takes observed layers, each of which is stored, as far
        from fp32 results as the session's output is.
        """
        if self.found.precision == "fp32":
            return False
        full = self.comparison.outputs(full=True)[number]
        own, by_layer = deviation(self.sample.ours[number], full), deviation(observed, full)
        return not own.broken and own.largest <= MAX_SPREADS * by_layer.largest

    def _lost_precision(self) -> str | None:
        """Return a reason if outputs are far from those in fp32."""
        if self.found.precision == "fp32" or not self.comparison.is_whole:
            return None
        for name, ours, full in self._named(self.comparison.outputs(full=True)):
            if not compare_output(name, ours, full, self.found.precision).is_near:
                worst = self.found.largest_losses[0]
                return f"most is lost in {worst.title}; precision='fp32' agrees"
        return None

    def _beyond_spread(self) -> str | None:
        """Return a reason if outputs of a model in parts differ by more than rounding explains."""
        if self.comparison.is_whole:
            return None
        for output in self.found.outputs:
            spread = 0.0 if output.spread is None else output.spread.largest
            far = output.difference.broken or output.difference.largest > MAX_SPREADS * spread
            if far and not output.is_near:
                off, engine = output.difference.largest, self.found.engine
                own = f"{engine}'s optimized and plain kernels are {spread:.1e} apart"
                return f"every layer agrees, but '{output.name}' is {off:.1e} off, while {own}"
        return None

    def _spread_words(self) -> str:
        """Return the runtime's own spread in words, to compare the difference with."""
        spreads = [one for one in self.found.outputs if one.spread is not None and not one.is_near]
        if not spreads:
            return ""
        widest = max(spreads, key=lambda one: one.spread.largest if one.spread else 0.0)
        assert widest.spread is not None
        own = f"{widest.spread.largest:.1e} of the range"
        if widest.step:
            own = f"{widest.spread.absolute / widest.step:.4g} steps"
        return f"; {self.found.engine}'s optimized and plain kernels are up to {own} apart"

    def _grown(self) -> tuple[str, str]:
        """Return the verdict where float rounding errors grow from layer to layer, from the
        distance of both sides to the exact result.

        A quantized value jumps a whole step if floats differ in the last digit, on either side, so
        its distance from the exact result is chance; then only layers are conclusive.
        """
        engine = self.found.engine
        if not self.comparison.is_whole:
            return GROWN, "every layer agrees; last digits grow from layer to layer"
        if any(layer.step for layer in self.found.layers):
            return GROWN, "every layer agrees; last digits decide which step a value is rounded to"
        exact = self.comparison.exact_outputs()
        words = ""
        for (name, ours, right), theirs in zip(self._named(exact), self.theirs, strict=True):
            difference, other = deviation(ours, right), deviation(theirs, right).largest
            mine = difference.largest
            words = f"'{name}' is {mine:.1e} from the exact result, that of {engine} {other:.1e}"
            allowed = max(TOLERANCE[self.found.precision], MAX_DISTANCE_RATIO * other)
            if difference.broken or not mine <= allowed:
                return DIFFERS, f"every layer agrees, but together {words}"
        return GROWN, f"every layer agrees; {words}"

    def _named(self, others: Sequence[np.ndarray]) -> list[tuple[str, np.ndarray, np.ndarray]]:
        return list(zip(self.sample.names, self.sample.ours, others, strict=True))


def _rounding_words(found: Verification) -> str:
    rounded = [layer for layer in found.layers if is_rounded(layer)]
    first, engine = rounded[0], found.engine
    ours = f"all {len(found.layers)} layers of fourfold are exact for their inputs"
    theirs = f"{engine} rounds in {len(rounded)}, first in {first.title}"
    return f"{ours}; {theirs}: {first.reason}"
