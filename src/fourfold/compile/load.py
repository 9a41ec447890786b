"""Reads a model as the options want it: shapes, operators, inputs of pixels, some outputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fourfold.compile.outputs import keep_outputs
from fourfold.compile.pixel_inputs import byte_sizes, find_pictures, real_shapes
from fourfold.formats import Model, ReadOptions, read_model
from fourfold.graph import Graph
from fourfold.metadata import write_about
from fourfold.options import CompileOptions
from fourfold.pixels import Pixels, PixelsOption
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
    def about(self) -> bytes:
        """What the model says of itself, as files keep it."""
        return write_about(self.model.metadata, self.model.signatures)

    @property
    def pixels(self) -> dict[str, str]:
        """In words what bytes hold, by the caller's names of the inputs."""
        names = zip(self.model.input_names, self.model.main.arguments, strict=True)
        return {name: str(self.pictures[value]) for name, value in names if value in self.pictures}


def load_model(
    model: str | bytes, options: CompileOptions, keep_unsupported: bool = False
) -> LoadedModel:
    """The model in the shapes of the options, which are those that the caller sees.

    With `keep_unsupported`, what no rule converts becomes a node that stands for it.
    """

    def read(shapes: Mapping[str, Shape]) -> Model:
        wanted = ReadOptions(
            shapes=shapes,
            signature=options.signature,
            keep_unsupported=keep_unsupported,
            quantized=options.quantized,
            follow_batch=options.follow_batch,
        )
        return keep_outputs(read_model(model, wanted), options.outputs)

    shapes, pixels = options.shapes, options.pixels
    if shapes and pixels is not None:
        if not isinstance(pixels, Mapping):
            pixels = _by_input(read({}), pixels)
        shapes = real_shapes(shapes, pixels)
    found = read(shapes)
    return LoadedModel(found, find_pictures(found, pixels))


def _by_input(model: Model, pixels: PixelsOption) -> dict[str, Pixels]:
    """By the name of the input that they belong to."""
    values = find_pictures(model, pixels)
    names = zip(model.input_names, model.main.arguments, strict=True)
    return {name: values[value] for name, value in names if value in values}
