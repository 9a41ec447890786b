"""Format results as text and as plain data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from fourfold.vision.found import Box, Corners, Found, KeyPoint, KeyPoints, Mask, Size


def format_score(score: float) -> str:
    """Format a score: three decimals from 0 to 1, else four significant digits."""
    return f"{score:.3f}" if 0 <= score <= 1 else f"{score:.4g}"


def format_corners(corners: Corners, size: Size | None) -> tuple[str, ...]:
    """Format left, top, right and bottom, in pixels if the photograph's size is known."""
    top, left, bottom, right = corners
    if size is None:
        return tuple(f"{one:.3f}" for one in (left, top, right, bottom))
    tall, wide = size
    return tuple(f"{one:.0f}" for one in (left * wide, top * tall, right * wide, bottom * tall))


def result_rows(found: Found, size: Size | None) -> Iterator[tuple[str, str]]:
    """Return each result as a name and its value, then notes without a value."""
    for one in found.classes:
        yield one.name, format_score(one.score)
    for box in found.boxes:
        left, top, right, bottom = format_corners(box.corners, size)
        where = f"left {left}, top {top}, right {right}, bottom {bottom}"
        yield box.name, f"{format_score(box.score)}, {where}"
    for mask in found.masks:
        yield from ((one.name, f"{one.share:.1%} of the picture") for one in mask.shares)
    for points in found.key_points:
        yield points.name, f"{sum(points.seen)} of {len(points.points)} points seen"
    for picture in found.pictures:
        height, width, _ = picture.pixels.shape
        yield f"a picture of {width} × {height}", ""
    yield from ((note, "") for note in found.notes)
    if found.unknown:
        yield "unknown outputs", ", ".join(found.unknown)


def result_lines(found: Found, size: Size | None) -> Iterator[str]:
    """Return each result as one line of text."""
    for name, value in result_rows(found, size):
        yield f"{name}: {value}" if value else name


def results_to_data(found: Found, size: Size | None) -> dict[str, Any]:
    return {
        "classes": [asdict(one) for one in found.classes],
        "boxes": [_box(one, size) for one in found.boxes],
        "masks": [_mask(one) for one in found.masks],
        "key_points": [_key_points(one, size) for one in found.key_points],
        "pictures": [
            {"output": one.output, "shape": list(one.pixels.shape)} for one in found.pictures
        ],
        "notes": list(found.notes),
        "unknown": list(found.unknown),
    }


def _box(box: Box, size: Size | None) -> dict[str, Any]:
    data = asdict(box) | {"corners": list(box.corners)}
    data["points"] = [_point(one, size) for one in box.points]
    data["edges"] = [list(one) for one in box.edges]
    return data if size is None else {**data, "pixels": list(box.pixels(size))}


def _point(point: KeyPoint, size: Size | None) -> dict[str, Any]:
    data = asdict(point)
    return data if size is None else {**data, "pixels": [point.y * size[0], point.x * size[1]]}


def _key_points(group: KeyPoints, size: Size | None) -> dict[str, Any]:
    pairs = zip(group.points, group.seen, strict=True)
    points = [{**_point(point, size), "seen": seen} for point, seen in pairs]
    edges = [list(one) for one in group.edges]
    return {"name": group.name, "score": group.score, "points": points, "edges": edges}


def _mask(mask: Mask) -> dict[str, Any]:
    shares = [asdict(one) for one in mask.shares]
    return {"shape": list(mask.classes.shape), "corners": list(mask.corners), "shares": shares}
