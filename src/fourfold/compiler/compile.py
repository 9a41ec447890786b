"""From a model file to a CompiledModel. A start from the cache or a prepared file skips all of it.

load: reads the file in the requested shapes, cut to the requested outputs (outputs).
placement: decides which parts run where, and lowers the device's parts.
pipeline: rewrites a graph, probes the device for its facts, and makes a plan.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from fourfold.backends.cpu.numpy.graph_file import write_graph
from fourfold.backends.cpu.registry import placement_environment
from fourfold.compiler.load import LoadedModel, load_model
from fourfold.compiler.outputs import estimate_saving
from fourfold.compiler.partition import Partition
from fourfold.compiler.pipeline import (
    LoweringInput,
    plan_graph,
    prepare_lowering,
)
from fourfold.compiler.placement import Decision, PlacementProblem, decide, read_problem
from fourfold.compiler.rewrite import rewrite
from fourfold.device import DeviceInfo
from fourfold.errors import DeviceError, InputError, nearest
from fourfold.ops.custom import Custom
from fourfold.options import CompileOptions, PlacementOptions
from fourfold.plan import CompiledModel, Part, Plan, Port
from fourfold.plan.targets import GPU, NUMPY
from fourfold.plan.tensor_binding import TensorBinding
from fourfold.support.log import Log
from fourfold.support.timings import Timings

__all__ = [
    "STAGES",
    "LoadedModel",
    "LoweringInput",
    "compile_model",
    "estimate_saving",
    "load_model",
    "plan_graph",
    "prepare_lowering",
    "stage_text",
]
log = Log("compiler")
STAGES = ("graph", "rewritten", "plan", "kernels")


@contextmanager
def _no_collection() -> Iterator[None]:
    """Suspend the garbage collector, which takes a fifth of the time while a plan is made."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def compile_model(
    source: str | bytes,
    device: DeviceInfo,
    options: CompileOptions,
    placement: PlacementOptions | None = None,
    choices: Mapping[str, str] | None = None,
    *,
    timings: Timings | None = None,
    title: str = "",
    origin: str = "",
) -> CompiledModel:
    """Read a model, place its operators and lower those on the device.

    Args:
        source: Path or bytes of a model in a format that is read.
        device: The device to compile for.
        options: What to compile: precision, shapes, inputs and outputs.
        placement: Where operators may run.
        choices: Tuned kernel choices by key.
        timings: Receives the seconds of each stage.
        title: Name of the model in messages.
        origin: The framework and converter that the model comes from.
    """
    timings = Timings() if timings is None else timings
    placement = PlacementOptions() if placement is None else placement
    title = title or ("the model" if isinstance(source, bytes) else os.path.basename(source))
    limit, models = options.memory_limit, list[CompiledModel]()
    decision: Decision | None = None
    with _no_collection():
        with timings.stage("read"):
            problem = read_problem(source, device, options, placement, title=title, origin=origin)
        log.debug("read %d nodes", len(problem.graph.nodes))
        for sacrificed, smaller in smaller_options(options):
            recorded = RecordedChoices({} if choices is None else choices)
            problem = replace(problem, compile_options=smaller)
            decision = decide(problem, recorded, timings, decision)
            problem = decision.problem
            models.append(_assemble(decision, recorded))
            if limit is None or models[-1].device_bytes <= limit:
                if sacrificed:
                    log.warn_once(f"{title} fits into memory_limit={limit} with {sacrificed}")
                return models[-1]
    raise _too_large(title, min(models, key=lambda model: model.device_bytes), options)


def _assemble(decision: Decision, recorded: RecordedChoices) -> CompiledModel:
    problem = decision.problem
    loaded, options, graph = problem.loaded, problem.compile_options, problem.graph
    partitions = decision.assignment.partitions
    plans = {number: part.plan for number, part in decision.lowered.items()}
    parts = tuple(
        _part(problem, partition, plans.get(number)) for number, partition in enumerate(partitions)
    )
    read = dict.fromkeys(name for part in parts for name in part.inputs)
    is_whole = len(parts) == 1 and parts[0].plan is not None
    threads = problem.placement_options.thread_count
    model = CompiledModel(
        name=graph.name,
        precision=next((plan.precision for plan in plans.values()), options.precision),
        parts=parts,
        inputs=plans[0].inputs
        if is_whole
        else _with_limits(_ports(problem, graph.arguments), parts),
        outputs=plans[0].outputs if is_whole else _ports(problem, graph.results),
        input_names=loaded.model.input_names,
        output_names=loaded.model.output_names,
        crossing={name: problem.type(name) for name in read if name in graph.types},
        states=tuple(n for n, one in enumerate(partitions) if _keeps_state(problem, one)),
        choices=recorded.answers,
        open_sizes=loaded.open_sizes,
        pixels=loaded.pixels,
        signature=options.signature or "",
        postprocess=loaded.postprocess,
        environment={} if is_whole else placement_environment(threads),
        cacheable=not any(isinstance(node.attributes, Custom) for node in graph.nodes),
        placement=decision.placement.to_bytes(),
        about=loaded.about,
    )
    _log_model(model, recorded)
    return model


def _keeps_state(problem: PlacementProblem, partition: Partition) -> bool:
    """Return whether the results of a part may depend on earlier runs."""
    source = problem.model.source_graph
    shared = () if source is None else source.states
    if any(name in shared for name in partition.names):
        return True
    states = problem.graph.states
    return any(name in states for unit in partition.units for name in unit.reads)


def _part(problem: PlacementProblem, partition: Partition, plan: Plan | None) -> Part:
    target, inputs, outputs = partition.target, partition.inputs, partition.outputs
    if target == GPU:
        return Part(target, inputs, outputs, plan=plan)
    if target == NUMPY:
        graph = problem.part_graph(partition)
        content = write_graph(graph)
        own = None if content else graph
        # The graph of a whole model also has the inputs that no operator reads.
        return Part(target, graph.arguments, graph.results, content=content or b"", graph=own)
    return _file_part(problem, partition)


def _file_part(problem: PlacementProblem, partition: Partition) -> Part:
    """Return a part for the CPU engine of the model's format, with a model file of its own."""
    source, types = problem.model.source_graph, problem.graph.types
    assert source is not None

    def binding(value: str) -> TensorBinding:
        tensor = source.tensor(value)
        assert tensor is not None, f"'{value}' is not a tensor of the file"
        pixels = problem.loaded.pictures.get(value)
        return TensorBinding(value, tensor, types.get(value), source.grid(value), pixels)

    inputs, outputs = partition.inputs, partition.outputs
    bindings = (tuple(map(binding, inputs)), tuple(map(binding, outputs)))
    content = source.write(partition.names, inputs, outputs)
    return Part(partition.target, inputs, outputs, content=content, bindings=bindings)


def _ports(problem: PlacementProblem, names: Iterable[str]) -> tuple[Port, ...]:
    pictures = problem.loaded.pictures  # bytes of pictures are not quantized values
    grids = {k: grid for k, grid in problem.graph.quantization.items() if k not in pictures}
    return tuple(Port(name, problem.type(name), 0, grids.get(name)) for name in names)


def _with_limits(ports: tuple[Port, ...], parts: Iterable[Part]) -> tuple[Port, ...]:
    """Return input ports with the limits that the plans of all parts have for them."""
    limits: dict[str, tuple[int, int]] = {}
    for port in (port for part in parts if part.plan is not None for port in part.plan.inputs):
        if port.limits is not None:
            low, high = limits.get(port.name, port.limits)
            limits[port.name] = max(low, port.limits[0]), min(high, port.limits[1])
    return tuple(port._replace(limits=limits.get(port.name)) for port in ports)


def _log_model(model: CompiledModel, recorded: RecordedChoices) -> None:
    tuned = {key: choice for key, choice in recorded.answers.items() if choice is not None}
    for key, choice in tuned.items():
        log.debug("tuned before: %s for %s", choice, key)
    log.debug(
        "compiled: parts %d, launches %d, stages %d, device bytes %d; %d of %d choices tuned",
        len(model.parts),
        len(model.launches),
        model.stages,
        model.device_bytes,
        len(tuned),
        len(recorded.answers),
    )


def stage_text(
    source: str | bytes,
    stage: str,
    device: DeviceInfo,
    options: CompileOptions,
    full_names: bool = False,
) -> str:
    """Return the model at one compiler stage: 'graph', 'rewritten', 'plan' or 'kernels'.

    Graphs have numbers for values, or with `full_names` the names of the file.
    """
    if stage not in STAGES:
        what, why = f"there is no stage {stage!r}", f"stages are {', '.join(STAGES)}"
        raise InputError(what, why, nearest(stage, STAGES))
    if stage in ("graph", "rewritten"):
        graph = load_model(source, options).graph
        graph = graph if stage == "graph" else rewrite(graph)
        return str(graph) if full_names else graph.short_text()
    model = compile_model(source, device, options)
    return str(model) if stage == "plan" else "\n".join(p.program.text for p in model.plans)


def smaller_options(options: CompileOptions) -> Iterator[tuple[str, CompileOptions]]:
    """Yield the options, then variants that need less and less memory, each with a description of
    its drawbacks.
    """
    limit, sacrificed = options.memory_limit, []
    yield "", options
    if options.launches == "auto":
        options = replace(options, launches="list")
        sacrificed.append("one launch for each kernel")
        yield ", ".join(sacrificed), options
    options = replace(options, saves_memory=True)
    sacrificed.append("no kernels that trade memory for speed")
    yield ", ".join(sacrificed), options
    if limit is not None and options.any_precision and options.precision == "fp32":
        sacrificed.append("fp16 storage")
        yield ", ".join(sacrificed), replace(options, precision="mixed")


def _too_large(title: str, smallest: CompiledModel, options: CompileOptions) -> DeviceError:
    limit, needed = options.memory_limit, smallest.device_bytes
    assert limit is not None
    weights, arena = smallest.bytes("constants"), smallest.bytes("arena")
    ports = smallest.bytes("input") + smallest.bytes("output")
    tried = options.any_precision or options.precision != "fp32"
    precision = "" if tried else " precision='mixed',"
    return DeviceError(
        f"{title} does not fit into memory_limit={limit}",
        f"the smallest plan needs {needed} bytes on the device: {weights} of weights, {arena} of"
        f" values between kernels, {ports} of inputs and outputs",
        f"pass memory_limit={needed} or more,{precision} smaller shapes=, or placement='cpu'",
    )


class RecordedChoices(Mapping[str, str]):
    """Tuned choices that record each lookup: a plan depends only on the choices that it
    looked up.
    """

    def __init__(self, choices: Mapping[str, str]) -> None:
        self._choices = choices
        self.answers: dict[str, str | None] = {}

    def __getitem__(self, key: str) -> str:
        self.answers[key] = self._choices.get(key)
        return self._choices[key]

    def __iter__(self) -> Iterator[str]:
        self.answers.update(self._choices)
        return iter(self._choices)

    def __len__(self) -> int:
        return max(len(self._choices), 1)  # always truthy, so that `choices or {}` keeps it
