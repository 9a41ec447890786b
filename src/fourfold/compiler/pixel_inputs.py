"""Inputs that take the bytes of pictures, and the shapes of pictures and model inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from fourfold.compiler.rewrite.take_pixels import Pictures
from fourfold.errors import InputError, nearest
from fourfold.formats import Model
from fourfold.graph import Graph
from fourfold.processing.pixels import AUTO, Pixels, PixelsOption, metadata_pixels
from fourfold.processing.pixels.colors import describe_frames
from fourfold.processing.pixels.pixels import channels_first, height_and_width
from fourfold.types import OPEN, DType, Quantization, Shape, TensorType

_IMAGE_RANK = 4
_BYTES = (DType.U8, DType.I8)


class InputSizes(NamedTuple):
    """The shape of an input, and the same shape with -1 for sizes that the model leaves open; () if
    it leaves none open.
    """

    shape: Shape
    left_open: Shape = ()

    @staticmethod
    def channels_first(channels: int) -> InputSizes:
        """Return the sizes of a channels-first picture of unknown size."""
        return InputSizes((1, channels, OPEN, OPEN))

    @staticmethod
    def channels_last(channels: int) -> InputSizes:
        return InputSizes((1, OPEN, OPEN, channels))

    @property
    def admitted(self) -> bool:
        """True if the model accepts this shape."""
        pairs = zip(self.left_open, self.shape, strict=False)
        return all(own in (OPEN, size) for own, size in pairs)


def find_pictures(model: Model, option: PixelsOption | None) -> Pictures:
    """Return the model's input values that take bytes. Raises InputError if one cannot."""
    if option is None:
        return {}
    values = dict(zip(model.input_names, model.main.arguments, strict=True))
    if option == AUTO:
        return _by_metadata(model)
    named = {_only(model.main, values, option): option} if isinstance(option, Pixels) else option
    for name, pixels in named.items():
        if name not in values:
            what, why = f"the model has no input {name!r}", f"its inputs are {list(values)}"
            raise InputError(what, why, nearest(name, values))
        _check(model.main, name, values[name], pixels)
    return {values[name]: pixels for name, pixels in named.items()}


def _by_metadata(model: Model) -> Pictures:
    """Return float images whose scaling is in the metadata. Raises InputError if there is none."""
    graph, scalings = model.main, metadata_pixels(model.metadata.inputs)
    pictures = {
        value: scalings[index]
        for index, value in enumerate(graph.arguments)
        if index in scalings
        and _fits(graph.types[value], scalings[index])
        and not graph.is_output(value)
    }
    if not pictures:
        types = ", ".join(f"{name}: {graph.types[name]}" for name in graph.arguments)
        what, why = (
            "pixels='auto' finds no picture",
            f"the metadata has no mean and std for any of {types}",
        )
        fix = "pass a fourfold.Pixels, or unscaled bytes if the model takes bytes"
        raise InputError(what, why, fix)
    return pictures


def _only(graph: Graph, values: Mapping[str, str], pixels: Pixels) -> str:
    """Return the name of the only input that could be such a picture, or of the only input."""
    candidates = [name for name, value in values.items() if _fits(graph.types[value], pixels)]
    if len(candidates) != 1 and len(values) != 1:
        count = "no input" if not candidates else f"{len(candidates)} inputs"
        what = f"pixels were passed without a name, and {count} of the model could match"
        types = ", ".join(f"{name}: {graph.types[value]}" for name, value in values.items())
        fix = "pass a dict by name: pixels={'image': fourfold.Pixels(...)}"
        raise InputError(what, f"its inputs are {types}", fix)
    return candidates[0] if candidates else next(iter(values))


def _fits(type_: TensorType, pixels: Pixels) -> bool:
    """Return whether an input has the channels of the pixels, and takes floats, or bytes that need
    a conversion.
    """
    image = type_.rank == _IMAGE_RANK and pixels.channels in (type_.shape[-1], type_.shape[1])
    return image and (type_.dtype is DType.F32 or (type_.dtype in _BYTES and not pixels.is_plain))


def _check(graph: Graph, name: str, value: str, pixels: Pixels) -> None:
    type_, what = graph.types[value], f"input {name!r} cannot take pixels"
    if type_.dtype in _BYTES:
        _check_bytes(type_, graph.quantization.get(value), pixels, what)
    elif type_.dtype is not DType.F32 or type_.rank != _IMAGE_RANK:
        why = f"it is {type_}, and a picture is f32[batch,height,width,channels]"
        raise InputError(what, why, "pass such an input as an array, without pixels")
    if not _fits(type_, pixels):
        why = f"it has {type_.channels} channels, and pixels in {pixels.order} order have "
        fix = "use order='gray' for one channel, and 'rgb', 'bgr', 'rgba' or 'bgra' for three"
        raise InputError(what, f"{why}{pixels.channels}", fix)
    if graph.is_output(value):
        raise InputError(what, "it is also an output", "pass it as floats, without pixels")


def _check_bytes(type_: TensorType, grid: Quantization | None, pixels: Pixels, what: str) -> None:
    """Check pixels for an input that takes bytes: it scales them itself, so only their layout may
    be set.
    """
    why = f"it already takes {type_.dtype.value}{_stands_for(grid)}"
    if pixels.is_plain:
        more = "" if type_.dtype is DType.U8 else ", as (bytes - 128).astype(np.int8)"
        raise InputError(what, why, f"pass the bytes{more or ' as they are'}, without pixels")
    if (pixels.mean, pixels.std) != (0.0, 1.0):
        raise InputError(what, why, "leave mean= and std= of the pixels out")


def _stands_for(grid: Quantization | None) -> str:
    if grid is None:
        return ""
    zero = grid.zero_point[0]
    return f", each for (number {'-' if zero >= 0 else '+'} {abs(zero)}) * {grid.scale[0]:g}"


def real_shapes(
    shapes: Mapping[str, Shape], named: Mapping[str, Pixels], own: Mapping[str, InputSizes]
) -> dict[str, Shape]:
    """Return the shapes of the model's inputs if a caller passes pictures of these shapes."""
    result = dict(shapes)
    for name, pixels in named.items():
        shape = tuple(result.pop(name, ()))
        frame = pixels.size_of(shape)
        if shape and (frame is None or pixels.size not in (None, frame)):
            sizes = "" if pixels.size is None else f" of size {pixels.size}"
            what = f"input {name!r} cannot have the shape {list(shape)}"
            why = f"its pixels are {pixels.order}{sizes}: {describe_frames(pixels.order)}"
            raise InputError(what, why, "change the shape, or the pixels")
        if name in own and (shape or pixels.into):
            model_shape = _model_shape(pixels, shape, own[name])
            result |= {} if model_shape == own[name].shape else {name: model_shape}
    return result


def _model_shape(pixels: Pixels, shape: Shape, own: InputSizes) -> Shape:
    """Return the shape of the model's input for frames of this shape; () means any."""
    batch, size = shape[0] if shape else own.shape[0], pixels.size_of(shape)
    if pixels.fit is not None or size is None:
        size = pixels.into or height_and_width(own.shape, pixels.channels)
    first = channels_first(own.left_open or own.shape, pixels.channels)
    return (batch, pixels.channels, *size) if first else (batch, *size, pixels.channels)


def frame_sizes(own: InputSizes, pixels: Pixels | None) -> Shape:
    """Return the sizes of an input with -1 for open ones, as a caller who passes frames sees them;
    () if none is open.
    """
    if pixels is None:
        return own.left_open
    batch = (own.left_open or own.shape)[0]
    if pixels.fit is None:
        if not own.left_open:
            return ()
        height, width = height_and_width(own.left_open, pixels.channels)
    elif pixels.size is None:
        height = width = OPEN
    elif batch == OPEN:
        height, width = pixels.size
    else:
        return ()
    shape = list(pixels.frame_shape(batch, (max(height, 0), width)))
    shape[1] = OPEN if height == OPEN else shape[1]
    return tuple(shape)
