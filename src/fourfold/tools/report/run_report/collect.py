"""Collects the data of a report: runs, measures and lowers the model."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np

from fourfold.backends.cpu import CPU
from fourfold.compiler.partition import Costs
from fourfold.device import DeviceInfo
from fourfold.plan import CompiledModel
from fourfold.plan.placement import Placement
from fourfold.runtime.instance import ModelInstance
from fourfold.runtime.random_inputs import random_inputs
from fourfold.session import Session
from fourfold.store.prepared import is_prepared
from fourfold.support.version import VERSION
from fourfold.tools.report.advice import Subject as AdviceSubject
from fourfold.tools.report.advice import advise
from fourfold.tools.report.check import open_inputs
from fourfold.tools.report.run_report import record
from fourfold.tools.report.run_report.accuracy import (
    accuracy_by_value,
    summarise_accuracy,
    verify_run,
)
from fourfold.tools.report.run_report.candidates import Candidates, KnownWays, time_candidates
from fourfold.tools.report.run_report.ceilings import measure_ceilings
from fourfold.tools.report.run_report.graph_nodes import RunGraph, build_graph
from fourfold.tools.report.run_report.lowered_parts import LoweredModel, find_lowered
from fourfold.tools.report.run_report.measured import measure_kernels, measure_runs
from fourfold.tools.report.run_report.plan_graph import graph_of_plan
from fourfold.tools.report.verification import Verification

SEED = 0
# Variants that do fewer multiply-adds than the model defines, or integer dot products.
OTHER_ARITHMETIC = ("winograd", "dots")
API_TITLES = {"opencl": "OpenCL", "cuda": "CUDA", "webgpu": "WebGPU"}


@dataclass(frozen=True)
class ReportOptions:
    """Optional contents of a report: accuracy by layer, times of alternative kernels, limits of the
    device; and the time limit of runs, in seconds.
    """

    verify: bool = False
    candidates: bool = False
    ceilings: bool = True
    seconds: float = 3.0


@dataclass
class _Findings:
    """The graph of a model with its measurements, and notes on missing data."""

    graph: RunGraph
    placement: Placement | None = None
    advice: tuple[record.AdviceItem, ...] = ()
    arenas: tuple[record.RunArena, ...] = ()
    notes: list[str] = field(default_factory=list)


def collect(
    runner: Session,
    instance: ModelInstance,
    inputs: Mapping[str, np.ndarray] | None,
    options: ReportOptions,
) -> record.RunRecord:
    """Return the record of a session's model on these inputs, or on random ones."""
    start = tuple(instance.request.timings.items())
    arrays = random_inputs(runner.inputs, SEED) if inputs is None else inputs
    times = measure_runs(runner, arrays, options.seconds)
    found = _findings(runner, instance, arrays, options)
    verified = _verify(runner, instance, arrays, found) if options.verify else None
    model, placement = instance.model, found.placement
    data = f"random numbers, seed {SEED}" if inputs is None else "given by the caller"
    return record.RunRecord(
        version=record.VERSION,
        subject=_subject(runner, instance, data),
        times=times,
        start=start,
        summary="" if placement is None else placement.summary,
        parts=() if placement is None else tuple(_parts(placement)),
        nodes=tuple(found.graph.nodes),
        edges=tuple(found.graph.edges),
        kernels=tuple(found.graph.kernels),
        texts=found.graph.texts,
        launches=len(model.launches),
        form=found.graph.form,
        ceilings=_ceilings(runner.device, model, options, found),
        memory=_memory(model, found),
        advice=found.advice,
        accuracy=None if verified is None else summarise_accuracy(verified),
        notes=tuple(found.notes),
    )


def _findings(
    runner: Session,
    instance: ModelInstance,
    inputs: Mapping[str, np.ndarray],
    options: ReportOptions,
) -> _Findings:
    kernels = measure_kernels(runner, inputs)
    if is_prepared(instance.request.model):
        note = "A prepared file holds plans without the model's graph: launches are shown in order."
        return _Findings(graph_of_plan(instance.model, kernels), notes=[note])
    placement = instance.placement
    model = find_lowered(instance, placement)
    graph = build_graph(model, kernels)
    found = _Findings(graph, placement, tuple(_advice(model)), tuple(_arenas(model)))
    timed = _time_candidates(model, graph) if options.candidates else {}
    ways = KnownWays.of(instance)
    for number, (key, way) in graph.keys.items():
        tuning = ways.tuning(key, way, timed)
        graph.nodes[number] = replace(graph.nodes[number], tuning=tuning)
    return found


def _time_candidates(model: LoweredModel, graph: RunGraph) -> Candidates:
    weights: dict[str, float] = {}
    for number, (key, _) in graph.keys.items():
        weights[key] = weights.get(key, 0.0) + (graph.nodes[number].seconds or 0.0)
    found = (time_candidates(part.lowering, weights) for part in model.parts)
    return dict(chain.from_iterable(one.items() for one in found))


def _verify(
    runner: Session,
    instance: ModelInstance,
    inputs: Mapping[str, np.ndarray],
    found: _Findings,
) -> Verification | None:
    """Compare all values, and add the accuracy of each node to the graph."""
    if is_prepared(instance.request.model):
        found.notes.append("Accuracy is unknown: a prepared file does not hold the model.")
        return None
    verified = verify_run(runner, instance, inputs)
    accuracies = accuracy_by_value(verified)
    for number, node in enumerate(found.graph.nodes):
        own = [accuracies[value.name] for value in node.writes if value.name in accuracies]
        if own:
            worst = max(own, key=lambda one: (not one.agrees, one.largest or 0.0))
            found.graph.nodes[number] = replace(node, accuracy=worst)
    return verified


def _subject(runner: Session, instance: ModelInstance, data: str) -> record.RunSubject:
    request, device = instance.request, runner.device
    return record.RunSubject(
        model=request.title,
        model_bytes=_size(request.model),
        fourfold=VERSION,
        made=time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        device=device.name,
        device_kind=_kind(device),
        driver=device.driver,
        api="" if device == CPU else device.api,
        precision=instance.model.precision,
        placement=request.placement_options.placement,
        origin=instance.origin,
        inputs=tuple(f"{info.name}: {info.dtype}{list(info.shape)}" for info in runner.inputs),
        outputs=tuple(f"{info.name}: {info.dtype}{list(info.shape)}" for info in runner.outputs),
        data=data,
    )


def _size(model: str | bytes) -> int | None:
    if isinstance(model, bytes):
        return len(model)
    return os.path.getsize(model) if os.path.isfile(model) else None


def _kind(device: DeviceInfo) -> str:
    """Return the kind of a device with its API, such as 'GPU by CUDA'."""
    if device == CPU:
        return "CPU"
    return f"{'CPU' if device.is_cpu else 'GPU'} by {API_TITLES.get(device.api, device.api)}"


def _parts(placement: Placement) -> list[record.RunPart]:
    return [
        record.RunPart(placement.title(part.target), part.operators, part.seconds, part.transfer)
        for part in placement.parts
    ]


def _advice(model: LoweredModel) -> list[record.AdviceItem]:
    """Return advice on the parts on the device, as `check` does."""
    problem = model.problem
    lists = [replace(part.lowering.options, form="list") for part in model.parts]
    pairs = zip(model.parts, lists, strict=True)
    threads = problem.placement_options.thread_count
    subject = AdviceSubject(
        graphs=tuple(part.lowering.graph for part in model.parts),
        plans=tuple(part.lowering._replace(options=listed).plan() for part, listed in pairs),
        placement=model.placement,
        costs=Costs.of(problem.graph, problem.device, threads, problem.model.cpu_engine),
        open_inputs=open_inputs(problem),
    )
    return [record.AdviceItem(a.kind, a.nodes, a.seconds, a.text) for a in advise(subject)]


def _arenas(model: LoweredModel) -> list[record.RunArena]:
    found = ((part.number, part.details) for part in model.parts)
    return [
        record.RunArena(
            number,
            details.arena,
            details.levels,
            tuple(record.RunSpan(*vars(span).values()) for span in details.spans),
        )
        for number, details in found
    ]


def _memory(model: CompiledModel, found: _Findings) -> record.RunMemory:
    arena = model.bytes("arena")
    fits = bool(found.arenas) and sum(one.bytes for one in found.arenas) == arena
    note = "" if fits or not arena else "The positions of values in the arena are unknown."
    return record.RunMemory(
        weights=model.bytes("constants"),
        arena=arena,
        inputs=model.bytes("input"),
        outputs=model.bytes("output"),
        states=model.bytes("variable") + model.bytes("state"),
        arenas=found.arenas if fits else (),
        note=note,
    )


def _ceilings(
    device: DeviceInfo, model: CompiledModel, options: ReportOptions, found: _Findings
) -> record.DeviceCeilings | None:
    if not options.ceilings or device == CPU or not model.launches:
        return None
    ceilings = measure_ceilings(device)
    if ceilings is None:
        found.notes.append("The device's ceilings are unknown: the probe did not run on it.")
    elif device.matrix_units:
        found.notes.append(
            "The ceiling for arithmetic is that of plain multiply-adds; kernels that use matrix"
            " units may be above it."
        )
    elif _fastest(found.graph) > ceilings.flops:
        found.notes.append(
            "A layer was faster than the probe of the device's ceilings: another program used the"
            " device during the probe, and the real ceilings are higher."
        )
    return ceilings


def _fastest(graph: RunGraph) -> float:
    """Return the operations per second of the fastest node that does plain multiply-adds."""
    rates = (
        node.flops / node.seconds
        for node in graph.nodes
        if node.seconds and node.tuning and not node.tuning.way.startswith(OTHER_ARITHMETIC)
    )
    return max(rates, default=0.0)
