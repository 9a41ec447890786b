"""Pixels: how a caller's bytes become the numbers that a picture input of a model takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np

from fourfold.errors import InputError, nearest

# What the bytes of a pixel hold, and for each channel of the model the byte that it comes from.
ORDERS = {"rgb": (0, 1, 2), "bgr": (2, 1, 0), "rgba": (0, 1, 2), "bgra": (2, 1, 0), "gray": (0,)}


@dataclass(frozen=True)
class Pixels:
    """A picture comes as uint8, and the model gets (byte - mean) / std, in floats.

    `mean` and `std` are one number, or one for each of the model's channels: red, green, blue.
    `order` is what the caller's bytes hold: 'rgb', 'bgr', 'rgba', 'bgra', whose last byte is
    dropped, or 'gray'.
    """

    mean: float | Sequence[float] = 0.0
    std: float | Sequence[float] = 1.0
    order: str = "rgb"

    def __post_init__(self) -> None:
        if self.order not in ORDERS:
            why = f"orders are {', '.join(ORDERS)}"
            raise InputError(
                f"there is no order {self.order!r} of pixels", why, nearest(str(self.order), ORDERS)
            )
        for title in ("mean", "std"):
            object.__setattr__(self, title, self._numbers(title))
        if not all(self._spread("std")):
            what, why = f"the std of pixels is {self.std}", "pixels are divided by it"
            raise InputError(what, why, "pass 1 where nothing is to be divided")

    def _numbers(self, title: str) -> float | tuple[float, ...]:
        """One number where all channels have the same, else one each."""
        given = getattr(self, title)
        try:
            numbers = given if hasattr(given, "__len__") else (given,)
            found = tuple(float(one) + 0.0 for one in numbers)  # not -0.0
        except (TypeError, ValueError):
            found = ()
        if len(found) not in (1, self.channels) or not all(map(isfinite, found)):
            raise InputError(
                f"the {title} of pixels is {given!r}",
                f"pixels in the order {self.order} have {self.channels} channels",
                f"pass one number, or {self.channels} of them",
            )
        return found[0] if len(set(found)) == 1 else found

    def _spread(self, title: str) -> tuple[float, ...]:
        found = getattr(self, title)
        return found if isinstance(found, tuple) else (found,) * self.channels

    @property
    def channels(self) -> int:
        """How many channels the model gets."""
        return len(ORDERS[self.order])

    @property
    def bytes(self) -> int:
        """How many bytes a pixel of the caller's has."""
        return 1 if self.order == "gray" else len(self.order)

    @property
    def readings(self) -> list[tuple[int, float, float]]:
        """For each channel its byte, its mean, and its scale."""
        scales = (1 / one for one in self._spread("std"))
        return list(zip(ORDERS[self.order], self._spread("mean"), scales, strict=True))

    def real(self, bytes_: np.ndarray) -> np.ndarray:
        """The numbers that the model gets, by NumPy."""
        places, means, scales = zip(*self.readings, strict=True)
        found = bytes_[..., 2::-1] if places == (2, 1, 0) else bytes_[..., : len(places)]
        real: np.ndarray = np.subtract(found, np.array(means, np.float32), dtype=np.float32)
        real *= np.array(scales, np.float32)
        return real

    def __str__(self) -> str:
        return f"{self.order}, mean {_words(self.mean)}, std {_words(self.std)}"


def _words(numbers: float | Sequence[float]) -> str:
    return " ".join(map(repr, numbers)) if isinstance(numbers, tuple) else repr(numbers)


PixelsOption = Pixels | Mapping[str, Pixels]  # of the only picture, or of inputs by name


def checked_pixels(given: object) -> PixelsOption | None:
    """What a caller passed, if it says how pixels are read."""
    named = given if isinstance(given, Mapping) else {"": given}
    for name, one in named.items():
        if not isinstance(one, Pixels) and given is not None:
            what = f"pixels{f' of {name!r}' if name else ''} are {one!r}"
            why = "they say what the bytes of a picture hold"
            raise InputError(what, why, "pass fourfold.Pixels(mean=..., std=..., order='rgb')")
    return given or None  # type: ignore[return-value]


def pixels_text(given: PixelsOption | None) -> str:
    """The same in words, for keys."""
    if given is None or isinstance(given, Pixels):
        return "" if given is None else str(given)
    return "; ".join(f"{name}: {one}" for name, one in sorted(given.items()))
