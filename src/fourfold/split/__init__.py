"""Placement: where units can run, and partitions chosen by estimated cost."""

from __future__ import annotations

from fourfold.split.assign import Assignment, AssignmentProblem, assign_units
from fourfold.split.bind import bind_units
from fourfold.split.cost import Costs, TargetRates
from fourfold.split.describe import describe_placement
from fourfold.split.partitions import Partition, make_partitions
from fourfold.split.units import Unit, UnitSupport, find_units

__all__ = [
    "Assignment",
    "AssignmentProblem",
    "Costs",
    "Partition",
    "TargetRates",
    "Unit",
    "UnitSupport",
    "assign_units",
    "bind_units",
    "describe_placement",
    "find_units",
    "make_partitions",
]
