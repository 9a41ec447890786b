"""Options for classification outputs."""

from __future__ import annotations

from dataclasses import dataclass

from fourfold.processing.checks import require_integer


@dataclass(frozen=True)
class TopK:
    """Return the `count` largest values of the last axis as `scores` and their indices as
    `classes`.

    Args:
        count: Number of values, largest first.
        softmax: Apply softmax first.
    """

    count: int = 5
    softmax: bool = False

    def __post_init__(self) -> None:
        require_integer(self, "count", 1)


@dataclass(frozen=True)
class ArgMax:
    """Return the indices of the largest values along an axis as `classes`. The axis is removed.

    Args:
        axis: The axis to reduce.
    """

    axis: int = -1

    def __post_init__(self) -> None:
        require_integer(self, "axis", -8)


@dataclass(frozen=True)
class Softmax:
    """Apply softmax along an axis. The output keeps its name.

    Args:
        axis: The axis whose values sum to one.
    """

    axis: int = -1

    def __post_init__(self) -> None:
        require_integer(self, "axis", -8)
