"""Pen: lines, points and words on a canvas, as large as fits its size."""

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

Colour = tuple[int, int, int]
Place = tuple[float, float]  # along and down, in pixels
Area = tuple[float, float, float, float]  # left, top, right, bottom, in pixels
WHITE, BLACK = (255, 255, 255), (0, 0, 0)
MANY = 60  # points: beyond so many each is small
_BRIGHTNESS = (0.299, 0.587, 0.114)  # of red, green and blue
_BRIGHT = 125
_ROWS = 8  # lines of words below the corner of a box that are tried


class Pen:
    """Draws on a canvas; it knows where it wrote, so that words do not hide each other."""

    def __init__(self, canvas: Image.Image) -> None:
        self._width, self._height = canvas.size
        self._draw = ImageDraw.Draw(canvas)
        self._line = max(2, round(max(canvas.size) / 300))
        self._font: ImageFont.ImageFont | ImageFont.FreeTypeFont
        self._font = ImageFont.load_default(max(14, round(max(canvas.size) / 45)))
        self._written: list[Area] = []

    def _at(self, y: float, x: float) -> Place:
        return x * self._width, y * self._height

    def rectangle(self, corners: Corners, colour: Colour) -> None:
        top, left, bottom, right = corners
        ends = [self._at(top, left), self._at(max(top, bottom), max(left, right))]
        self._draw.rectangle(ends, outline=colour, width=self._line)

    def outline(self, points: Sequence[KeyPoint], colour: Colour) -> None:
        """From each point to the next, and from the last to the first."""
        places = [self._at(one.y, one.x) for one in points]
        self._draw.polygon(places, outline=colour, width=self._line)

    def points(
        self, points: Sequence[KeyPoint | None], edges: tuple[Edge, ...], colour: Colour
    ) -> None:
        """Points that are seen, and lines between those of them that belong together."""
        places = [None if one is None else self._at(one.y, one.x) for one in points]
        self._joints(places, edges, colour)
        radius = self._line * (0.6 if len(places) > MANY else 1.5)
        for place in places:
            if place is not None:
                x, y = place
                corners = [x - radius, y - radius, x + radius, y + radius]
                self._draw.ellipse(corners, fill=colour, outline=WHITE if radius > 2 else None)

    def _joints(
        self, places: Sequence[Place | None], edges: tuple[Edge, ...], colour: Colour
    ) -> None:
        """Lines with a white border, unless there are too many: skin and walls are bright."""
        pairs = [(places[start], places[end]) for start, end in edges]
        lines = [(first, second) for first, second in pairs if first and second]
        bordered = [] if len(places) > MANY else [(WHITE, 2 * self._line + 1)]
        for ink, width in (*bordered, (colour, self._line + bool(bordered))):
            for line in lines:
                self._draw.line(line, fill=ink, width=width)

    def legend(self, lines: Sequence[tuple[str, Colour]]) -> None:
        """Words in the upper left corner, a line each, on its colour."""
        y = float(self._line)
        for text, colour in lines:
            area = self._area(text, (self._line, y))
            self._write(text, area, colour)
            y = area[3]

    def name(self, text: str, corners: Corners, colour: Colour) -> None:
        """The name of what lies at the corners: above them, or where it hides no other."""
        top, left, bottom, right = corners
        (start, upper), (end, lower) = self._at(top, left), self._at(bottom, right)
        _, _, wide, tall = self._area(text, (0, 0))
        upper = max(upper, 0)  # what begins above the canvas is named at its edge
        above = upper - tall if upper >= tall else upper
        rows = (upper, lower - tall, lower, *(upper + tall * row for row in range(1, _ROWS)))
        choices = [(start, above), (end - wide, above), *((start, row) for row in rows)]
        areas = [self._area(text, choice) for choice in choices]
        area = next((one for one in areas if self._is_free(one)), areas[0])
        self._write(text, area, colour)

    def _area(self, text: str, corner: Place) -> Area:
        """What words at a corner cover, inside of the canvas."""
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

    def _write(self, text: str, area: Area, colour: Colour) -> None:
        self._written.append(area)
        self._draw.rectangle(area, fill=colour)
        bright = sum(part * by for part, by in zip(colour, _BRIGHTNESS, strict=True)) > _BRIGHT
        ink = BLACK if bright else WHITE
        self._draw.text((area[0] + self._line, area[1]), text, fill=ink, font=self._font)
