"""What a caller says of pictures: how each is read, by the name of its input, or 'auto'."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from fourfold.errors import InputError
from fourfold.pixels.pixels import Pixels

AUTO: Literal["auto"] = "auto"

# Of the only picture, of inputs by name, or 'auto': of those whose scaling the metadata give.
PixelsOfPicture = Pixels | Literal["auto"]
PixelsOption = PixelsOfPicture | Mapping[str, Pixels]


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
