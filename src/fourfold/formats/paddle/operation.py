"""One operator while it is converted: its values and attributes, and how it adds nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from fourfold.formats.operator_nodes import OperatorNodes
from fourfold.formats.paddle.records import OperatorRecord
from fourfold.formats.paddle.schema import ELEMENTS, NAMED_ELEMENTS
from fourfold.formats.refusal import Unconvertible
from fourfold.types import DType, Shape, TensorType

LONGEST_LIST = 4096  # of numbers that say how an operator works


@dataclass(frozen=True)
class Operation(OperatorNodes):
    """What a convert function sees. `values` are those of the parameters that it reads, `own` the
    shapes that values have in the file where the caller has changed the batch.
    """

    record: OperatorRecord
    values: Mapping[str, tuple[str, ...]]
    own: Mapping[str, Shape] = field(default_factory=dict)

    def input(self, *parameters: str) -> str:
        """The value of a parameter, of the first of these that is there."""
        name = self.optional(*parameters)
        if name is None:
            raise ValueError(f"it has no {' or '.join(parameters)}")
        return name

    def optional(self, *parameters: str) -> str | None:
        for parameter in parameters:
            if self.values.get(parameter):
                return self.values[parameter][0]
        return None

    def all(self, parameter: str) -> tuple[str, ...]:
        return self.values.get(parameter, ())

    def input_type(self, *parameters: str) -> TensorType:
        return self.type_of(self.input(*parameters))

    def own_shape(self, value: str) -> Shape:
        return self.own.get(value, self.type_of(value).shape)

    def integer(self, name: str, default: int = 0) -> int:
        found = self.record.attributes.get(name, default)
        if not isinstance(found, int):
            raise ValueError(f"its '{name}' is {found!r}, and not a whole number")
        return found

    def number(self, name: str, default: float = 0.0) -> float:
        found = self.record.attributes.get(name, default)
        if not isinstance(found, int | float):
            raise ValueError(f"its '{name}' is {found!r}, and not a number")
        return float(found)

    def flag(self, name: str, default: bool = False) -> bool:
        return bool(self.integer(name, default))

    def text(self, name: str, default: str = "") -> str:
        found = self.record.attributes.get(name, default)
        if not isinstance(found, str):
            raise ValueError(f"its '{name}' is {found!r}, and not a text")
        return found

    def integers(self, name: str) -> tuple[int, ...]:
        """A list of whole numbers; a single one counts as a list of one."""
        found = self.record.attributes.get(name, ())
        items = found if isinstance(found, tuple) else (found,)
        if len(items) > LONGEST_LIST or not all(isinstance(item, int) for item in items):
            raise ValueError(f"its '{name}' is no short list of whole numbers")
        return tuple(int(item) for item in items)

    def numbers(self, name: str) -> tuple[float, ...]:
        found = self.record.attributes.get(name, ())
        items = found if isinstance(found, tuple) else (found,)
        if len(items) > LONGEST_LIST or not all(isinstance(item, int | float) for item in items):
            raise ValueError(f"its '{name}' is no short list of numbers")
        return tuple(float(item) for item in items)

    def pair(self, name: str, default: int | None = None) -> tuple[int, int]:
        found = self.integers(name)
        if not found and default is not None:
            return default, default
        if len(found) != 2:
            raise ValueError(f"its '{name}' has {len(found)} numbers, not 2")
        return found[0], found[1]

    def dtype(self, name: str) -> DType | None:
        """An element type by its number or its name; None where it is not known or not set."""
        found = self.record.attributes.get(name)
        if isinstance(found, str):
            return NAMED_ELEMENTS.get(found)
        return ELEMENTS.get(found) if isinstance(found, int) else None

    def constant(self, value: str) -> np.ndarray:
        """A value that must be known now, such as a shape."""
        array = self.known(value)
        if array is None:
            raise Unconvertible(f"'{value}' is computed at run time; it must be a constant")
        if array.size > LONGEST_LIST:
            raise ValueError(f"'{value}' is no short list of numbers")
        return array

    def sizes(self, name: str, *parameters: str) -> tuple[int, ...]:
        """Whole numbers from values, one list or one number each, else from an attribute."""
        for parameter in parameters:
            values = self.all(parameter)
            if values:
                arrays = [self.constant(value) for value in values[:LONGEST_LIST]]
                if any(array.dtype.kind not in "iu" for array in arrays):
                    raise ValueError(f"its {parameter} holds other things than whole numbers")
                return tuple(int(number) for array in arrays for number in array.reshape(-1))
        return self.integers(name)

    def size(self, name: str, parameter: str, default: int) -> int:
        """One whole number."""
        if not self.all(parameter) and name not in self.record.attributes:
            return default
        found = self.sizes(name, parameter)
        if len(found) != 1:
            raise ValueError(f"its '{name}' has {len(found)} numbers, not 1")
        return found[0]

    def factor(self, name: str, parameter: str, default: float) -> float:
        """One number, from a value or an attribute."""
        value = self.optional(parameter)
        if value is None:
            return self.number(name, default)
        array = self.constant(value)
        if array.size != 1 or array.dtype.kind not in "fiu":
            raise ValueError(f"its {parameter} is not one number")
        return float(array.reshape(()))
