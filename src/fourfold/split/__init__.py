"""Placement: which units can run where and why not, and parts chosen by what they cost."""

from __future__ import annotations

from fourfold.split.bind import bind_units
from fourfold.split.choose import Choice, Limits, Task, assign_units
from fourfold.split.cost import Costs, Rates
from fourfold.split.partitions import Partition, make_partitions
from fourfold.split.placement import Placement, Row
from fourfold.split.units import GPU, LITERT, NUMPY, Unit, Verdict, find_units

__all__ = [
    "GPU",
    "LITERT",
    "NUMPY",
    "Choice",
    "Costs",
    "Limits",
    "Partition",
    "Placement",
    "Rates",
    "Row",
    "Task",
    "Unit",
    "Verdict",
    "assign_units",
    "bind_units",
    "find_units",
    "make_partitions",
]
