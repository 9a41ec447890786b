"""Reads a model with the requested shapes, pixels, postprocessing and outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from fourfold.compiler.input_ranges import input_ranges
from fourfold.compiler.outputs import keep_outputs
from fourfold.compiler.pixel_inputs import InputSizes, find_pictures, frame_sizes, real_shapes
from fourfold.compiler.rewrite.take_pixels import Pictures, take_pixels
from fourfold.errors import FourfoldError, InputError
from fourfold.formats import Model, ReadOptions, read_model
from fourfold.graph import Graph
from fourfold.graph.metadata import encode_metadata
from fourfold.options import CompileOptions
from fourfold.processing.pixels import Pixels, PixelsOption
from fourfold.support.lazy import lazy_import
from fourfold.support.log import Log
from fourfold.types import Shape

if TYPE_CHECKING:
    from fourfold.compiler import postprocess
else:  # few models are opened with it
    postprocess = lazy_import("fourfold.compiler.postprocess")

log = Log("compiler")
ReadShaped = Callable[[Mapping[str, Shape]], Model]


@dataclass(frozen=True)
class LoadedModel:
    """A model that was read. Inputs that take pixels still have the model's own type in it.

    `pictures` are the pixels options of such inputs, with the size of frames; `requested` are the
    same as the caller passed them. `postprocess` is the text form of the postprocessing, whose
    nodes are part of the model.
    """

    model: Model
    pictures: Pictures
    requested: Pictures
    postprocess: str = ""

    @property
    def graph(self) -> Graph:
        """The main graph, with pixels as inputs."""
        return take_pixels(self.model.main, self.pictures)

    @property
    def open_sizes(self) -> tuple[Shape, ...]:
        """`Model.open_sizes`, with the sizes of frames for pixels."""
        if not self.model.open_sizes and not self.pictures:
            return ()
        values = self.model.main.arguments
        pairs = zip(values, _input_sizes(self.model), strict=True)
        return tuple(frame_sizes(sizes, self.requested.get(value)) for value, sizes in pairs)

    @property
    def about(self) -> bytes:
        """Metadata and signatures, as files store them."""
        metadata = replace(self.model.metadata, input_ranges=input_ranges(self.model))
        return encode_metadata(metadata, self.model.signatures)

    @property
    def pixels(self) -> dict[str, str]:
        """Text forms of the pixels options, by input name."""
        names = zip(self.model.input_names, self.model.main.arguments, strict=True)
        return {
            name: str(self.requested[value]) for name, value in names if value in self.requested
        }


def load_model(
    model: str | bytes, options: CompileOptions, variables: Literal["auto", "cpu"] = "auto"
) -> LoadedModel:
    """Read a model in the shapes of the options, which are those that the caller sees.

    An operator that no rule converts becomes a node that stands for it. `variables='cpu'` leaves
    resource variables to the CPU engine of the model's format.
    """

    def read(shapes: Mapping[str, Shape]) -> Model:
        read_options = ReadOptions(
            shapes=shapes,
            signature=options.signature,
            keep_unsupported=True,
            variables=variables,
            quantized=options.quantized,
            follow_batch=options.follow_batch,
        )
        return read_model(model, read_options)

    shapes, pixels = options.shapes, options.pixels
    result = read(shapes) if pixels is None else _read_for(read, shapes, pixels)
    if options.postprocess is not None:
        result = postprocess.attach_postprocess(result, options.postprocess)
    result = keep_outputs(result, options.outputs)
    requested = {} if pixels is None else find_pictures(result, pixels)
    pictures = _sized(result, requested, shapes)
    return LoadedModel(result, pictures, requested, options.postprocess_text)


def _read_for(read: ReadShaped, shapes: Mapping[str, Shape], pixels: PixelsOption) -> Model:
    """Read the model in the shapes that it needs for frames of these shapes."""
    try:
        result = read({})
    except InputError as error:
        if error.open_inputs:
            return _read_open(read, shapes, pixels, error)
        raise
    own = dict(zip(result.input_names, _input_sizes(result), strict=True))
    changed = real_shapes(shapes, _by_input(result, pixels), own)
    return read(changed) if changed else result


def _read_open(
    read: ReadShaped, shapes: Mapping[str, Shape], pixels: PixelsOption, error: InputError
) -> Model:
    """Read a model with open sizes for frames. It has channels first if that can be read, else
    channels last.
    """
    if not isinstance(pixels, Mapping):
        fix = (
            "say which input the pixels are for, and its size: {'x': Pixels(into=(640, 640), ...)}"
        )
        raise InputError(error.what, error.why, fix) from error
    for layout in (InputSizes.channels_first, InputSizes.channels_last):
        own = {name: layout(one.channels) for name, one in pixels.items()}
        try:
            result = read(real_shapes(shapes, pixels, own))
        except FourfoldError as refused:
            log.debug("cannot be read with %s: %s: %s", own, refused.what, refused.why)
            continue
        if all(sizes.admitted for sizes in _input_sizes(result)):
            return result
    raise InputError(error.what, error.why, error.fix) from error


def _by_input(model: Model, pixels: PixelsOption) -> dict[str, Pixels]:
    """Return the pixels options by input name."""
    values = find_pictures(model, pixels)
    names = zip(model.input_names, model.main.arguments, strict=True)
    return {name: values[value] for name, value in names if value in values}


def _input_sizes(model: Model) -> list[InputSizes]:
    """Return the sizes of each input."""
    graph, left_open = model.main, model.open_sizes or ((),) * len(model.main.arguments)
    pairs = zip(graph.arguments, left_open, strict=True)
    return [InputSizes(graph.types[value].shape, sizes) for value, sizes in pairs]


def _sized(model: Model, requested: Pictures, shapes: Mapping[str, Shape]) -> Pictures:
    """Return the options with the size of frames, which the requested shapes determine."""
    names = dict(zip(model.main.arguments, model.input_names, strict=True))
    sized = {}
    for value, pixels in requested.items():
        size = pixels.size_of(tuple(shapes.get(names[value], ())))
        resizes = pixels.fit is not None and size is not None
        sized[value] = replace(pixels, size=size) if resizes else pixels
    return sized
