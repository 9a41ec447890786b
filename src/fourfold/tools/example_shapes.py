"""Example shapes, for reports on models that leave sizes of their inputs open."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from fourfold.errors import InputError
from fourfold.options import SessionOptions
from fourfold.types import Shape

Report = TypeVar("Report")


def report_with_examples(
    report: Callable[[SessionOptions], Report], options: SessionOptions
) -> tuple[Report, Mapping[str, Shape]]:
    """Return a report on a model, and the shapes that it was made for if the model leaves sizes
    open that the options do not set; {} otherwise.
    """
    try:
        return report(options), {}
    except InputError as error:
        if not error.open_inputs:
            raise
        shapes = example_shapes(error, options.shapes)
    return report(replace(options, shapes=shapes)), shapes


def example_shapes(error: InputError, stated: Mapping[str, Shape] | None) -> dict[str, Shape]:
    """Return the stated shapes, with an example for every other input whose sizes are open."""
    examples = {one.name: one.example_shape for one in error.open_inputs if -1 in one.sizes}
    return examples | dict(stated or {})


def shapes_text(shapes: Mapping[str, Shape], before: str = "") -> str:
    """Return shapes as text, such as 'x=1,3,224,224', each after the text `before`."""
    return " ".join(f"{before}{name}={','.join(map(str, one))}" for name, one in shapes.items())


def example_note(shapes: Mapping[str, Shape]) -> str:
    """Return the line of a report that says which example shapes it was made for."""
    return f"the model leaves input sizes open; this report is for {shapes_text(shapes)}"
