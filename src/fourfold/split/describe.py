"""Describes an assignment of units as a placement for reports: operators, parts, times, reasons."""

from __future__ import annotations

from fourfold.placement import OperatorPlacement, PartPlacement, Placement
from fourfold.split.assign import Assignment, AssignmentProblem
from fourfold.split.cost import Costs
from fourfold.split.partitions import Partition
from fourfold.split.units import Unit
from fourfold.targets import GPU


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
