"""Validate the fields of options when they are constructed."""

from __future__ import annotations

from math import isfinite

import numpy as np

from fourfold.errors import InputError, nearest


def require_integer(option: object, title: str, least: int) -> None:
    """Require that a field is an integer of at least `least`."""
    value = getattr(option, title)
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InputError(
            f"{title} of {type(option).__name__} is {value!r}",
            "it must be an integer",
            f"pass {least} or more",
        )


def require_number(
    option: object, title: str, low: float = -float("inf"), high: float = float("inf")
) -> None:
    """Require that a field is a real number between two bounds."""
    value = getattr(option, title)
    kinds = (int, float, np.integer, np.floating)
    real = not isinstance(value, bool) and isinstance(value, kinds) and isfinite(value)
    if not real or not low <= float(value) <= high:
        bounds = "a number" if high == float("inf") else f"a number from {low:g} to {high:g}"
        raise InputError(
            f"{title} of {type(option).__name__} is {value!r}",
            f"it must be {bounds}",
            f"pass {bounds}",
        )


def require_name(option: object, title: str, choices: tuple[str, ...]) -> None:
    """Require that a field is one of a few names."""
    value = getattr(option, title)
    if value not in choices:
        raise InputError(
            f"{title} of {type(option).__name__} is {value!r}",
            f"it must be one of {', '.join(choices)}",
            nearest(str(value), choices),
        )


def positive_numbers(
    option: object, title: str, values: object, count: int | None = None
) -> tuple[float, ...]:
    """Return positive numbers as floats: exactly `count` of them, or at least one."""
    try:
        numbers = tuple(float(one) for one in values)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        numbers = ()
    fits = len(numbers) == count if count is not None else bool(numbers)
    if not fits or not all(one > 0 and isfinite(one) for one in numbers):
        many = "" if count is None else f"{count} "
        raise InputError(
            f"{title} of {type(option).__name__} are {values!r}",
            f"they must be {many}positive numbers",
            f"pass a tuple of {many}numbers above 0",
        )
    return numbers


def checked_size(option: object, size: object) -> tuple[int, int] | None:
    """Return height and width as integers, or None if no size was passed."""
    if size is None:
        return None
    height, width = positive_numbers(option, "size", size, 2)
    return int(height), int(width)
