"""Checks of the numbers in options, when these are made: what is wrong is told at once."""

from __future__ import annotations

from math import isfinite

import numpy as np

from fourfold.errors import InputError, nearest


def require_whole(option: object, title: str, least: int) -> None:
    """A field that counts something."""
    given = getattr(option, title)
    if isinstance(given, bool) or not isinstance(given, int | np.integer) or given < least:
        raise InputError(
            f"{title} of {type(option).__name__} is {given!r}",
            "it is a whole number",
            f"pass {least} or more",
        )


def require_number(
    option: object, title: str, low: float = -float("inf"), high: float = float("inf")
) -> None:
    """A field that is a real number between two bounds."""
    given = getattr(option, title)
    kinds = (int, float, np.integer, np.floating)
    real = not isinstance(given, bool) and isinstance(given, kinds) and isfinite(given)
    if not real or not low <= float(given) <= high:
        bounds = "a number" if high == float("inf") else f"a number from {low:g} to {high:g}"
        raise InputError(
            f"{title} of {type(option).__name__} is {given!r}", f"it is {bounds}", f"pass {bounds}"
        )


def require_name(option: object, title: str, known: tuple[str, ...]) -> None:
    """A field that is one of a few names."""
    given = getattr(option, title)
    if given not in known:
        raise InputError(
            f"{title} of {type(option).__name__} is {given!r}",
            f"it is one of {', '.join(known)}",
            nearest(str(given), known),
        )


def positive_numbers(
    option: object, title: str, given: object, count: int | None = None
) -> tuple[float, ...]:
    """So many positive numbers, or any number of them."""
    try:
        found = tuple(float(one) for one in given)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        found = ()
    fits = len(found) == count if count is not None else bool(found)
    if not fits or not all(one > 0 and isfinite(one) for one in found):
        many = "" if count is None else f"{count} "
        raise InputError(
            f"{title} of {type(option).__name__} are {given!r}",
            f"they are {many}positive numbers",
            f"pass a tuple of {many}numbers above 0",
        )
    return found


def checked_size(option: object, given: object) -> tuple[int, int] | None:
    """Height and width of the picture that the model sees, where the caller says them."""
    if given is None:
        return None
    height, width = positive_numbers(option, "size", given, 2)
    return int(height), int(width)
