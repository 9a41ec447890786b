"""Accuracy by layer for a report: values compared with those of the format's CPU runtime."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import isfinite

import numpy as np

from fourfold.runtime.instance import ModelInstance
from fourfold.session import Session
from fourfold.tools.report.layers import Layer
from fourfold.tools.report.rival import find_rival, model_of_signature
from fourfold.tools.report.run_report.record import AccuracySummary, ValueAccuracy
from fourfold.tools.report.values import COUNTED
from fourfold.tools.report.verification import Output, Verification
from fourfold.tools.report.verify import Sample, verify_sample


def verify_run(
    runner: Session, instance: ModelInstance, inputs: Mapping[str, np.ndarray]
) -> Verification:
    """Compare outputs and all intermediate values with the CPU runtime."""
    request = instance.request
    content, options = request.readable.content, request.compile_options
    isolate = request.placement_options.isolate
    engine = find_rival(content, isolate).engine
    runner.reset()
    ours = [np.asarray(one) for one in runner.run(inputs).values()]
    model = model_of_signature(content, options.signature)
    theirs = engine.open_model(model, dict(inputs), None)()
    names = [info.name for info in runner.outputs]
    literal = replace(options, precision=instance.model.precision, follow_batch=False)
    sample = Sample(content, runner.device, literal, list(inputs.values()), ours, names, isolate)
    return verify_sample(sample, theirs, engine.title, layers=True)


def summarise_accuracy(found: Verification) -> AccuracySummary:
    """Return the verdict, and the accuracy of every output."""
    first = found.first
    return AccuracySummary(
        engine=found.engine,
        agrees=found.agrees,
        first=None if first is None else (first.op, first.name, first.verdict),
        layers=len(found.layers),
        agreeing=sum(layer.agrees for layer in found.layers),
        outputs=tuple((layer.name, _accuracy(layer)) for layer in found.outputs),
    )


def accuracy_by_value(found: Verification) -> Mapping[str, ValueAccuracy]:
    """Return accuracies by the names of values in a graph, as integers, steps or real numbers."""
    forms = ("", COUNTED, "/stored")
    return {f"{one.name}{form}": _accuracy(one) for one in found.layers for form in forms}


def _accuracy(layer: Layer | Output) -> ValueAccuracy:
    apart = layer.difference
    largest, mean = (one if isfinite(one) else None for one in (apart.largest, apart.mean))
    return ValueAccuracy(largest, mean, layer.allowed, layer.verdict, layer.agrees)
