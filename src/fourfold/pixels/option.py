"""The `pixels=` option of a session: for the only picture, by input name, or 'auto'."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from fourfold.errors import InputError
from fourfold.pixels.pixels import Pixels

AUTO: Literal["auto"] = "auto"

# For the only picture, by input name, or 'auto' to use the scaling in the metadata.
PixelsOfPicture = Pixels | Literal["auto"]
PixelsOption = PixelsOfPicture | Mapping[str, Pixels]


def checked_pixels(option: object) -> PixelsOption | None:
    """Return the option if it is valid, or None if it is empty. Raises InputError otherwise."""
    if option == AUTO:
        return AUTO
    named = option if isinstance(option, Mapping) else {"": option}
    for name, one in named.items():
        if not isinstance(one, Pixels) and option is not None:
            what = f"pixels{f' of {name!r}' if name else ''} are {one!r}"
            why = "pixels must be a fourfold.Pixels that describes the bytes of a picture"
            fix = "pass fourfold.Pixels(mean=..., std=..., order='rgb'), or 'auto'"
            raise InputError(what, why, fix)
    return option or None  # type: ignore[return-value]


def pixels_text(option: PixelsOption | None) -> str:
    """Return an option as text, for cache keys."""
    if option is None or isinstance(option, Pixels | str):
        return "" if option is None else str(option)
    return "; ".join(f"{name}: {one}" for name, one in sorted(option.items()))
