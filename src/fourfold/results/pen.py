"""Pen: draws lines, points and labels on a canvas, scaled to its size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fourfold.lazy import lazy_import
from fourfold.results.found import Corners, Edge, KeyPoint

if TYPE_CHECKING:
    from PIL import Image, ImageDraw, ImageFont
else:
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
