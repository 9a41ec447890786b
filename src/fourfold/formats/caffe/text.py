"""Parses protobuf's text format: `name: value` and `name { ... }`, with comments and lists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

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
            found = _TOKEN.match(content, position)
            if found is None:
                raise ValueError(
                    f"line {self._line(position)} has {content[position : position + 1]!r}"
                )
            self._position, position = position, found.end()
            assert found.lastgroup is not None
            if found.lastgroup != "space":
                yield found.lastgroup, found[0]

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
        found = TextMessage()
        while not (self._ahead is None if not end else self._skip(end)):
            kind, name = self._next()
            if kind != "word":
                raise self._fail("the name of a field")
            values = found.fields.setdefault(name.decode("ascii", "backslashreplace"), [])
            colon = self._skip(b":")
            if self._skip(b"["):
                while not self._skip(b"]"):
                    values.append(self._value(True, depth))
            else:
                values.append(self._value(colon, depth))
        return found

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
