"""StatedPixels: the part of a picture's preprocessing that a caller states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from fourfold.errors import InputError
from fourfold.processing.pixels.frame_fit import Box
from fourfold.processing.pixels.pixels import Pixels

SCALING = ("range", "mean", "std")
MAX_BYTE = 255


@dataclass(frozen=True)
class StatedPixels:
    """The part of the preprocessing that a caller states; the model decides about the rest.

    Args:
        range: Numbers that the bytes 0 and 255 become, such as (-1, 1). It stands for a mean and a
            std, and cannot be combined with them.
        mean: One number, or one per channel of the model, as in `Pixels`.
        std: One number, or one per channel of the model, as in `Pixels`.
        fit: 'stretch', 'letterbox' or 'crop', as in `Pixels`.
        resize: Resize method, as in `Pixels`.
        crop: Part to cut out of each picture first: top, left, height, width.
        fill: Color of letterbox bars.
        model_order: Channel order of the model: 'rgb' or 'bgr'.
    """

    range: tuple[float, float] | None = None
    mean: float | Sequence[float] | None = None
    std: float | Sequence[float] | None = None
    fit: str | None = None
    resize: str | None = None
    crop: Box | None = None
    fill: float | Sequence[float] | None = None
    model_order: str | None = None

    def __post_init__(self) -> None:
        if self.range is None:
            return
        if self.mean is not None or self.std is not None:
            what, why = "a range and a mean or std were stated", "each of them scales pixels"
            raise InputError(what, why, "state the range alone, or mean and std")
        low, high = self.range
        if low == high:
            what = f"the range of pixels from {low:g} to {high:g} has no width"
            raise InputError(what, "pixels are scaled to it", "state another one, such as 0,1")

    @staticmethod
    def of(pixels: Pixels | StatedPixels | None) -> StatedPixels:
        """Return what an option states. A `Pixels` without a fit leaves the fit to the model."""
        if isinstance(pixels, StatedPixels):
            return pixels
        if pixels is None:
            return StatedPixels()
        scaled = StatedPixels(mean=pixels.mean, std=pixels.std, model_order=pixels.model_order)
        if pixels.fit is None:
            return scaled
        placed = {one: getattr(pixels, one) for one in ("fit", "resize", "crop", "fill")}
        return StatedPixels(**{**vars(scaled), **placed})

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the stated fields."""
        return tuple(one.name for one in fields(self) if getattr(self, one.name) is not None)

    @property
    def scales(self) -> bool:
        """True if the range, the mean or the std is stated."""
        return any(name in SCALING for name in self.names)

    def changes(self) -> dict[str, Any]:
        """Return the stated fields as arguments of `Pixels`."""
        stated = {name: getattr(self, name) for name in self.names if name not in SCALING}
        if self.range is not None:
            low, high = self.range
            std = MAX_BYTE / (high - low)
            return {"mean": -low * std, "std": std, **stated}
        if self.scales:
            mean = 0.0 if self.mean is None else self.mean
            return {"mean": mean, "std": 1.0 if self.std is None else self.std, **stated}
        return stated
