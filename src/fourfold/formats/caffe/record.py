"""Record: one message of a network, with fields by name, from a text or a binary file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from fourfold.formats.caffe.schema import Enumeration, Kind, Schema
from fourfold.formats.protobuf import Message

MAX_DEPTH = 100  # nesting limit of messages, as in protobuf's binary form
MAX_BYTES = 64 << 20  # definitions are some kilobytes; weights are not stored as text
_TOKEN = re.compile(
    rb"""(?P<space>[\s,;]+ | \#[^\n]*)
    | (?P<string> "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*')
    | (?P<word>[-+.\w/]+)
    | (?P<mark>[{}<>:\[\]])""",
    re.VERBOSE,
)
_CLOSING = {b"{": b"}", b"<": b">", b"[": b"]"}
_ESCAPE = re.compile(rb"\\(?:x([0-9a-fA-F]{1,2})|([0-7]{1,3})|(.))", re.DOTALL)
_LETTERS = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f"}


@dataclass(frozen=True)
class TextMessage:
    """A parsed message: the values of each name in order, strings or nested messages."""

    fields: dict[str, list[str | TextMessage]] = field(default_factory=dict)


def parse_text(content: bytes) -> TextMessage:
    """Parse a text file as one message.

    Raises ValueError for a syntax error.
    """
    if len(content) > MAX_BYTES:
        raise ValueError(f"a text of {len(content)} bytes is larger than {MAX_BYTES}")
    return _Parser(content).message(b"", 0)


class _Parser:
    """A single-pass recursive descent parser."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._tokens = self._scan()
        self._ahead: tuple[str, bytes] | None = next(self._tokens, None)
        self._position = 0

    def _scan(self) -> Iterator[tuple[str, bytes]]:
        position, content = 0, self._content
        while position < len(content):
            token = _TOKEN.match(content, position)
            if token is None:
                raise ValueError(
                    f"line {self._line(position)} has {content[position : position + 1]!r}"
                )
            self._position, position = position, token.end()
            assert token.lastgroup is not None
            if token.lastgroup != "space":
                yield token.lastgroup, token[0]

    def _line(self, position: int) -> int:
        return self._content.count(b"\n", 0, position) + 1

    def _fail(self, expected: str) -> ValueError:
        actual = "the end" if self._ahead is None else repr(self._ahead[1].decode(errors="replace"))
        return ValueError(f"line {self._line(self._position)} has {actual} in place of {expected}")

    def _next(self) -> tuple[str, bytes]:
        if self._ahead is None:
            raise self._fail("more")
        token, self._ahead = self._ahead, next(self._tokens, None)
        return token

    def _skip(self, mark: bytes) -> bool:
        """Consume this mark if it comes next; return True if it did."""
        if self._ahead != ("mark", mark):
            return False
        self._next()
        return True

    def message(self, end: bytes, depth: int) -> TextMessage:
        """Parse fields up to a closing mark; b'' stands for the end of the text."""
        if depth > MAX_DEPTH:
            raise ValueError(f"its messages are nested more than {MAX_DEPTH} deep")
        parsed = TextMessage()
        while not (self._ahead is None if not end else self._skip(end)):
            kind, name = self._next()
            if kind != "word":
                raise self._fail("the name of a field")
            values = parsed.fields.setdefault(name.decode("ascii", "backslashreplace"), [])
            colon = self._skip(b":")
            if self._skip(b"["):
                while not self._skip(b"]"):
                    values.append(self._value(True, depth))
            else:
                values.append(self._value(colon, depth))
        return parsed

    def _value(self, plain: bool, depth: int) -> str | TextMessage:
        """Parse a value: a message or, after a colon, a word or a string."""
        kind, text = self._next()
        if kind == "mark" and text in (b"{", b"<"):
            return self.message(_CLOSING[text], depth + 1)
        if not plain or kind == "mark":
            raise self._fail("a value")
        if kind == "word":
            return text.decode("ascii", "backslashreplace")
        parts = [text]
        while self._ahead is not None and self._ahead[0] == "string":
            parts.append(self._next()[1])
        return b"".join(_ESCAPE.sub(_unescape, part[1:-1]) for part in parts).decode(
            "utf-8", "backslashreplace"
        )


def _unescape(match: re.Match[bytes]) -> bytes:
    if match[1] is not None:
        return bytes([int(match[1], 16)])
    if match[2] is not None:
        return bytes([int(match[2], 8) & 255])
    return _LETTERS.get(match[3], match[3])


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
