"""One layer while it is converted: its values, settings and parameters, and how it adds nodes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fourfold.formats.caffe.net import Layer
from fourfold.formats.caffe.record import Record
from fourfold.formats.operator_nodes import OperatorNodes
from fourfold.formats.refusal import Unconvertible
from fourfold.types import Shape, TensorType


@dataclass(frozen=True)
class Operation(OperatorNodes):
    """What a convert function sees; `own` are the shapes of its inputs as the file has them."""

    layer: Layer
    inputs: tuple[str, ...]
    own: tuple[Shape, ...] = ()

    def settings(self, name: str) -> Record:
        return self.layer.settings.record(name)

    def input(self, index: int = 0) -> str:
        if index >= len(self.inputs):
            raise ValueError(f"it has {len(self.inputs)} bottoms, and needs {index + 1}")
        return self.inputs[index]

    def input_type(self, index: int = 0) -> TensorType:
        return self.type_of(self.input(index))

    def own_shape(self, index: int) -> Shape:
        return self.own[index] if self.own else self.input_type(index).shape

    def axis(self, number: int, index: int = 0) -> int:
        """An axis of an input; negative ones count from the end."""
        rank = self.input_type(index).rank
        if not -rank <= number < rank:
            raise ValueError(f"axis {number} is not one of the {rank} axes of its input")
        return number % rank

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
        return self.constant(array.reshape(*array.shape, *[1] * after), part)

    def single(self) -> None:
        """Refuses more than one top."""
        if len(self.outputs) != 1:
            raise Unconvertible(f"it has {len(self.outputs)} tops, and one is supported")
