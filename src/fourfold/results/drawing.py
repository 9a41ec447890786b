"""Draws what was found on a photograph: masks, boxes, points with what joins them, and classes."""

from __future__ import annotations

from collections.abc import Iterable
from colorsys import hls_to_rgb
from typing import TYPE_CHECKING, Any

import numpy as np

from fourfold.errors import InputError
from fourfold.lazy import lazy_import
from fourfold.pictures import picture_bytes, require_pillow
from fourfold.results.found import Box, Edge, Found, KeyPoint, Mask
from fourfold.results.words import score_words

if TYPE_CHECKING:
    from PIL import Image, ImageDraw, ImageFont
else:
    Image = lazy_import("PIL.Image")
    ImageDraw = lazy_import("PIL.ImageDraw")
    ImageFont = lazy_import("PIL.ImageFont")

Colour = tuple[int, int, int]
SMALLEST = 640  # pixels of the longer side of a drawing
COVER = 0.55  # how much of a mask hides the photograph
LEAST_SHARE = 0.005  # of the mask, for a class to be named
WHITE = (255, 255, 255)
MANY = 60  # points: beyond so many each is small


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
    pen = _Pen(canvas)
    for box in reversed(found.boxes):  # the best lies on top
        pen.box(box, class_colour(box.number))
    for number, one in enumerate(found.key_points):
        pairs = zip(one.points, one.seen, strict=True)
        pen.points(
            [point if seen else None for point, seen in pairs], one.edges, class_colour(number)
        )
    pen.legend(_legend(found))
    return canvas


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
            table[number] = (*class_colour(int(number)), round(255 * COVER))
    layer = Image.fromarray(table[mask.classes], "RGBA")
    top, left, bottom, right = mask.corners
    corner = (round(left * canvas.width), round(top * canvas.height))
    size = (round((right - left) * canvas.width), round((bottom - top) * canvas.height))
    layer = layer.resize((max(size[0], 1), max(size[1], 1)), Image.Resampling.NEAREST)
    covered = canvas.convert("RGBA")
    covered.alpha_composite(layer, corner)
    return covered.convert("RGB")


def _legend(found: Found) -> list[tuple[str, Colour | None]]:
    """Lines about the whole picture: classes, and of masks what is there."""
    lines: list[tuple[str, Colour | None]] = [
        (f"{one.name} {score_words(one.score)}", None) for one in found.classes
    ]
    for mask in found.masks:
        shares = (one for one in mask.shares if one.number or not mask.background)
        named = [one for one in shares if one.share >= LEAST_SHARE]
        lines += [(f"{one.name} {one.share:.0%}", class_colour(one.number)) for one in named]
    return lines


class _Pen:
    """Draws on a canvas with lines and letters that fit its size."""

    def __init__(self, canvas: Image.Image) -> None:
        self._width, self._height = canvas.size
        self._draw = ImageDraw.Draw(canvas)
        self._line = max(2, round(max(canvas.size) / 300))
        self._font: ImageFont.ImageFont | ImageFont.FreeTypeFont
        self._font = ImageFont.load_default(max(14, round(max(canvas.size) / 45)))

    def _at(self, y: float, x: float) -> tuple[float, float]:
        return x * self._width, y * self._height

    def box(self, box: Box, colour: Colour) -> None:
        top, left, bottom, right = box.corners
        ends = [self._at(top, left), self._at(max(top, bottom), max(left, right))]
        self._draw.rectangle(ends, outline=colour, width=self._line)
        self.points(box.points, box.edges, colour)
        self._tag(f"{box.name} {score_words(box.score)}", ends[0], colour)

    def _tag(self, text: str, corner: tuple[float, float], colour: Colour) -> None:
        """A text on its colour, above the corner, or inside where there is no room above."""
        _, _, right, bottom = self._draw.textbbox((0, 0), text, font=self._font)
        tall, wide = bottom + self._line, right + 2 * self._line
        x = min(max(corner[0], 0), max(self._width - wide, 0))
        y = corner[1] - tall if corner[1] >= tall else max(corner[1], 0)
        self._draw.rectangle([x, y, x + wide, y + tall], fill=colour)
        self._draw.text((x + self._line, y), text, fill=WHITE, font=self._font)

    def points(
        self, points: Iterable[KeyPoint | None], edges: tuple[Edge, ...], colour: Colour
    ) -> None:
        """Points that are seen, and lines between those of them that belong together."""
        places = [None if one is None else self._at(one.y, one.x) for one in points]
        for start, end in edges:
            first, second = places[start], places[end]
            if first is not None and second is not None:
                self._draw.line([first, second], fill=colour, width=self._line)
        radius = self._line * (0.6 if len(places) > MANY else 1.5)
        for place in places:
            if place is not None:
                x, y = place
                corners = [x - radius, y - radius, x + radius, y + radius]
                self._draw.ellipse(corners, fill=colour, outline=WHITE if radius > 2 else None)

    def legend(self, lines: list[tuple[str, Colour | None]]) -> None:
        """Lines in the upper left corner, each with its colour."""
        y = float(self._line)
        for text, colour in lines:
            _, _, _, bottom = self._draw.textbbox((0, 0), text, font=self._font)
            self._tag(text, (self._line, y + bottom + self._line), colour or (32, 32, 32))
            y += bottom + 2 * self._line
