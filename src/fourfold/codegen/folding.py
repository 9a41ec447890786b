"""Folds grids for devices that limit the groups along an axis: the excess goes along the next."""

from __future__ import annotations

from math import prod


def grid_groups(grid: tuple[int, ...], local: tuple[int, ...]) -> tuple[int, ...]:
    """Return the number of groups along each axis."""
    return tuple(count // size for count, size in zip(grid, local, strict=True))


def folded_groups(
    grid: tuple[int, ...], local: tuple[int, ...], most: int | None
) -> tuple[int, int] | None:
    """Return the groups as rows of `most`, the last padded; None if no axis exceeds `most`."""
    groups = grid_groups(grid, local)
    if most is None or max(groups) <= most:
        return None
    return most, -(-prod(groups) // most)


def folded_launch(
    grid: tuple[int, ...], local: tuple[int, ...], most: int | None
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the grid and the group size of a launch, folded if necessary."""
    folded = folded_groups(grid, local, most)
    if folded is None:
        return grid, local
    size = (*local, 1, 1)[:3]
    return (folded[0] * size[0], folded[1] * size[1], size[2]), size
