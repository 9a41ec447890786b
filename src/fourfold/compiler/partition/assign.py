"""Assigns units to targets, the GPU unless the CPU is faster, and describes the placement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isqrt

from fourfold.compiler.partition.cost import Costs
from fourfold.compiler.partition.partitions import Partition, make_partitions
from fourfold.formats.units import Unit, UnitSupport
from fourfold.graph import Graph
from fourfold.options import PlacementOptions
from fourfold.plan.placement import OperatorPlacement, PartPlacement, Placement
from fourfold.plan.targets import GPU

# Units that the search for slow partitions visits: all of them for each pair of partitions.
MAX_SEARCH_VISITS = 1 << 19
MIN_SEARCHED = 4  # partitions that the search always considers
MAX_CPU_TIME_RATIO = 0.9  # minimum gain for leaving the GPU, because the estimates are coarse


@dataclass(frozen=True)
class Assignment:
    """A target for every unit, reasons for units kept off the GPU, and partitions."""

    targets: Mapping[str, str]
    partitions: tuple[Partition, ...]
    seconds: float
    reasons: Mapping[str, str] = field(default_factory=dict)

    @property
    def gpu_partitions(self) -> list[Partition]:
        return [partition for partition in self.partitions if partition.target == GPU]


@dataclass(frozen=True)
class AssignmentProblem:
    """The inputs of an assignment. `bound` are units that must stay together on the CPU."""

    graph: Graph
    units: Sequence[Unit]
    support: Mapping[str, UnitSupport]
    costs: Costs
    bound: tuple[frozenset[str], ...] = ()

    @property
    def fits_device(self) -> bool:
        """Whether the device can run every unit, so that the model needs no split."""
        return all(self.support[unit.name].allows(GPU) for unit in self.units)

    def on_device(self) -> Assignment:
        """Return the assignment of every unit to the device, in one partition."""
        targets = {unit.name: GPU for unit in self.units}
        graph = self.graph
        partition = Partition(GPU, tuple(self.units), graph.arguments, graph.results)
        return Assignment(targets, (partition,), self.costs.total((partition,)))

    def cpu_target(self, unit: Unit) -> str:
        """Return the CPU target that runs a unit; '' if none can."""
        return self.support[unit.name].cpu_target

    def assignment(self, targets: Mapping[str, str], reasons: Mapping[str, str]) -> Assignment:
        partitions = make_partitions(self.graph, self.units, targets, self.bound)
        if [one.target for one in partitions] == [GPU]:  # the device runs the model's own ports
            inputs, outputs = self.graph.arguments, self.graph.results
            partitions = (replace(partitions[0], inputs=inputs, outputs=outputs),)
        return Assignment(targets, partitions, self.costs.total(partitions), reasons)


def assign_units(problem: AssignmentProblem, options: PlacementOptions) -> Assignment:
    """Return the targets that cost least, by measured or estimated times."""
    if not options.only_cpu and problem.fits_device:
        return problem.on_device()
    on_cpu = {unit.name: problem.cpu_target(unit) or GPU for unit in problem.units}
    if options.placement == "cpu":
        reason = options.reason or "placement is 'cpu'"
        return problem.assignment(on_cpu, dict.fromkeys(on_cpu, reason))
    bound = frozenset().union(*problem.bound)
    on_gpu = {
        unit.name: GPU
        if problem.support[unit.name].allows(GPU) and unit.name not in bound
        else on_cpu[unit.name]
        for unit in problem.units
    }
    reasons = dict.fromkeys(bound, "it is between operators that share a state")
    assignment = problem.assignment(on_gpu, reasons)
    assignment = _drop_least_partitions(problem, assignment, on_cpu)
    assignment = _limit_partitions(problem, assignment, on_cpu, options.max_partitions)
    if options.placement == "gpu" or len(assignment.gpu_partitions) == len(assignment.partitions):
        return assignment  # the caller requested the GPU, or no split is needed
    return _prefer_cpu(problem, _move_slow_partitions(problem, assignment, on_cpu), on_cpu)


def _move_to_cpu(
    problem: AssignmentProblem,
    assignment: Assignment,
    partition: Partition,
    on_cpu: Mapping[str, str],
) -> Assignment:
    """Return the assignment with one partition moved back to the CPU."""
    moved = {name: on_cpu[name] for name in partition.names}
    return problem.assignment({**assignment.targets, **moved}, assignment.reasons)


def _with_reason(assignment: Assignment, names: Iterable[str], reason: str) -> Assignment:
    left = [name for name in names if assignment.targets[name] != GPU]
    return replace(assignment, reasons={**assignment.reasons, **dict.fromkeys(left, reason)})


def _drop_least_partitions(
    problem: AssignmentProblem, assignment: Assignment, on_cpu: Mapping[str, str]
) -> Assignment:
    """Move partitions to the CPU at once, those with the least work first, until a search among
    the others takes a limited time.
    """
    limit = max(MIN_SEARCHED, isqrt(MAX_SEARCH_VISITS // max(len(problem.units), 1)))
    partitions = assignment.gpu_partitions
    if len(partitions) <= limit:
        return assignment
    partitions.sort(key=problem.costs.part, reverse=True)
    names = [name for partition in partitions[limit:] for name in partition.names]
    targets = {**assignment.targets, **{name: on_cpu[name] for name in names}}
    moved = problem.assignment(targets, assignment.reasons)
    return _with_reason(moved, names, f"the device would run more than {limit} separate parts")


def _limit_partitions(
    problem: AssignmentProblem,
    assignment: Assignment,
    on_cpu: Mapping[str, str],
    limit: int | None,
) -> Assignment:
    """Limit the number of GPU partitions: those whose move costs least go first."""
    while limit is not None and len(assignment.gpu_partitions) > limit:
        others = [
            (partition, _move_to_cpu(problem, assignment, partition, on_cpu))
            for partition in assignment.gpu_partitions
        ]
        others = [item for item in others if item[1].targets != assignment.targets]
        if not others:
            return assignment
        partition, best = min(others, key=lambda item: item[1].seconds)
        assignment = _with_reason(best, partition.names, f"max_partitions is {limit}")
    return assignment


def _move_slow_partitions(
    problem: AssignmentProblem, assignment: Assignment, on_cpu: Mapping[str, str]
) -> Assignment:
    """Move partitions back to the CPU, one by one, while that reduces the cost."""
    while len(assignment.partitions) > 1 and assignment.gpu_partitions:
        others = [
            (partition, _move_to_cpu(problem, assignment, partition, on_cpu))
            for partition in assignment.gpu_partitions
        ]
        partition, best = min(others, key=lambda item: item[1].seconds)
        if best.seconds >= assignment.seconds or best.targets == assignment.targets:
            return assignment
        saved = (assignment.seconds - best.seconds) * 1e3
        reason = f"transfers to and from the device would not pay off: about {saved:.3f} ms more"
        assignment = _with_reason(best, partition.names, reason)
    return assignment


def _prefer_cpu(
    problem: AssignmentProblem, assignment: Assignment, on_cpu: Mapping[str, str]
) -> Assignment:
    """Return everything on the CPU, if that is clearly faster."""
    other = problem.assignment(on_cpu, assignment.reasons)
    if not assignment.gpu_partitions or other.seconds >= MAX_CPU_TIME_RATIO * assignment.seconds:
        return assignment
    gpu_ms, cpu_ms = assignment.seconds * 1e3, other.seconds * 1e3
    reason = f"the CPU alone is faster: about {cpu_ms:.3f} ms against {gpu_ms:.3f} ms"
    on_gpu = [name for name, target in assignment.targets.items() if target == GPU]
    return _with_reason(other, on_gpu, reason)


def describe_placement(
    problem: AssignmentProblem, assignment: Assignment, device: str, placement: str, engine: str
) -> Placement:
    """Return where every unit runs and why.

    `placement` is the caller's option, `engine` the display name of the format's CPU engine.
    """
    costs = problem.costs
    rows = [
        _operator(problem, assignment, unit, number)
        for number, partition in enumerate(assignment.partitions)
        for unit in partition.units
    ]
    parts = [_part(costs, partition) for partition in assignment.partitions]
    alone = sum(costs.unit(unit, problem.cpu_target(unit) or GPU) for unit in problem.units)
    return Placement(device, placement, tuple(rows), tuple(parts), alone, engine)


def _operator(
    problem: AssignmentProblem, assignment: Assignment, unit: Unit, number: int
) -> OperatorPlacement:
    """Describe one operator of part `number`, with the reason if it is not on the GPU."""
    target, support = assignment.partitions[number].target, problem.support[unit.name]
    reason = support.reasons[GPU] or assignment.reasons.get(unit.name, "")
    return OperatorPlacement(
        name=unit.name,
        op=unit.title,
        target=target,
        part=number,
        seconds=problem.costs.unit(unit, target),
        reason="" if target == GPU else reason,
        able=support.allows(GPU),
    )


def _part(costs: Costs, partition: Partition) -> PartPlacement:
    transfer = costs.transfer(partition)
    return PartPlacement(
        target=partition.target,
        operators=len(partition.units),
        seconds=costs.part(partition) - transfer,
        transfer=transfer,
        inputs=partition.inputs,
        outputs=partition.outputs,
    )
