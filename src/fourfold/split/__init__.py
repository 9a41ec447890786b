"""Placement: which units can run where and why not, and parts chosen by what they cost."""

from __future__ import annotations

from fourfold.split.bind import bind_units
from fourfold.split.choose import Choice, Limits, Task, choose_places
from fourfold.split.cost import Costs, Rates
from fourfold.split.parts import Part, make_parts
from fourfold.split.placement import Placement, Row
from fourfold.split.units import GPU, LITERT, NUMPY, Unit, Verdict, find_units

__all__ = [
    "GPU",
    "LITERT",
    "NUMPY",
    "Choice",
    "Costs",
    "Limits",
    "Part",
    "Placement",
    "Rates",
    "Row",
    "Task",
    "Unit",
    "Verdict",
    "bind_units",
    "choose_places",
    "find_units",
    "make_parts",
]
