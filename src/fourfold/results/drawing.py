"""Draw masks, boxes, key points and class scores on a photograph."""

from __future__ import annotations

from colorsys import hls_to_rgb
from typing import TYPE_CHECKING, Any

import numpy as np

from fourfold.errors import InputError
from fourfold.lazy import lazy_import
from fourfold.pictures import picture_bytes, require_pillow
from fourfold.results.found import Box, Corners, Found, Mask
from fourfold.results.pen import Color, Pen
from fourfold.results.words import score_words

if TYPE_CHECKING:
    from PIL import Image
else:
    Image = lazy_import("PIL.Image")

MIN_DRAWING_PIXELS = 640  # longer side of a drawing; smaller photographs are enlarged
MASK_OPACITY = 0.55
MIN_NAMED_SHARE = 0.005  # smallest share of a mask for which its class is listed
LEGEND_BACKGROUND = (32, 32, 32)


def class_color(number: int) -> Color:
    """Return a color for a class. Consecutive classes get very different hues."""
    red, green, blue = hls_to_rgb((150 + number * 137.5) % 360 / 360, 0.45, 0.75)
    return round(red * 255), round(green * 255), round(blue * 255)


def draw_found(found: Found, photograph: Any) -> Image.Image:
    """Draw all results on the photograph, which is enlarged if it is small."""
    require_pillow("nothing can be drawn")
    if found.pictures:
        pixels = found.pictures[0].pixels
        return Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)
    if photograph is None:
        what, why = "there is no picture to draw on", "no photograph was passed"
        raise InputError(what, why, "pass the photograph that went into the model")
    canvas = _canvas(picture_bytes(photograph))
    for mask in found.masks:
        canvas = _cover(canvas, mask)
    pen = Pen(canvas)
    for box in reversed(found.boxes):  # draw the best box last, on top
        _draw_box(pen, box)
    for number, one in enumerate(found.key_points):
        pairs = zip(one.points, one.seen, strict=True)
        seen = [point if visible else None for point, visible in pairs]
        pen.points(seen, one.edges, class_color(number))
    pen.legend(_legend(found))
    for box in found.boxes:  # the best box is labelled first
        words = f"{box.name} {score_words(box.score)}"
        pen.name(words, _name_corners(box), class_color(box.number))
    return canvas


def _draw_box(pen: Pen, box: Box) -> None:
    color = class_color(box.number)
    if box.turned:
        pen.outline(box.points, color)
    else:
        pen.rectangle(box.corners, color)
        pen.points(box.points, box.edges, color)


def _name_corners(box: Box) -> Corners:
    """Return the area that the label belongs to: the top corner of an oriented box."""
    if not box.turned:
        return box.corners
    highest = min(box.points, key=lambda point: point.y)
    return highest.y, highest.x, highest.y, highest.x


def _canvas(pixels: np.ndarray) -> Image.Image:
    image = Image.fromarray(pixels)
    zoom = max(1, round(MIN_DRAWING_PIXELS / max(image.size)))
    size = (image.width * zoom, image.height * zoom)
    return image if zoom == 1 else image.resize(size, Image.Resampling.LANCZOS)


def _cover(canvas: Image.Image, mask: Mask) -> Image.Image:
    """Blend the mask's class colors over the canvas."""
    numbers = np.unique(mask.classes)
    table = np.zeros((int(numbers.max(initial=0)) + 1, 4), np.uint8)
    for number in numbers:
        if number or not mask.background:
            table[number] = (*_mask_color(mask, int(number)), round(255 * MASK_OPACITY))
    layer = Image.fromarray(table[mask.classes], "RGBA")
    top, left, bottom, right = mask.corners
    corner = (round(left * canvas.width), round(top * canvas.height))
    size = (round((right - left) * canvas.width), round((bottom - top) * canvas.height))
    layer = layer.resize((max(size[0], 1), max(size[1], 1)), Image.Resampling.NEAREST)
    covered = canvas.convert("RGBA")
    covered.alpha_composite(layer, corner)
    return covered.convert("RGB")


def _mask_color(mask: Mask, number: int) -> Color:
    """Return the color of boxes of the same class, which do not count the background."""
    return class_color(number - int(mask.background))


def _legend(found: Found) -> list[tuple[str, Color]]:
    """Return the legend: class scores, and the classes of masks if there are no boxes."""
    lines = [(f"{one.name} {score_words(one.score)}", LEGEND_BACKGROUND) for one in found.classes]
    for mask in found.masks if not found.boxes else ():
        shares = (one for one in mask.shares if one.number or not mask.background)
        named = [one for one in shares if one.share >= MIN_NAMED_SHARE]
        lines += [(f"{one.name} {one.share:.0%}", _mask_color(mask, one.number)) for one in named]
    return lines
