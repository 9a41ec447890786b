"""Options that say which classes an output means."""

from __future__ import annotations

from dataclasses import dataclass

from fourfold.processing.checks import require_whole


@dataclass(frozen=True)
class TopK:
    """The `count` largest numbers along the last axis as `scores`, the largest first, and their
    places as `classes`. With `softmax` the numbers are made probabilities first.
    """

    count: int = 5
    softmax: bool = False

    def __post_init__(self) -> None:
        require_whole(self, "count", 1)


@dataclass(frozen=True)
class ArgMax:
    """The places of the largest numbers along an axis, which goes, as `classes`."""

    axis: int = -1

    def __post_init__(self) -> None:
        require_whole(self, "axis", -8)


@dataclass(frozen=True)
class Softmax:
    """Probabilities along an axis, under the output's own name."""

    axis: int = -1

    def __post_init__(self) -> None:
        require_whole(self, "axis", -8)
