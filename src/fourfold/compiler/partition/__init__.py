"""Placement: where units can run, and partitions chosen by estimated cost."""

from __future__ import annotations

from fourfold.compiler.partition.assign import (
    Assignment,
    AssignmentProblem,
    assign_units,
    describe_placement,
)
from fourfold.compiler.partition.cost import Costs, TargetRates
from fourfold.compiler.partition.partitions import Partition, PartitionKey, make_partitions
from fourfold.formats.units import Unit, UnitSupport, bind_units, find_units

__all__ = [
    "Assignment",
    "AssignmentProblem",
    "Costs",
    "Partition",
    "PartitionKey",
    "TargetRates",
    "Unit",
    "UnitSupport",
    "assign_units",
    "bind_units",
    "describe_placement",
    "find_units",
    "make_partitions",
]
