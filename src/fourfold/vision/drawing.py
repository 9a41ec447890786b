"""Draw masks, boxes, key points and class scores on a photograph."""

from __future__ import annotations

import io
from collections.abc import Sequence
from colorsys import hls_to_rgb
from typing import TYPE_CHECKING, Any

import numpy as np

from fourfold.errors import InputError
from fourfold.processing.pictures import picture_bytes, require_pillow
from fourfold.support.lazy import lazy_import
from fourfold.vision.found import Box, Corners, Edge, Found, KeyPoint, Mask
from fourfold.vision.words import format_score

if TYPE_CHECKING:
    from PIL import Image, ImageDraw, ImageFont
else:
    Image = lazy_import("PIL.Image")
    ImageDraw = lazy_import("PIL.ImageDraw")
    ImageFont = lazy_import("PIL.ImageFont")


Color = tuple[int, int, int]
Place = tuple[float, float]  # x and y, in pixels
Area = tuple[float, float, float, float]  # left, top, right, bottom, in pixels
WHITE, BLACK = (255, 255, 255), (0, 0, 0)
MAX_LARGE_POINTS = 60  # objects with more points get small ones
_LUMA_WEIGHTS = (0.299, 0.587, 0.114)  # of red, green and blue
_BRIGHT_LUMA = 125
_MAX_LABEL_ROWS = 8  # positions to try below the corner of a box


class Pen:
    """Draws on a canvas, and remembers where labels are so that they do not overlap."""

    def __init__(self, canvas: Image.Image) -> None:
        self._width, self._height = canvas.size
        self._draw = ImageDraw.Draw(canvas)
        self._line = max(2, round(max(canvas.size) / 300))
        self._font: ImageFont.ImageFont | ImageFont.FreeTypeFont
        self._font = ImageFont.load_default(max(14, round(max(canvas.size) / 45)))
        self._written: list[Area] = []

    def _at(self, y: float, x: float) -> Place:
        return x * self._width, y * self._height

    def rectangle(self, corners: Corners, color: Color) -> None:
        top, left, bottom, right = corners
        corner_pixels = [self._at(top, left), self._at(max(top, bottom), max(left, right))]
        self._draw.rectangle(corner_pixels, outline=color, width=self._line)

    def outline(self, points: Sequence[KeyPoint], color: Color) -> None:
        """Draw a closed polygon."""
        pixels = [self._at(one.y, one.x) for one in points]
        self._draw.polygon(pixels, outline=color, width=self._line)

    def points(
        self, points: Sequence[KeyPoint | None], edges: tuple[Edge, ...], color: Color
    ) -> None:
        """Draw the visible points, and lines between connected ones."""
        pixels = [None if one is None else self._at(one.y, one.x) for one in points]
        self._joints(pixels, edges, color)
        radius = self._line * (0.6 if len(pixels) > MAX_LARGE_POINTS else 1.5)
        for pixel in pixels:
            if pixel is not None:
                x, y = pixel
                corners = [x - radius, y - radius, x + radius, y + radius]
                self._draw.ellipse(corners, fill=color, outline=WHITE if radius > 2 else None)

    def _joints(
        self, pixels: Sequence[Place | None], edges: tuple[Edge, ...], color: Color
    ) -> None:
        """Draw lines with a white border, for contrast on skin and walls; none with many points."""
        pairs = [(pixels[start], pixels[end]) for start, end in edges]
        lines = [(first, second) for first, second in pairs if first and second]
        bordered = [] if len(pixels) > MAX_LARGE_POINTS else [(WHITE, 2 * self._line + 1)]
        for ink, width in (*bordered, (color, self._line + bool(bordered))):
            for line in lines:
                self._draw.line(line, fill=ink, width=width)

    def legend(self, lines: Sequence[tuple[str, Color]]) -> None:
        """Write one line per entry into the upper left corner, on the color of the entry."""
        y = float(self._line)
        for text, color in lines:
            area = self._area(text, (self._line, y))
            self._write(text, area, color)
            y = area[3]

    def name(self, text: str, corners: Corners, color: Color) -> None:
        """Write a label above the corners, or where it hides no other label."""
        top, left, bottom, right = corners
        (start, upper), (end, lower) = self._at(top, left), self._at(bottom, right)
        _, _, wide, tall = self._area(text, (0, 0))
        upper = max(upper, 0)  # objects that begin above the canvas are labelled at its edge
        above = upper - tall if upper >= tall else upper
        offsets = (tall * row for row in range(1, _MAX_LABEL_ROWS))
        rows = (upper, lower - tall, lower, *(upper + offset for offset in offsets))
        choices = [(start, above), (end - wide, above), *((start, row) for row in rows)]
        areas = [self._area(text, choice) for choice in choices]
        area = next((one for one in areas if self._is_free(one)), areas[0])
        self._write(text, area, color)

    def _area(self, text: str, corner: Place) -> Area:
        """Return the area of a text at a corner, moved inside the canvas."""
        _, _, right, bottom = self._draw.textbbox((0, 0), text, font=self._font)
        wide, tall = right + 2 * self._line, bottom + self._line
        x = min(max(corner[0], 0), max(self._width - wide, 0))
        y = min(max(corner[1], 0), max(self._height - tall, 0))
        return x, y, x + wide, y + tall

    def _is_free(self, area: Area) -> bool:
        left, top, right, bottom = area
        return not any(
            left < other[2] and other[0] < right and top < other[3] and other[1] < bottom
            for other in self._written
        )

    def _write(self, text: str, area: Area, color: Color) -> None:
        self._written.append(area)
        self._draw.rectangle(area, fill=color)
        luma = sum(part * weight for part, weight in zip(color, _LUMA_WEIGHTS, strict=True))
        ink = BLACK if luma > _BRIGHT_LUMA else WHITE
        self._draw.text((area[0] + self._line, area[1]), text, fill=ink, font=self._font)


MIN_DRAWING_PIXELS = 640  # longer side of a drawing; smaller photographs are enlarged
MAX_SHOWN_PIXELS = 1024  # longer side of a drawing in a notebook
MASK_OPACITY = 0.55
MIN_NAMED_SHARE = 0.005  # smallest share of a mask for which its class is listed
LEGEND_BACKGROUND = (32, 32, 32)


def class_color(number: int) -> Color:
    """Return a color for a class. Consecutive classes get very different hues."""
    red, green, blue = hls_to_rgb((150 + number * 137.5) % 360 / 360, 0.45, 0.75)
    return round(red * 255), round(green * 255), round(blue * 255)


def draw_results(found: Found, photograph: Any) -> Image.Image:
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
        words = f"{box.name} {format_score(box.score)}"
        pen.name(words, _label_corners(box), class_color(box.number))
    return canvas


def drawing_as_png(found: Found, photograph: Any) -> bytes:
    """Return the drawing of all results as a PNG file, at most MAX_SHOWN_PIXELS wide and high."""
    drawing, file = draw_results(found, photograph), io.BytesIO()
    drawing.thumbnail((MAX_SHOWN_PIXELS, MAX_SHOWN_PIXELS))
    drawing.save(file, "png")
    return file.getvalue()


def _draw_box(pen: Pen, box: Box) -> None:
    color = class_color(box.number)
    if box.turned:
        pen.outline(box.points, color)
    else:
        pen.rectangle(box.corners, color)
        pen.points(box.points, box.edges, color)


def _label_corners(box: Box) -> Corners:
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
    lines = [(f"{one.name} {format_score(one.score)}", LEGEND_BACKGROUND) for one in found.classes]
    for mask in found.masks if not found.boxes else ():
        shares = (one for one in mask.shares if one.number or not mask.background)
        named = [one for one in shares if one.share >= MIN_NAMED_SHARE]
        lines += [(f"{one.name} {one.share:.0%}", _mask_color(mask, one.number)) for one in named]
    return lines
