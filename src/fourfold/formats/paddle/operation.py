"""Operation: one operator during conversion, with its values and attributes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from fourfold.formats.operator_nodes import OperatorNodes
from fourfold.formats.paddle.records import OperatorRecord
from fourfold.formats.paddle.schema import ELEMENTS, NAMED_ELEMENTS
from fourfold.formats.rule_table import Unconvertible
from fourfold.types import DType, Shape, TensorType

MAX_LIST_LENGTH = 4096  # elements of a list that configures an operator


@dataclass(frozen=True)
class Operation(OperatorNodes):
    """The argument of a convert function.

    `values` maps its parameters to values. If the caller changed the batch, `own` has the shapes of
    values in the file.
    """

    record: OperatorRecord
    values: Mapping[str, tuple[str, ...]]
    own: Mapping[str, Shape] = field(default_factory=dict)

    def input(self, *parameters: str) -> str:
        """Return the value of the first of these parameters that is present."""
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
        value = self.record.attributes.get(name, default)
        if not isinstance(value, int):
            raise ValueError(f"its '{name}' is {value!r}, not an integer")
        return value

    def number(self, name: str, default: float = 0.0) -> float:
        value = self.record.attributes.get(name, default)
        if not isinstance(value, int | float):
            raise ValueError(f"its '{name}' is {value!r}, not a number")
        return float(value)

    def flag(self, name: str, default: bool = False) -> bool:
        return bool(self.integer(name, default))

    def text(self, name: str, default: str = "") -> str:
        value = self.record.attributes.get(name, default)
        if not isinstance(value, str):
            raise ValueError(f"its '{name}' is {value!r}, not a string")
        return value

    def integers(self, name: str) -> tuple[int, ...]:
        """Return a list of integers; a single one counts as a list of one."""
        value = self.record.attributes.get(name, ())
        items = value if isinstance(value, tuple) else (value,)
        if len(items) > MAX_LIST_LENGTH or not all(isinstance(item, int) for item in items):
            raise ValueError(f"its '{name}' is not a short list of integers")
        return tuple(int(item) for item in items)

    def numbers(self, name: str) -> tuple[float, ...]:
        value = self.record.attributes.get(name, ())
        items = value if isinstance(value, tuple) else (value,)
        if len(items) > MAX_LIST_LENGTH or not all(isinstance(item, int | float) for item in items):
            raise ValueError(f"its '{name}' is not a short list of numbers")
        return tuple(float(item) for item in items)

    def pair(self, name: str, default: int | None = None) -> tuple[int, int]:
        values = self.integers(name)
        if not values and default is not None:
            return default, default
        if len(values) != 2:
            raise ValueError(f"its '{name}' has {len(values)} numbers, not 2")
        return values[0], values[1]

    def dtype(self, name: str) -> DType | None:
        """Return an element type by its number or name; None if it is unknown or not set."""
        value = self.record.attributes.get(name)
        if isinstance(value, str):
            return NAMED_ELEMENTS.get(value)
        return ELEMENTS.get(value) if isinstance(value, int) else None

    def constant(self, value: str) -> np.ndarray:
        """Return the array of a value that must be constant, such as a shape."""
        array = self.known(value)
        if array is None:
            raise Unconvertible(f"'{value}' is computed at run time; it must be a constant")
        if array.size > MAX_LIST_LENGTH:
            raise ValueError(f"'{value}' is not a short list of numbers")
        return array

    def sizes(self, name: str, *parameters: str) -> tuple[int, ...]:
        """Return integers from inputs (a list or one number each), else from an attribute."""
        for parameter in parameters:
            values = self.all(parameter)
            if values:
                arrays = [self.constant(value) for value in values[:MAX_LIST_LENGTH]]
                if any(array.dtype.kind not in "iu" for array in arrays):
                    raise ValueError(f"its {parameter} is not of an integer type")
                return tuple(int(number) for array in arrays for number in array.reshape(-1))
        return self.integers(name)

    def size(self, name: str, parameter: str, default: int) -> int:
        """Return one integer from an input or an attribute."""
        if not self.all(parameter) and name not in self.record.attributes:
            return default
        values = self.sizes(name, parameter)
        if len(values) != 1:
            raise ValueError(f"its '{name}' has {len(values)} numbers, not 1")
        return values[0]

    def factor(self, name: str, parameter: str, default: float) -> float:
        """Return one number from an input or an attribute."""
        value = self.optional(parameter)
        if value is None:
            return self.number(name, default)
        array = self.constant(value)
        if array.size != 1 or array.dtype.kind not in "fiu":
            raise ValueError(f"its {parameter} is not one number")
        return float(array.reshape(()))


Convert = Callable[[Operation], None]


@dataclass(frozen=True)
class Rule:
    """A convert function, and the output parameters it writes; others are only for training."""

    convert: Convert
    outputs: tuple[str, ...]


RULES: dict[str, Rule] = {}


def converts(*types: str, gives: tuple[str, ...] = ("Out",)) -> Callable[[Convert], Convert]:
    """Register a function for operator types; its docstring is shown to users."""

    def register(convert: Convert) -> Convert:
        for name in types:
            RULES[name] = Rule(convert, gives)
        return convert

    return register
