"""Reads parameter files.

Each parameter is a version, its LoD levels, a tensor description and its data.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence

import numpy as np

from fourfold.formats.paddle.program import read_description
from fourfold.formats.protobuf import Message
from fourfold.formats.source import Content


def read_parameters(content: Content, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Return the parameters of a file, in this order, as views of it."""
    stream = _Stream(memoryview(content))
    parameters = {}
    for name in names:
        try:
            parameters[name] = stream.tensor()
        except (ValueError, struct.error) as error:
            raise ValueError(f"parameter '{name}' cannot be read: {error}") from error
    if stream.position != len(stream.content):
        extra = len(stream.content) - stream.position
        raise ValueError(f"{extra} bytes follow the last of {len(names)} parameters")
    return parameters


class _Stream:
    """A cursor over a parameter file."""

    def __init__(self, content: memoryview) -> None:
        self.content, self.position = content, 0

    def _take(self, count: int) -> memoryview:
        end = self.position + count
        if count < 0 or end > len(self.content):
            remaining = len(self.content) - self.position
            raise ValueError(f"{count} bytes are expected, but only {remaining} remain")
        block = self.content[self.position : end]
        self.position = end
        return block

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
            raise ValueError(f"its type or its shape {list(sizes)} is not valid")
        numbers = self._take(math.prod(sizes) * dtype.size)
        return np.frombuffer(numbers, dtype.numpy).reshape(sizes)

    def _version(self) -> None:
        version = self._number("<I")
        if version != 0:
            raise ValueError(f"format version {version} is not supported")

    def _levels(self) -> int:
        levels = self._number("<Q")
        if levels > 16:
            raise ValueError(f"{levels} LoD levels are too many")
        return levels
