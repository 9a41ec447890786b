"""Quantizer: calibrates one model, chooses its layers, writes it and measures the loss."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from fourfold.device import DeviceInfo
from fourfold.errors import InputError
from fourfold.export.quantize.assign import Assigner, Observations
from fourfold.export.quantize.calibrate import Calibration, values_to_observe
from fourfold.export.quantize.layers import LayerNodes, find_layers, named_layers
from fourfold.export.quantize.measure import Loss, LossMeter, Score
from fourfold.export.quantize.method import Method
from fourfold.export.quantize.progress import ProgressCounter
from fourfold.export.quantize.ranges import make_estimator
from fourfold.export.quantize.report import FLOAT, LayerStorage, QuantizeReport
from fourfold.export.quantize.running import GraphRunner
from fourfold.export.quantize.samples import Samples
from fourfold.export.quantize.sensitivity import (
    MAX_TRIAL_SAMPLES,
    LossTrials,
    Sensitivity,
    find_sensitive,
)
from fourfold.export.quantize.simplify import float_bytes
from fourfold.export.quantize.writable import to_writable
from fourfold.formats import Format, Model
from fourfold.session import Session
from fourfold.types import DType, dequantize, to_integers

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

    def __post_init__(self) -> None:
        make_estimator(self.ranges)  # reject an unknown name before anything runs
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
        """Return the file, how its layers are stored, and the loss."""
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
        return QuantizeReport(
            content=content,
            method=method,
            ranges=self.options.ranges,
            samples=0 if self.samples is None else len(self.samples),
            layers=layers,
            loss=loss,
            bytes_before=float_bytes(self.model.main),
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
