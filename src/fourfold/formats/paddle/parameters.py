"""Reads parameters: each is a version, its levels of detail, a description, and its numbers."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence

import numpy as np

from fourfold.formats.paddle.program import read_description
from fourfold.formats.protobuf import Message
from fourfold.formats.source import Content


def read_parameters(content: Content, names: Sequence[str]) -> dict[str, np.ndarray]:
    """The parameters of a file in this order, as views of it."""
    stream = _Stream(memoryview(content))
    found = {}
    for name in names:
        try:
            found[name] = stream.tensor()
        except (ValueError, struct.error) as error:
            raise ValueError(f"parameter '{name}' cannot be read: {error}") from error
    if stream.position != len(stream.content):
        rest = len(stream.content) - stream.position
        raise ValueError(f"{rest} bytes follow the last of {len(names)} parameters")
    return found


class _Stream:
    """A file that is read from its start to its end."""

    def __init__(self, content: memoryview) -> None:
        self.content, self.position = content, 0

    def _take(self, count: int) -> memoryview:
        end = self.position + count
        if count < 0 or end > len(self.content):
            left = len(self.content) - self.position
            raise ValueError(f"{count} bytes are expected, and {left} are left")
        found = self.content[self.position : end]
        self.position = end
        return found

    def _number(self, form: str) -> int:
        (number,) = struct.unpack(form, self._take(struct.calcsize(form)))
        return int(number)

    def tensor(self) -> np.ndarray:
        self._version()
        for _ in range(self._levels()):
            self._take(self._number("<Q"))
        self._version()
        dtype, sizes = read_description(Message(self._take(self._number("<i"))))
        if dtype is None or min(sizes, default=0) < 0:
            raise ValueError(f"its type or its shape {list(sizes)} is not known")
        numbers = self._take(math.prod(sizes) * dtype.size)
        return np.frombuffer(numbers, dtype.numpy).reshape(sizes)

    def _version(self) -> None:
        version = self._number("<I")
        if version != 0:
            raise ValueError(f"version {version} of its form is not known")

    def _levels(self) -> int:
        levels = self._number("<Q")
        if levels > 16:
            raise ValueError(f"{levels} levels of detail are not possible")
        return levels
