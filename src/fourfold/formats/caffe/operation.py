"""Operation: one layer during conversion, with its values, settings and parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fourfold.formats.axes import axis_of, require_images, to_channels_last
from fourfold.formats.caffe.net import Layer
from fourfold.formats.caffe.record import Record
from fourfold.formats.operator_nodes import PositionalOperator
from fourfold.formats.rule_table import Unconvertible, register
from fourfold.types import Shape


@dataclass(frozen=True)
class Operation(PositionalOperator):
    """The argument of a convert function; `own` has the input shapes as stored in the file."""

    layer: Layer
    own: tuple[Shape, ...] = ()

    def settings(self, name: str) -> Record:
        return self.layer.settings.record(name)

    def image(self) -> str:
        """Return the first input as [N,H,W,C]."""
        require_images(self, self.input())
        return to_channels_last(self, self.input())

    def own_shape(self, index: int) -> Shape:
        return self.own[index] if self.own else self.input_type(index).shape

    def axis(self, number: int, index: int = 0) -> int:
        """Return a non-negative axis of an input; negative ones count from the end."""
        return axis_of(number, self.input_type(index).rank)

    def blob(self, index: int, what: str) -> np.ndarray:
        """Return a trained parameter by its index."""
        if index >= len(self.layer.blobs):
            raise ValueError(f"the weights file has no {what} for this layer")
        return self.layer.blobs[index]

    def parameter(self, index: int, what: str, shape: Shape) -> np.ndarray:
        """Return a trained parameter reshaped; old files store extra axes of size one."""
        array = self.blob(index, what)
        if array.size != np.prod(shape, dtype=np.int64):
            raise ValueError(f"its {what} is {list(array.shape)}, expected {list(shape)}")
        return array.reshape(shape)

    def along(self, array: np.ndarray, axis: int, part: str) -> str:
        """Add a parameter as a constant that broadcasts over the first input from `axis` on."""
        rank = self.input_type().rank
        after = rank - axis - array.ndim
        if after < 0:
            raise ValueError(f"{list(array.shape)} does not fit {rank} axes from axis {axis} on")
        return self.add_constant(array.reshape(*array.shape, *[1] * after), part)

    def single(self) -> None:
        """Refuse layers with more than one output."""
        if len(self.outputs) != 1:
            raise Unconvertible(f"it has {len(self.outputs)} outputs; only one is supported")


Convert = Callable[[Operation], None]
RULES: dict[str, Convert] = {}


def converts(*types: str) -> Callable[[Convert], Convert]:
    """Register a function for layer types; its docstring is shown to users."""
    return register(RULES, types)
