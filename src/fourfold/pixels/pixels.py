"""Pixels: how a caller's bytes become the numbers that a picture input of a model takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Literal, Protocol, cast

import numpy as np

from fourfold.errors import InputError, nearest

if TYPE_CHECKING:
    from fourfold.metadata import ModelMetadata, TensorMetadata

    class HasMetadata(Protocol):
        """A session, for one."""

        @property
        def metadata(self) -> ModelMetadata: ...


AUTO: Literal["auto"] = "auto"
IMAGE = "image"

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

    @staticmethod
    def from_metadata(
        described: ModelMetadata | HasMetadata, name: str = "", order: str = ""
    ) -> Pixels:
        """As a model's metadata want it: of a session or of its `metadata`. `name` is that of the
        input where several are images, `order` that of the bytes, if not as in the model.
        """
        metadata = cast("ModelMetadata", getattr(described, "metadata", described))
        found = own_pixels(metadata.inputs, order)
        if name:
            found = {key: one for key, one in found.items() if metadata.inputs[key].name == name}
        if len(found) != 1:
            images = [one.name for one in metadata.inputs if one.content == IMAGE]
            what = f"the metadata do not say how pixels{f' of {name!r}' if name else ''} are scaled"
            why = f"{len(found)} of the images {images} come with a mean and a std"
            fix = "pass a name= of one of them, or the numbers: fourfold.Pixels(mean=..., std=...)"
            raise InputError(what, why, fix)
        return next(iter(found.values()))

    @staticmethod
    def parse(text: str) -> Pixels:
        """What `str` wrote."""
        order, mean, std = text.split(", ")
        means, deviations = (tuple(map(float, one.split()[1:])) for one in (mean, std))
        return Pixels(means, deviations, order)

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


# Of the only picture, of inputs by name, or 'auto': of those whose scaling the metadata give.
PixelsOfPicture = Pixels | Literal["auto"]
PixelsOption = PixelsOfPicture | Mapping[str, Pixels]


def own_pixels(inputs: Sequence[TensorMetadata], order: str = "") -> dict[int, Pixels]:
    """Of those inputs, by their places, that are images and say how they are scaled."""
    found = {}
    for place, tensor in enumerate(inputs):
        scaled = tensor.normalization
        if tensor.content == IMAGE and scaled is not None and scaled.mean and scaled.std:
            found[place] = Pixels(scaled.mean, scaled.std, order or tensor.color or "rgb")
    return found


def checked_pixels(given: object) -> PixelsOption | None:
    """What a caller passed, if it says how pixels are read."""
    if given == AUTO:
        return AUTO
    named = given if isinstance(given, Mapping) else {"": given}
    for name, one in named.items():
        if not isinstance(one, Pixels) and given is not None:
            what = f"pixels{f' of {name!r}' if name else ''} are {one!r}"
            why = "they say what the bytes of a picture hold"
            fix = "pass fourfold.Pixels(mean=..., std=..., order='rgb'), or 'auto'"
            raise InputError(what, why, fix)
    return given or None  # type: ignore[return-value]


def pixels_text(given: PixelsOption | None) -> str:
    """The same in words, for keys."""
    if given is None or isinstance(given, Pixels | str):
        return "" if given is None else str(given)
    return "; ".join(f"{name}: {one}" for name, one in sorted(given.items()))
