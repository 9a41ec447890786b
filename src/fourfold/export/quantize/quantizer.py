"""Quantizer: calibrates one model, chooses its layers, writes it and measures the loss.

Calibration runs the float graph on samples. Only statistics are stored, and only a few values are
downloaded at a time, so that neither many samples nor large models need much memory.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from fourfold.compiler.rewrite import WRITABLE
from fourfold.device import DeviceInfo
from fourfold.errors import InputError
from fourfold.export.quantize.assign import Assigner, Observations
from fourfold.export.quantize.layers import LayerNodes, find_layers, integer_nodes, named_layers
from fourfold.export.quantize.measure import MAX_CHANGED, Loss, LossMeter, Score
from fourfold.export.quantize.method import Method
from fourfold.export.quantize.ranges import RangeEstimator, make_estimator
from fourfold.export.quantize.report import FLOAT, LayerStorage, QuantizeReport
from fourfold.export.quantize.rules import CHANNEL_AXIS
from fourfold.export.quantize.running import GraphRunner, ProgressCounter, with_outputs
from fourfold.export.quantize.samples import Samples
from fourfold.export.quantize.sensitivity import (
    MAX_TRIAL_SAMPLES,
    LossTrials,
    Sensitivity,
    find_sensitive,
)
from fourfold.export.quantize.sharing import share_grids
from fourfold.export.quantize.storage import to_writable
from fourfold.formats import Format, Model
from fourfold.graph import Graph
from fourfold.session import Session
from fourfold.support.log import Log
from fourfold.types import DType, dequantize, silent_arithmetic, to_integers

log = Log("export.quantize")
_SENSITIVE = "it loses too much"


@dataclass(frozen=True)
class QuantizeOptions:
    """Options of quantization; see `quantize`."""

    method: Method
    ranges: str = "minmax"
    per_channel: bool = True
    bias_correction: bool = True
    max_loss: float | None = None
    keep: Collection[str] = ()
    score: Score | None = None
    max_changed: float = MAX_CHANGED
    strict: bool = False

    def __post_init__(self) -> None:
        make_estimator(self.ranges)  # reject an unknown name before anything runs
        if not 0 <= self.max_changed <= 1:
            what, why = f"max_changed is {self.max_changed}", "it is a share of the answers"
            raise InputError(what, why, "pass a number from 0 to 1, such as 0.05 for 5 %")
        if self.max_loss is not None and not self.max_loss >= 0:
            what, why = f"max_loss is {self.max_loss}", "it must be 0 or more"
            raise InputError(what, why, "pass 0.05 for an error of 5 %, or leave it out")


@dataclass
class Quantizer:
    """Calibrates one model, chooses its layers, writes it and measures the loss."""

    model: Model
    options: QuantizeOptions
    form: Format
    samples: Samples | None
    judge: Samples | None
    device: DeviceInfo | None
    steps: ProgressCounter = field(default_factory=lambda: ProgressCounter(None))

    def __post_init__(self) -> None:
        if self.model.main.states and (self.samples or self.judge) is not None:
            what = "a model with state cannot be calibrated with samples"
            why = f"the value of '{next(iter(self.model.main.states))}' depends on previous runs"
            fix = "choose 'dynamic', 'weights-int4' or 'fp16', and pass no samples"
            raise InputError(what, why, fix)

    @cached_property
    def layers(self) -> tuple[LayerNodes, ...]:
        return find_layers(self.model.main, self.options.method)

    @cached_property
    def assigner(self) -> Assigner:
        method, graph = self.options.method, self.model.main
        return Assigner(graph, method, self.layers, self._observe(), self.options.per_channel)

    def _observe(self) -> Observations:
        if self.samples is None:
            return Observations()
        options, graph = self.options, self.model.main
        observed = values_to_observe(graph, self.layers, options.method, options.bias_correction)
        make = make_estimator(options.ranges)
        return Calibration(graph, self.device, make, observed).run(self.samples, self.steps)

    def run(self) -> QuantizeReport:
        """Return the file, how its layers are stored, and the loss.

        Raises InputError for `strict` options if the answers changed too much; otherwise the
        report has a `problem`, which is logged.
        """
        report = self._quantize()
        if report.problem and self.options.strict:
            fix = "calibrate with more samples, set max_loss to keep layers float, or max_changed"
            raise InputError("the quantized model answers differently", report.problem, fix)
        if report.problem:
            log.warning("the quantized model answers differently: %s", report.problem)
        return report

    def _quantize(self) -> QuantizeReport:
        named = named_layers(self.layers, self.options.keep)
        reasons = dict.fromkeys(named, "the caller keeps it float")
        content, loss = self._try(named)
        if not self._exceeds_limit(loss):
            return self._report(content, loss, reasons)
        sensitive = self._find_sensitive(named)
        count = sensitive.count
        while True:
            worst = sensitive.order[:count]
            content, loss = self._try(named.union(worst))
            if not self._exceeds_limit(loss) or count == len(sensitive.order):
                return self._report(content, loss, reasons | dict.fromkeys(worst, _SENSITIVE))
            count = min(count + max(count // 4, 1), len(sensitive.order))

    def _try(self, kept: frozenset[str]) -> tuple[bytes, Loss | None]:
        content = self._write(kept)
        return content, self._measure(content)

    def _exceeds_limit(self, loss: Loss | None) -> bool:
        most = self.options.max_loss
        return most is not None and loss is not None and loss.value > most

    def _find_sensitive(self, named: frozenset[str]) -> Sensitivity:
        most, judge = self.options.max_loss, self.judge
        assert most is not None
        assert judge is not None
        trials = LossTrials(
            self.assigner, self.device, judge.first(MAX_TRIAL_SAMPLES), self.options.score
        )
        return find_sensitive(trials, named, most, self.steps)

    def _write(self, kept: frozenset[str]) -> bytes:
        storage = self.assigner.assign(kept)
        return self.form.write(to_writable(storage, self.model, self.options.method.integer_ports))

    def _measure(self, content: bytes) -> Loss | None:
        """Run the written file like any other model and measure its loss."""
        if self.judge is None:
            return None
        self.steps.expect(len(self.judge))
        meter = LossMeter(self.options.score)
        device = "cpu" if self.device is None else self.device
        names = dict(zip(self.model.main.results, self.model.output_names, strict=True))
        inputs = dict(zip(self.model.main.arguments, self.model.input_names, strict=True))
        with (
            closing(GraphRunner(self.model.main, self.device)) as runner,
            Session(content, device, "fp32", cache=None) as session,
        ):
            for number, arrays in enumerate(self.judge):
                before = {names[name]: array for name, array in runner.run(arrays).items()}
                feeds = {inputs[name]: array for name, array in arrays.items()}
                meter.add(number, before, _run_quantized(session, feeds))
                self.steps.done("comparing")
        return meter.loss()

    def _report(self, content: bytes, loss: Loss | None, kept: Mapping[str, str]) -> QuantizeReport:
        method = self.options.method.name
        layers = tuple(
            LayerStorage(one.name, one.op, FLOAT if one.name in kept else method, reason)
            for one, reason in ((one, kept.get(one.name, "")) for one in self.layers)
        )
        samples = self.judge or self.samples
        problem = ""
        if loss is not None and self.judge is not None:
            problem = loss.problem(len(self.judge), self.options.max_changed)
        return QuantizeReport(
            content=content,
            method=method,
            ranges=self.options.ranges,
            samples=0 if self.samples is None else len(self.samples),
            layers=layers,
            loss=loss,
            bytes_before=float_bytes(self.model.main),
            problem=problem,
            picture=None if samples is None else samples.picture,
        )


def _run_quantized(session: Session, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Run a session on real numbers and return real numbers, even if its ports are integers."""
    feeds = dict(arrays)
    for info in session.inputs:
        if info.quantization is not None:
            dtype = DType.of(np.empty(0, info.dtype))
            feeds[info.name] = to_integers(arrays[info.name], info.quantization, dtype)
    grids = {info.name: info.quantization for info in session.outputs}
    results = session.run(feeds)
    return {
        name: array if grids[name] is None else dequantize(array, grids[name])
        for name, array in results.items()
    }


MAX_DOWNLOAD_BYTES = 256 << 20  # of the values that one run returns, unless one value is larger


@dataclass
class _Statistics:
    """Statistics of one value."""

    estimator: RangeEstimator | None
    sums: np.ndarray | None
    pixels: int = 0

    def add(self, array: np.ndarray) -> None:
        if not np.isfinite(array).all():
            array = np.nan_to_num(array, nan=0.0, posinf=0.0, neginf=0.0)
        if self.estimator is not None:
            self.estimator.add(array)
        if self.sums is not None:
            by_channel = array.reshape(-1, array.shape[-1])
            self.sums += by_channel.sum(0, dtype=np.float64)
            self.pixels += len(by_channel)


@dataclass(frozen=True)
class Observed:
    """Values whose ranges are observed, and values whose channel means are."""

    ranges: Collection[str] = ()
    means: Collection[str] = ()

    @property
    def values(self) -> list[str]:
        return sorted({*self.ranges, *self.means})


def values_to_observe(
    graph: Graph, layers: Sequence[LayerNodes], method: Method, correct_bias: bool
) -> Observed:
    """Return the values that a method must observe, whichever layers stay float in the end."""
    changed = {name for layer in layers for name in layer.nodes}
    sums = [n for n in graph.nodes if n.op in CHANNEL_AXIS and n.outputs[0] in changed]
    means = {str(node.inputs[0]) for node in sums} if correct_bias else set()
    if method.values is None:
        return Observed(means=means)
    nodes = integer_nodes(graph, layers, (), method)
    return Observed(share_grids(graph, nodes, method.values).observed, means)


@dataclass
class Calibration:
    """Runs all samples once for each group of values."""

    graph: Graph
    device: DeviceInfo | None
    make: Callable[[], RangeEstimator]
    wanted: Observed
    statistics: dict[str, _Statistics] = field(default_factory=dict)

    def run(self, samples: Samples, steps: ProgressCounter) -> Observations:
        for name in self.wanted.values:
            channels = self.graph.types[name].channels
            estimator = self.make() if name in self.wanted.ranges else None
            sums = np.zeros(channels) if name in self.wanted.means else None
            self.statistics[name] = _Statistics(estimator, sums)
        groups = list(_groups(self.graph, self.wanted.values))
        steps.expect(len(groups) * len(samples))
        for group in groups:
            self._look(group, samples, steps)
        return self._observations()

    def _look(self, group: Sequence[str], samples: Samples, steps: ProgressCounter) -> None:
        with closing(GraphRunner(with_outputs(self.graph, group), self.device)) as runner:
            for arrays in samples:
                values = {**arrays, **runner.run(arrays)}
                for name in group:
                    self.statistics[name].add(np.asarray(values[name]))
                steps.done("calibrating")

    def _observations(self) -> Observations:
        entries = self.statistics.items()
        ranges = {name: one.estimator.range() for name, one in entries if one.estimator is not None}
        means = {
            name: one.sums / max(one.pixels, 1) for name, one in entries if one.sums is not None
        }
        return Observations(ranges, means)


def _groups(graph: Graph, values: Sequence[str]) -> Iterator[list[str]]:
    """Split the values into groups that can be downloaded together."""
    group: list[str] = []
    size = 0
    for name in values:
        bytes_ = graph.types[name].bytes
        if group and size + bytes_ > MAX_DOWNLOAD_BYTES:
            yield group
            group, size = [], 0
        group.append(name)
        size += bytes_
    if group:
        yield group


_INTEGERS = frozenset({"dequantize", "fake_quantize", "quantize"})


@silent_arithmetic()
def simplify_model(model: Model) -> Model:
    """Return the model with a simplified main graph. Raises InputError if it is quantized
    already.
    """
    done = next((node for node in model.main.nodes if node.op in _INTEGERS), None)
    if done is not None:
        why = f"its value '{done.outputs[0]}' is quantized"
        raise InputError("the model is quantized already", why, "pass the float model")
    graph = model.main
    for run in WRITABLE:
        graph = run(graph)
    return replace(model, main=graph)


def float_bytes(graph: Graph) -> int:
    """Return the size of the graph's constants as floats, in bytes."""
    return sum(np.asarray(array).nbytes for array in graph.constants.values())
