"""A model in parts, compiled: each part as what its engine needs, written down as plain data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from fourfold.compile.load import load_model
from fourfold.compile.memory_limit import within_limit
from fourfold.compile.pipeline import LoweringInput, prepare_lowering
from fourfold.compile.placement import PlacementProblem, decide, read_problem
from fourfold.compile.recorded_choices import RecordedChoices
from fourfold.cpu.numpy.graph_file import write_graph
from fourfold.device import DeviceInfo
from fourfold.errors import UnsupportedError
from fourfold.options import CompileOptions, PlacementOptions
from fourfold.placement import OperatorPlacement
from fourfold.plan import Compiled, Plan, Port
from fourfold.plan.hybrid import HybridPart, HybridPlan, join_plans
from fourfold.plan.tensor_binding import TensorBinding
from fourfold.split import Partition
from fourfold.targets import GPU, NUMPY


def compile_hybrid(problem: PlacementProblem, choices: Mapping[str, str]) -> HybridPlan:
    """A model placed, planned and written down, each part as what its engine needs."""
    told: list[OperatorPlacement] = []
    options = problem.placement_options

    def make(smaller: CompileOptions) -> HybridPlan:
        told.clear()
        quiet = replace(options, on_fallback=told.append)
        changed = replace(problem, compile_options=smaller, placement_options=quiet)
        return _compile_parts(changed, choices)

    made = within_limit(
        problem.title, problem.compile_options, make, lambda made: made.compiled.plan
    )
    if options.on_fallback is not None:
        for row in told:
            options.on_fallback(row)
    return made


def _compile_parts(problem: PlacementProblem, choices: Mapping[str, str]) -> HybridPlan:
    recorded = RecordedChoices(choices)
    decision = decide(problem, recorded)
    plans = {number: part.plan for number, part in decision.planned.items()}
    parts = tuple(
        _part(problem, partition, plans.get(number))
        for number, partition in enumerate(decision.assignment.partitions)
    )
    graph, loaded = problem.graph, problem.loaded
    plan = join_plans(
        graph.name,
        list(plans.values()),
        _ports(problem, graph.arguments),
        _ports(problem, graph.results),
        problem.compile_options.precision,
    )
    names = (problem.model.input_names, problem.model.output_names)
    compiled = Compiled(
        plan,
        *names,
        recorded.answers,
        loaded.open_sizes,
        pixels=loaded.pixels,
        about=loaded.about,
        signature=problem.compile_options.signature or "",
        postprocess=loaded.postprocess,
    )
    inputs = dict.fromkeys(name for part in parts for name in part.inputs)
    crossing = {name: problem.type(name) for name in inputs if name in graph.types}
    partitions = enumerate(decision.assignment.partitions)
    states = tuple(number for number, one in partitions if _keeps_state(problem, one))
    return HybridPlan(parts, crossing, compiled, decision.placement.to_record(), states)


def _keeps_state(problem: PlacementProblem, partition: Partition) -> bool:
    """Whether a run of the part may depend on the runs before."""
    source = problem.model.source_graph
    shared = () if source is None else source.states
    in_file = any(name in shared for name in partition.names)
    return in_file or bool(partition.graph(problem.graph).states)


def _part(problem: PlacementProblem, partition: Partition, plan: Plan | None) -> HybridPart:
    ends = (partition.target, partition.inputs, partition.outputs)
    if partition.target == GPU:
        return HybridPart(*ends, plan=plan)
    if partition.target == NUMPY:
        graph = problem.part_graph(partition)
        content = write_graph(graph)
        return HybridPart(*ends, content=content or b"", graph=None if content else graph)
    return _file_part(problem, partition)


def _file_part(problem: PlacementProblem, partition: Partition) -> HybridPart:
    """A file of its own for the CPU engine of the model's format."""
    source, types = problem.model.source_graph, problem.graph.types
    assert source is not None

    def binding(value: str) -> TensorBinding:
        tensor = source.tensor(value)
        assert tensor is not None, f"'{value}' is no tensor of the file"
        pixels = problem.loaded.pictures.get(value)
        return TensorBinding(value, tensor, types.get(value), source.grid(value), pixels)

    ends = (partition.inputs, partition.outputs)
    bindings = (tuple(map(binding, ends[0])), tuple(map(binding, ends[1])))
    content = source.write(partition.names, *ends)
    return HybridPart(partition.target, *ends, content=content, bindings=bindings)


def _ports(problem: PlacementProblem, names: Iterable[str]) -> tuple[Port, ...]:
    bytes_ = problem.loaded.pictures  # what comes as bytes counts no steps
    grids = {k: grid for k, grid in problem.graph.quantization.items() if k not in bytes_}
    return tuple(Port(name, problem.type(name), 0, grids.get(name)) for name in names)


def lowering_inputs(
    model: str | bytes, device: DeviceInfo, options: CompileOptions, choices: Mapping[str, str]
) -> list[LoweringInput]:
    """What of a model is lowered for a device: all of it, or those of its parts that run there."""
    try:
        lowering = prepare_lowering(load_model(model, options).graph, device, options)
        lowering.plan(choices)
    except UnsupportedError:
        title = "the model" if isinstance(model, bytes) else model
        problem = read_problem(model, title, device, options, PlacementOptions())
        return [part.lowering for part in decide(problem, choices).planned.values()]
    return [lowering]
