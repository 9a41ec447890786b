"""Sessions opened once more with what the caller passed: as a copy, or in another process."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from fourfold.errors import InputError

T = TypeVar("T")
CALLBACK = "on_fallback"


def open_again(kind: Callable[..., T], options: Mapping[str, Any]) -> T:
    """What a pickled session becomes where it is unpickled."""
    return kind(**options)


def check_pickles(options: Mapping[str, Any]) -> None:
    """An InputError where a caller's function cannot be sent to another process."""
    try:
        pickle.dumps(options[CALLBACK])
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InputError(
            "this session cannot be pickled",
            f"its {CALLBACK} cannot: {error}",
            "pass a function that stands in a module by its name, or leave it out: "
            "session.placement.fallbacks has the same",
        ) from error
