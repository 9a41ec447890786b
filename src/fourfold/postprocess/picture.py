"""The size of the picture that a model sees, from the shapes of its inputs."""

from __future__ import annotations

from fourfold.errors import InputError
from fourfold.formats import Model
from fourfold.processing.anchors import Size
from fourfold.types import Shape

_CHANNELS = (1, 3, 4)


def model_picture_size(model: Model, given: Size | None) -> Size:
    """Height and width as the caller gave them, or of the only input that is a picture."""
    if given is not None:
        return given
    shapes = {name: model.main.types[name].shape for name in model.main.arguments}
    found = [size for shape in shapes.values() if (size := _size(shape)) is not None]
    if len(found) != 1:
        what = "the size of the picture that the model sees is not known"
        why = f"{len(found)} of its inputs could be pictures: {shapes}"
        raise InputError(what, why, "pass size=(height, width) to the post-processing")
    return found[0]


def _size(shape: Shape) -> Size | None:
    if len(shape) != 4:
        return None
    if shape[3] in _CHANNELS:
        return shape[1], shape[2]
    return (shape[2], shape[3]) if shape[1] in _CHANNELS else None
