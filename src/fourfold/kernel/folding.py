"""Grids for devices that take only so many groups along an axis: the rest goes along the next."""

from __future__ import annotations

from math import prod


def grid_groups(grid: tuple[int, ...], local: tuple[int, ...]) -> tuple[int, ...]:
    """How many groups there are along each axis."""
    return tuple(count // size for count, size in zip(grid, local, strict=True))


def folded_groups(
    grid: tuple[int, ...], local: tuple[int, ...], most: int | None
) -> tuple[int, int] | None:
    """All groups of a grid as rows of `most`, of which the last may be filled up by more than there
    are; None where no axis has more than that.
    """
    groups = grid_groups(grid, local)
    if most is None or max(groups) <= most:
        return None
    return most, -(-prod(groups) // most)


def folded_launch(
    grid: tuple[int, ...], local: tuple[int, ...], most: int | None
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The grid and the groups of a launch, folded where it has to be."""
    folded = folded_groups(grid, local, most)
    if folded is None:
        return grid, local
    size = (*local, 1, 1)[:3]
    return (folded[0] * size[0], folded[1] * size[1], size[2]), size
