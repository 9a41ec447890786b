"""Checks what another machine answers: its devices and drivers are input like any other.

A missing key, a wrong type or a number out of range is a DeviceError that names the machine.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from fourfold.errors import DeviceError

MAX_TEXT = 1 << 16  # characters; a list of extensions has a few thousand
_FILE_NAME = re.compile(r"[\w.-]{1,255}(/[\w.-]{1,255}){0,7}", re.ASCII)


def read_object(line: str) -> dict[str, Any] | None:
    """Return the JSON object in a line; None for other lines, which drivers print as well."""
    if not line.startswith("{"):
        return None
    try:
        answer: dict[str, Any] = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return answer


def unusable(machine: str, why: str) -> DeviceError:
    """Return the error for an answer that cannot be used."""
    what = f"the answer of {machine} cannot be used"
    return DeviceError(what, why, "check its OpenCL driver, and run the same command again")


class CheckedAnswer:
    """The fields of one answer of a machine."""

    def __init__(self, fields: Mapping[str, Any], machine: str) -> None:
        self._fields, self._machine = fields, machine

    def refuse(self, name: str, expected: str) -> DeviceError:
        is_missing = name not in self._fields
        kind = "missing" if is_missing else f"of type {type(self._fields[name]).__name__}"
        return unusable(self._machine, f"'{name}' is {kind}; it must be {expected}")

    def text(self, name: str) -> str:
        value = self._fields.get(name)
        if not isinstance(value, str) or len(value) > MAX_TEXT:
            raise self.refuse(name, "a short text")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        value = self._fields.get(name)
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise self.refuse(name, "a list of texts")
        return tuple(value)

    def flag(self, name: str) -> bool:
        value = self._fields.get(name)
        if not isinstance(value, bool):
            raise self.refuse(name, "true or false")
        return value

    def whole(self, name: str, low: int, high: int) -> int:
        value = self._fields.get(name)
        if type(value) is not int or not low <= value <= high:
            raise self.refuse(name, f"a whole number from {low} to {high}")
        return value

    def number(self, name: str) -> float:
        value = self._fields.get(name)
        if not _is_number(value):
            raise self.refuse(name, "a number")
        return float(value)  # type: ignore[arg-type]

    def seconds(self, name: str) -> float:
        value = self.number(name)
        if not 0 <= value < math.inf:
            raise self.refuse(name, "a time in seconds")
        return value

    def all_seconds(self, name: str, at_least: int) -> list[float]:
        values = self._fields.get(name)
        if not isinstance(values, list) or len(values) < at_least:
            raise self.refuse(name, f"a list of at least {at_least} times")
        if not all(_is_number(one) and 0 <= one < math.inf for one in values):
            raise self.refuse(name, "a list of times in seconds")
        return [float(one) for one in values]

    def file_name(self, name: str) -> str:
        value = self.text(name)
        if not _FILE_NAME.fullmatch(value) or ".." in value:
            raise self.refuse(name, "a file name")
        return value

    def inner(self, name: str) -> CheckedAnswer:
        value = self._fields.get(name)
        if not isinstance(value, dict):
            raise self.refuse(name, "an object")
        return CheckedAnswer(value, self._machine)


def _is_number(value: object) -> bool:
    is_float = isinstance(value, float)
    return is_float or (type(value) is int and abs(value) < 2**63)


def array_in(content: bytes, dtype: np.dtype, count: int, start: int, machine: str) -> np.ndarray:
    """Return an array in the bytes of a file that a machine has written."""
    if start + count * dtype.itemsize > len(content):
        why = f"it sent {len(content)} bytes of results, which are too few"
        raise unusable(machine, why)
    return np.frombuffer(content, dtype, count, start)
