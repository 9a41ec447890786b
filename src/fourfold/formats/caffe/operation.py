"""One layer while it is converted: its values, settings and parameters, and how it adds nodes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fourfold.formats.axes import axis_of
from fourfold.formats.caffe.net import Layer
from fourfold.formats.caffe.record import Record
from fourfold.formats.channels_first import require_images, to_channels_last
from fourfold.formats.positional_operator import PositionalOperator
from fourfold.formats.refusal import Unconvertible
from fourfold.types import Shape


@dataclass(frozen=True)
class Operation(PositionalOperator):
    """What a convert function sees; `own` are the shapes of its inputs as the file has them."""

    layer: Layer
    own: tuple[Shape, ...] = ()

    def settings(self, name: str) -> Record:
        return self.layer.settings.record(name)

    def image(self) -> str:
        """The first input as [N,H,W,C]."""
        require_images(self, self.input())
        return to_channels_last(self, self.input())

    def own_shape(self, index: int) -> Shape:
        return self.own[index] if self.own else self.input_type(index).shape

    def axis(self, number: int, index: int = 0) -> int:
        """An axis of an input; negative ones count from the end."""
        return axis_of(number, self.input_type(index).rank)

    def blob(self, index: int, what: str) -> np.ndarray:
        """A parameter that training has left in the weights."""
        if index >= len(self.layer.blobs):
            raise ValueError(f"the weights have no {what} for this layer")
        return self.layer.blobs[index]

    def parameter(self, index: int, what: str, shape: Shape) -> np.ndarray:
        """The same in a shape; files of old have more axes, of one element each."""
        array = self.blob(index, what)
        if array.size != np.prod(shape, dtype=np.int64):
            raise ValueError(f"its {what} is {list(array.shape)}, and {list(shape)} is needed")
        return array.reshape(shape)

    def along(self, array: np.ndarray, axis: int, part: str) -> str:
        """A parameter that covers the axes of the first input from `axis` on, as a constant."""
        rank = self.input_type().rank
        after = rank - axis - array.ndim
        if after < 0:
            raise ValueError(f"{list(array.shape)} does not fit from axis {axis} of {rank} axes on")
        return self.add_constant(array.reshape(*array.shape, *[1] * after), part)

    def single(self) -> None:
        """Refuses more than one top."""
        if len(self.outputs) != 1:
            raise Unconvertible(f"it has {len(self.outputs)} tops, and one is supported")
