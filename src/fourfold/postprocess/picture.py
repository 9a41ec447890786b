"""The size of a model's input picture, from the shapes of its inputs."""

from __future__ import annotations

from fourfold.errors import InputError
from fourfold.formats import Model
from fourfold.processing.anchors import Size
from fourfold.types import Shape

_CHANNELS = (1, 3, 4)


def model_picture_size(model: Model, size: Size | None) -> Size:
    """Return height and width as the caller passed them, or of the only input that is a picture."""
    if size is not None:
        return size
    shapes = {name: model.main.types[name].shape for name in model.main.arguments}
    sizes = [pair for shape in shapes.values() if (pair := _size(shape)) is not None]
    if len(sizes) != 1:
        what = "the size of the model's input picture is unknown"
        why = f"{len(sizes)} of its inputs could be pictures: {shapes}"
        raise InputError(what, why, "pass size=(height, width) to the post-processing option")
    return sizes[0]


def _size(shape: Shape) -> Size | None:
    if len(shape) != 4:
        return None
    if shape[3] in _CHANNELS:
        return shape[1], shape[2]
    return (shape[2], shape[3]) if shape[1] in _CHANNELS else None
