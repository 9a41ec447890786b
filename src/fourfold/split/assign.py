"""Where each unit runs: all that can on the GPU, then what does not pay there is taken back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fourfold.graph import Graph
from fourfold.options import PlacementOptions
from fourfold.split.cost import Costs
from fourfold.split.partitions import Partition, make_partitions
from fourfold.split.units import Unit, UnitSupport
from fourfold.targets import GPU

GAIN = 0.9  # a unit leaves the GPU for a clear gain only: the estimates are coarse


@dataclass(frozen=True)
class Assignment:
    """A target for every unit, why those that could be on the GPU are not, and the partitions."""

    targets: Mapping[str, str]
    partitions: tuple[Partition, ...]
    seconds: float
    reasons: Mapping[str, str] = field(default_factory=dict)

    @property
    def gpu_partitions(self) -> list[Partition]:
        return [partition for partition in self.partitions if partition.target == GPU]


@dataclass(frozen=True)
class AssignmentProblem:
    """All that an assignment depends on. `bound` are units that must stay together on the CPU."""

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
        """Who runs a unit on the CPU; '' if nobody can."""
        return self.support[unit.name].cpu_target

    def assignment(self, targets: Mapping[str, str], reasons: Mapping[str, str]) -> Assignment:
        partitions = make_partitions(self.graph, self.units, targets, self.bound)
        return Assignment(targets, partitions, self.costs.total(partitions), reasons)


def assign_units(problem: AssignmentProblem, options: PlacementOptions) -> Assignment:
    """Return the targets that cost least, by measured or estimated times."""
    if options.placement != "cpu" and problem.fits_device:
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
    reasons = dict.fromkeys(bound, "it lies between operators that share a state")
    found = problem.assignment(on_gpu, reasons)
    found = _limit(problem, found, on_cpu, options.max_partitions)
    if options.placement == "gpu" or len(found.gpu_partitions) == len(found.partitions):
        return found  # what needs no split is where the caller wanted it
    return _all_on_cpu(problem, _improve(problem, found, on_cpu), on_cpu)


def _without(
    problem: AssignmentProblem,
    assignment: Assignment,
    partition: Partition,
    on_cpu: Mapping[str, str],
) -> Assignment:
    """The same assignment with one partition taken back to the CPU."""
    moved = {name: on_cpu[name] for name in partition.names}
    return problem.assignment({**assignment.targets, **moved}, assignment.reasons)


def _explained(assignment: Assignment, names: Iterable[str], reason: str) -> Assignment:
    left = [name for name in names if assignment.targets[name] != GPU]
    return replace(assignment, reasons={**assignment.reasons, **dict.fromkeys(left, reason)})


def _limit(
    problem: AssignmentProblem,
    assignment: Assignment,
    on_cpu: Mapping[str, str],
    most: int | None,
) -> Assignment:
    """At most so many partitions on the GPU: those go first whose loss costs least."""
    while most is not None and len(assignment.gpu_partitions) > most:
        others = [
            (partition, _without(problem, assignment, partition, on_cpu))
            for partition in assignment.gpu_partitions
        ]
        others = [item for item in others if item[1].targets != assignment.targets]
        if not others:
            return assignment
        partition, best = min(others, key=lambda item: item[1].seconds)
        assignment = _explained(best, partition.names, f"max_partitions is {most}")
    return assignment


def _improve(
    problem: AssignmentProblem, assignment: Assignment, on_cpu: Mapping[str, str]
) -> Assignment:
    """Takes back partitions, one after the other, that cost more on the GPU than on the CPU."""
    while len(assignment.partitions) > 1 and assignment.gpu_partitions:
        others = [
            (partition, _without(problem, assignment, partition, on_cpu))
            for partition in assignment.gpu_partitions
        ]
        partition, best = min(others, key=lambda item: item[1].seconds)
        if best.seconds >= assignment.seconds or best.targets == assignment.targets:
            return assignment
        saved = (assignment.seconds - best.seconds) * 1e3
        reason = f"the way to the device and back would not pay: about {saved:.3f} ms more"
        assignment = _explained(best, partition.names, reason)
    return assignment


def _all_on_cpu(
    problem: AssignmentProblem, assignment: Assignment, on_cpu: Mapping[str, str]
) -> Assignment:
    """Everything on the CPU, if that is clearly faster."""
    other = problem.assignment(on_cpu, assignment.reasons)
    if not assignment.gpu_partitions or other.seconds >= GAIN * assignment.seconds:
        return assignment
    there, here = assignment.seconds * 1e3, other.seconds * 1e3
    reason = f"the CPU alone is faster: about {here:.3f} ms against {there:.3f} ms"
    on_gpu = [name for name, target in assignment.targets.items() if target == GPU]
    return _explained(other, on_gpu, reason)
