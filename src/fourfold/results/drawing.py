"""Draws what was found on a photograph: masks, boxes, points with what joins them, and classes."""

from __future__ import annotations

from colorsys import hls_to_rgb
from typing import TYPE_CHECKING, Any

import numpy as np

from fourfold.errors import InputError
from fourfold.lazy import lazy_import
from fourfold.pictures import picture_bytes, require_pillow
from fourfold.results.found import Box, Corners, Found, Mask
from fourfold.results.pen import Colour, Pen
from fourfold.results.words import score_words

if TYPE_CHECKING:
    from PIL import Image
else:
    Image = lazy_import("PIL.Image")

SMALLEST = 640  # pixels of the longer side of a drawing
COVER = 0.55  # how much of a mask hides the photograph
LEAST_SHARE = 0.005  # of the mask, for a class to be named
GROUND = (32, 32, 32)  # of words about the whole picture


def class_colour(number: int) -> Colour:
    """Neighbouring classes are far apart on the circle of colours."""
    red, green, blue = hls_to_rgb((150 + number * 137.5) % 360 / 360, 0.45, 0.75)
    return round(red * 255), round(green * 255), round(blue * 255)


def draw_found(found: Found, photograph: Any) -> Image.Image:
    """The photograph, enlarged where it is small, with all that was found on it."""
    require_pillow("nothing can be drawn")
    if found.pictures:
        pixels = found.pictures[0].pixels
        return Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)
    if photograph is None:
        what, why = "there is nothing to draw on", "no photograph was given"
        raise InputError(what, why, "pass the photograph that went into the model")
    canvas = _canvas(picture_bytes(photograph))
    for mask in found.masks:
        canvas = _cover(canvas, mask)
    pen = Pen(canvas)
    for box in reversed(found.boxes):  # the best lies on top
        _draw_box(pen, box)
    for number, one in enumerate(found.key_points):
        pairs = zip(one.points, one.seen, strict=True)
        seen = [point if there else None for point, there in pairs]
        pen.points(seen, one.edges, class_colour(number))
    pen.legend(_legend(found))
    for box in found.boxes:  # the best has the first choice of a place
        words = f"{box.name} {score_words(box.score)}"
        pen.name(words, _name_corners(box), class_colour(box.number))
    return canvas


def _draw_box(pen: Pen, box: Box) -> None:
    colour = class_colour(box.number)
    if box.turned:
        pen.outline(box.points, colour)
    else:
        pen.rectangle(box.corners, colour)
        pen.points(box.points, box.edges, colour)


def _name_corners(box: Box) -> Corners:
    """What the name belongs to: of a box that is turned the highest of its corners."""
    if not box.turned:
        return box.corners
    highest = min(box.points, key=lambda point: point.y)
    return highest.y, highest.x, highest.y, highest.x


def _canvas(pixels: np.ndarray) -> Image.Image:
    image = Image.fromarray(pixels)
    zoom = max(1, round(SMALLEST / max(image.size)))
    size = (image.width * zoom, image.height * zoom)
    return image if zoom == 1 else image.resize(size, Image.Resampling.LANCZOS)


def _cover(canvas: Image.Image, mask: Mask) -> Image.Image:
    """The mask's classes in their colours over the part of the canvas where it lies."""
    numbers = np.unique(mask.classes)
    table = np.zeros((int(numbers.max(initial=0)) + 1, 4), np.uint8)
    for number in numbers:
        if number or not mask.background:
            table[number] = (*_mask_colour(mask, int(number)), round(255 * COVER))
    layer = Image.fromarray(table[mask.classes], "RGBA")
    top, left, bottom, right = mask.corners
    corner = (round(left * canvas.width), round(top * canvas.height))
    size = (round((right - left) * canvas.width), round((bottom - top) * canvas.height))
    layer = layer.resize((max(size[0], 1), max(size[1], 1)), Image.Resampling.NEAREST)
    covered = canvas.convert("RGBA")
    covered.alpha_composite(layer, corner)
    return covered.convert("RGB")


def _mask_colour(mask: Mask, number: int) -> Colour:
    """As boxes of the same class have it: these do not count the background."""
    return class_colour(number - int(mask.background))


def _legend(found: Found) -> list[tuple[str, Colour]]:
    """Lines about the whole picture: classes, and of masks what is there, where no boxes say it."""
    lines = [(f"{one.name} {score_words(one.score)}", GROUND) for one in found.classes]
    for mask in found.masks if not found.boxes else ():
        shares = (one for one in mask.shares if one.number or not mask.background)
        named = [one for one in shares if one.share >= LEAST_SHARE]
        lines += [(f"{one.name} {one.share:.0%}", _mask_colour(mask, one.number)) for one in named]
    return lines
