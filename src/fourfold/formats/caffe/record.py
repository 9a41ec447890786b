"""Record: one message of a network, with fields by name, from a text or a binary file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from fourfold.formats.caffe.schema import Enumeration, Kind, Schema
from fourfold.formats.caffe.text import TextMessage
from fourfold.formats.protobuf import Message

T = TypeVar("T")
Values = Sequence[object] | np.ndarray
_FLOAT = re.compile(r"[-+.\deE]+[fF]")  # C notation of a float
_FLAGS = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}


@dataclass(frozen=True)
class Record:
    """The fields of one message.

    A missing field has the default of the accessor; if a single field occurs several times, the
    last one counts.
    """

    values: Mapping[str, Values] = field(default_factory=dict)

    def has(self, name: str) -> bool:
        return bool(len(self.values.get(name, ())))

    def _all(self, name: str, kind: type[T] | tuple[type[T], ...]) -> Iterator[T]:
        for value in self.values.get(name, ()):
            if not isinstance(value, kind):
                raise ValueError(f"field '{name}' cannot be {value!r}")
            yield value

    def _last(self, name: str, kind: type[T] | tuple[type[T], ...], default: T) -> T:
        values = [*self._all(name, kind)]
        return values[-1] if values else default

    def integer(self, name: str, default: int = 0) -> int:
        return self._last(name, int, default)

    def number(self, name: str, default: float = 0.0) -> float:
        return float(self._last(name, (int, float), default))

    def flag(self, name: str, default: bool = False) -> bool:
        return self._last(name, bool, default)

    def text(self, name: str, default: str = "") -> str:
        return self._last(name, str, default)

    def texts(self, name: str) -> tuple[str, ...]:
        return tuple(self._all(name, str))

    def integers(self, name: str) -> tuple[int, ...]:
        return tuple(self._all(name, int))

    def numbers(self, name: str) -> tuple[float, ...]:
        return tuple(float(number) for number in self._all(name, (int, float)))

    def array(self, name: str) -> np.ndarray:
        """Return a long list of numbers; a view for binary files."""
        numbers = self.values.get(name, ())
        return numbers if isinstance(numbers, np.ndarray) else np.array(numbers, np.float32)

    def block(self, name: str) -> memoryview:
        return self._last(name, memoryview, memoryview(b""))

    def record(self, name: str) -> Record:
        """Return a nested message; an empty one if it is missing."""
        return self._last(name, Record, Record())

    def records(self, name: str) -> tuple[Record, ...]:
        return tuple(self._all(name, Record))

    def where(self, **changes: Values) -> Record:
        """Return the record with some fields replaced."""
        return Record({**self.values, **changes})


def read_binary(message: Message, schema: Schema) -> Record:
    """Return the fields of a binary message that are in the schema."""
    return Record(
        {
            name: _binary_values(message, number, kind)
            for name, (number, kind) in schema.items()
            if message.has(number)
        }
    )


def _binary_values(message: Message, number: int, kind: Kind | Enumeration | Schema) -> Values:
    if isinstance(kind, Enumeration):
        return [_choice(kind, int(value)) for value in message.integers(number)]
    if isinstance(kind, Mapping):
        return [read_binary(inner, kind) for inner in message.messages(number)]
    return _BINARY[kind](message, number)


_BINARY: Mapping[Kind, Callable[[Message, int], Values]] = {
    Kind.INTEGER: lambda message, number: message.integers(number).tolist(),
    Kind.FLAG: lambda message, number: [bool(value) for value in message.integers(number)],
    Kind.NUMBER: lambda message, number: message.floats(number).tolist(),
    Kind.FLOATS: lambda message, number: message.floats(number),
    Kind.DOUBLES: lambda message, number: message.doubles(number),
    Kind.TEXT: lambda message, number: message.texts(number),
    Kind.BYTES: lambda message, number: [*message.blocks(number)],
}


def _choice(names: Enumeration, number: int) -> str:
    """Return the name of an enumeration value; the number itself if it is unknown."""
    return names[number] if 0 <= number < len(names) else str(number)


def read_text(message: TextMessage, schema: Schema) -> Record:
    """Return the fields of a text message that are in the schema."""
    return Record(
        {
            name: [_text_value(name, value, schema[name][1]) for value in values]
            for name, values in message.fields.items()
            if name in schema
        }
    )


def _text_value(name: str, value: str | TextMessage, kind: Kind | Enumeration | Schema) -> object:
    is_message = not isinstance(kind, Kind | Enumeration)
    if isinstance(value, TextMessage) != is_message:
        raise ValueError(f"field '{name}' is {'not a ' if is_message else 'a '}message")
    if isinstance(value, TextMessage):
        assert isinstance(kind, Mapping)
        return read_text(value, kind)
    if isinstance(kind, Enumeration):
        return _choice(kind, int(value)) if value.isdecimal() else value
    try:
        return _scalar(value, kind)
    except (ValueError, KeyError) as error:
        assert isinstance(kind, Kind)
        raise ValueError(f"field '{name}' is {value!r}, not {kind.value}") from error


def _scalar(value: str, kind: object) -> object:
    if kind is Kind.INTEGER:
        return int(value, 0) if value[:2].lower() == "0x" else int(value)
    if kind in (Kind.NUMBER, Kind.FLOATS, Kind.DOUBLES):
        return float(value[:-1] if _FLOAT.fullmatch(value) else value)
    if kind is Kind.FLAG:
        return _FLAGS[value.lower()]
    return value.encode() if kind is Kind.BYTES else value
