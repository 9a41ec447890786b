"""Reads a model as the options want it: shapes, operators, pixels, post-processing, outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

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
    from fourfold.processing import option as processing
else:  # few models are opened with it
    postprocess = lazy_import("fourfold.compiler.postprocess")
    processing = lazy_import("fourfold.processing.option")

log = Log("compiler")
ReadShaped = Callable[[Mapping[str, Shape]], Model]


@dataclass(frozen=True)
class LoadedModel:
    """A model that was read, and those of its inputs that come as bytes: the model itself still
    has floats there. `pictures` say what size frames have, `asked` what the caller said of them.
    `postprocess` says in words what is made of its outputs: the nodes for that are part of the
    model.
    """

    model: Model
    pictures: Pictures
    asked: Pictures
    postprocess: str = ""

    @property
    def graph(self) -> Graph:
        """The main graph, for bytes."""
        return take_pixels(self.model.main, self.pictures)

    @property
    def open_sizes(self) -> tuple[Shape, ...]:
        """`Model.open_sizes`, for bytes."""
        if not self.model.open_sizes and not self.pictures:
            return ()
        values = self.model.main.arguments
        pairs = zip(values, _input_sizes(self.model), strict=True)
        return tuple(frame_sizes(sizes, self.asked.get(value)) for value, sizes in pairs)

    @property
    def about(self) -> bytes:
        """What the model says of itself, as files keep it."""
        return encode_metadata(self.model.metadata, self.model.signatures)

    @property
    def pixels(self) -> dict[str, str]:
        """In words what bytes hold, by the caller's names of the inputs."""
        names = zip(self.model.input_names, self.model.main.arguments, strict=True)
        return {name: str(self.asked[value]) for name, value in names if value in self.asked}


def load_model(
    model: str | bytes, options: CompileOptions, variables: Literal["auto", "cpu"] = "auto"
) -> LoadedModel:
    """Read a model in the shapes of the options, which are those that the caller sees.

    An operator that no rule converts becomes a node that stands for it. `variables='cpu'` leaves
    resource variables to the CPU engine of the model's format.
    """

    def read(shapes: Mapping[str, Shape]) -> Model:
        wanted = ReadOptions(
            shapes=shapes,
            signature=options.signature,
            keep_unsupported=True,
            variables=variables,
            quantized=options.quantized,
            follow_batch=options.follow_batch,
        )
        return read_model(model, wanted)

    shapes, pixels = options.shapes, options.pixels
    found = read(shapes) if pixels is None else _read_for(read, shapes, pixels)
    made, wanted = "", options.postprocess
    if wanted is not None:
        found = postprocess.attach_postprocess(found, wanted)
        made = processing.postprocess_text(wanted)
    found = keep_outputs(found, options.outputs)
    asked = {} if pixels is None else find_pictures(found, pixels)
    return LoadedModel(found, _sized(found, asked, shapes), asked, made)


def _read_for(read: ReadShaped, shapes: Mapping[str, Shape], pixels: PixelsOption) -> Model:
    """The model in the shapes that it has where frames of these shapes come."""
    try:
        found = read({})
    except InputError as error:
        if error.open_inputs:
            return _read_open(read, shapes, pixels, error)
        raise
    own = dict(zip(found.input_names, _input_sizes(found), strict=True))
    changed = real_shapes(shapes, _by_input(found, pixels), own)
    return read(changed) if changed else found


def _read_open(
    read: ReadShaped, shapes: Mapping[str, Shape], pixels: PixelsOption, error: InputError
) -> Model:
    """The same for a model that cannot be read without shapes. Whether it has channels before rows
    is told by which of both it can have.
    """
    if not isinstance(pixels, Mapping):
        fix = (
            "say which input the pixels are for, and its size: {'x': Pixels(into=(640, 640), ...)}"
        )
        raise InputError(error.what, error.why, fix) from error
    for layout in (InputSizes.channels_first, InputSizes.channels_last):
        own = {name: layout(one.channels) for name, one in pixels.items()}
        try:
            found = read(real_shapes(shapes, pixels, own))
        except FourfoldError as refused:
            log.debug("it is not read as %s: %s: %s", own, refused.what, refused.why)
            continue
        if all(sizes.admitted for sizes in _input_sizes(found)):
            return found
    raise InputError(error.what, error.why, error.fix) from error


def _by_input(model: Model, pixels: PixelsOption) -> dict[str, Pixels]:
    """By the name of the input that they belong to."""
    values = find_pictures(model, pixels)
    names = zip(model.input_names, model.main.arguments, strict=True)
    return {name: values[value] for name, value in names if value in values}


def _input_sizes(model: Model) -> list[InputSizes]:
    """The sizes of each input."""
    graph, left_open = model.main, model.open_sizes or ((),) * len(model.main.arguments)
    pairs = zip(graph.arguments, left_open, strict=True)
    return [InputSizes(graph.types[value].shape, sizes) for value, sizes in pairs]


def _sized(model: Model, asked: Pictures, shapes: Mapping[str, Shape]) -> Pictures:
    """The same with the size of those frames that are to come: the caller's shapes tell it."""
    names = dict(zip(model.main.arguments, model.input_names, strict=True))
    found = {}
    for value, pixels in asked.items():
        size = pixels.size_of(tuple(shapes.get(names[value], ())))
        resizes = pixels.fit is not None and size is not None
        found[value] = replace(pixels, size=size) if resizes else pixels
    return found
