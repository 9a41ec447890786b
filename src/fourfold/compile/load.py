"""Reads a model as the options want it: its shapes, its operators, its inputs of pixels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fourfold.compile.pixel_inputs import byte_sizes, find_pictures, real_shapes
from fourfold.formats import Model, read_model
from fourfold.graph import Graph
from fourfold.options import CompileOptions
from fourfold.pixels import Pixels
from fourfold.rewrite.take_pixels import Pictures, take_pixels
from fourfold.types import Shape


@dataclass(frozen=True)
class LoadedModel:
    """A model that was read, and those of its inputs that come as bytes: the model itself still
    has floats there.
    """

    model: Model
    pictures: Pictures

    @property
    def graph(self) -> Graph:
        """The main graph, for bytes."""
        return take_pixels(self.model.main, self.pictures)

    @property
    def open_sizes(self) -> tuple[Shape, ...]:
        """`Model.open_sizes`, for bytes."""
        pairs = zip(self.model.main.arguments, self.model.open_sizes, strict=False)
        return tuple(byte_sizes(sizes, self.pictures.get(value)) for value, sizes in pairs)

    @property
    def pixels(self) -> dict[str, str]:
        """In words what bytes hold, by the caller's names of the inputs."""
        names = zip(self.model.input_names, self.model.main.arguments, strict=True)
        return {name: str(self.pictures[value]) for name, value in names if value in self.pictures}


def load_model(model: str | bytes, options: CompileOptions, foreign: bool = False) -> LoadedModel:
    """The model in the shapes of the options, which are those that the caller sees.

    With `foreign`, what no rule converts becomes a node that stands for it, and is no error.
    """

    def read(shapes: Mapping[str, Shape]) -> Model:
        return read_model(
            model,
            shapes,
            foreign=foreign,
            quantized=options.quantized,
            follow=options.follow_batch,
        )

    shapes, pixels = options.shapes, options.pixels
    if shapes and pixels is not None:
        if isinstance(pixels, Pixels):
            pixels = _by_input(read({}), pixels)
        shapes = real_shapes(shapes, pixels)
    found = read(shapes)
    return LoadedModel(found, find_pictures(found, pixels))


def _by_input(model: Model, pixels: Pixels) -> dict[str, Pixels]:
    """By the name of the input that they belong to."""
    values = find_pictures(model, pixels)
    names = zip(model.input_names, model.main.arguments, strict=True)
    return {name: values[value] for name, value in names if value in values}
