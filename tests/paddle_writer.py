"""Write Paddle models: programs as protobuf and as JSON, and their parameters."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fourfold.formats.protobuf import MessageWriter

ELEMENTS = {"bool": 0, "int32": 2, "int64": 3, "float16": 4, "float32": 5, "uint8": 20}
SHORT = {"int32": "i32", "int64": "i64", "float32": "f32", "bool": "b"}
Arguments = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Operator:
    """An operator with the variables of its parameters; attributes are written by their types."""

    type: str
    inputs: Arguments
    outputs: Arguments
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Program:
    """Inputs with their sizes (-1 is open), parameters, operators in order, and fetched results."""

    inputs: Mapping[str, Sequence[int]]
    parameters: Mapping[str, np.ndarray]
    operators: Sequence[Operator]
    fetches: Sequence[str]
    sizes: Mapping[str, Sequence[int]] = field(default_factory=dict)  # of results, where declared


def _description(dtype: str, sizes: Sequence[int]) -> MessageWriter:
    writer = MessageWriter().integer(1, ELEMENTS[dtype])
    for size in sizes:
        writer.integer(2, size)
    return writer


def _variable(name: str, dtype: str, sizes: Sequence[int], persistable: bool) -> MessageWriter:
    tensor = MessageWriter().message(1, _description(dtype, sizes))
    kind = MessageWriter().integer(1, 7).message(3, tensor)
    return MessageWriter().text(1, name).message(2, kind).integer(3, persistable)


def _holder(name: str, kind: int) -> MessageWriter:
    """Return the variable that feeds or fetches values."""
    type_ = MessageWriter().integer(1, kind)
    return MessageWriter().text(1, name).message(2, type_).integer(3, 1)


def _attribute(name: str, value: Any) -> MessageWriter:
    writer = MessageWriter().text(1, name)
    if isinstance(value, bool):
        return writer.integer(2, 6).integer(10, value)
    if isinstance(value, int):
        return writer.integer(2, 0).integer(3, value)
    if isinstance(value, float):
        return writer.integer(2, 1).float32(4, value)
    if isinstance(value, str):
        return writer.integer(2, 2).text(5, value)
    floats = any(isinstance(item, float) for item in value)
    writer.integer(2, 4 if floats else 3)
    for item in value:
        (writer.float32 if floats else writer.integer)(7 if floats else 6, item)
    return writer


def _operator(operator: Operator) -> MessageWriter:
    writer = MessageWriter()
    for number, arguments in ((1, operator.inputs), (2, operator.outputs)):
        for parameter, names in arguments.items():
            writer.message(number, MessageWriter().text(1, parameter).texts(2, names))
    writer.text(3, operator.type)
    for name, value in operator.attributes.items():
        writer.message(4, _attribute(name, value))
    return writer


def program_file(program: Program) -> bytes:
    """Return a .pdmodel file."""
    block = MessageWriter().integer(1, 0).integer(2, -1)
    block.message(3, _holder("feed", 9)).message(3, _holder("fetch", 10))
    for name, sizes in program.inputs.items():
        block.message(3, _variable(name, "float32", sizes, False))
    for name, array in program.parameters.items():
        block.message(3, _variable(name, array.dtype.name, array.shape, True))
    written = {
        name for one in program.operators for names in one.outputs.values() for name in names
    }
    for name in sorted(written - set(program.parameters)):
        block.message(3, _variable(name, "float32", program.sizes.get(name, [-1]), False))
    feeds = [
        Operator("feed", {"X": ["feed"]}, {"Out": [name]}, {"col": index})
        for index, name in enumerate(program.inputs)
    ]
    fetches = [
        Operator("fetch", {"X": [name]}, {"Out": ["fetch"]}, {"col": index})
        for index, name in enumerate(program.fetches)
    ]
    for operator in (*feeds, *program.operators, *fetches):
        block.message(4, _operator(operator))
    version = MessageWriter().integer(1, 2_004_000)
    return MessageWriter().message(1, block).message(4, version).finish()


def parameter(array: np.ndarray) -> bytes:
    description = _description(array.dtype.name, array.shape).finish()
    head = struct.pack("<IQI", 0, 0, 0) + struct.pack("<i", len(description))
    return head + description + np.ascontiguousarray(array).tobytes()


def parameters_file(parameters: Mapping[str, np.ndarray]) -> bytes:
    """Return a .pdiparams file: parameters sorted by name."""
    return b"".join(parameter(array) for _, array in sorted(parameters.items()))


def write_model(folder: Path, program: Program) -> Path:
    """Write both files, and return the path of the program."""
    path = folder / "inference.pdmodel"
    path.write_bytes(program_file(program))
    path.with_suffix(".pdiparams").write_bytes(parameters_file(program.parameters))
    return path


class PirWriter:
    """Builds a JSON program operator by operator; values are numbers."""

    def __init__(self) -> None:
        self.operators: list[dict[str, Any]] = []
        self.parameters: dict[str, np.ndarray] = {}
        self.count = 0

    def _value(self, dtype: str, sizes: Sequence[int]) -> dict[str, Any]:
        self.count += 1
        return {"%": self.count, "TT": self._type(dtype, sizes)}

    @staticmethod
    def _type(dtype: str, sizes: Sequence[int]) -> dict[str, Any]:
        data = [{"#": f"0.t_{SHORT[dtype]}"}, list(sizes), "NCHW", [], 0]
        return {"#": "0.t_dtensor", "D": data}

    def parameter(self, name: str, array: np.ndarray) -> int:
        self.parameters[name] = array
        value = self._value(array.dtype.name, array.shape)
        flags = {"A": [0, 1, 1, name], "DA": [], "OA": [1, 0, 1], "QA": []}
        self.operators.append({"#": "p", "O": value, **flags})
        return self.count

    def add(
        self,
        kind: str,
        inputs: Sequence[int],
        sizes: Sequence[int] = (),
        element: str = "float32",
        extra: int = 0,
        **attributes: Any,
    ) -> int:
        """Add an operator with one result and some unused ones, and return its number."""
        results = [self._value(element, sizes) for _ in range(1 + extra)]
        written = [{"N": name, "AT": _form(value)} for name, value in attributes.items()]
        read = [{"%": number} for number in inputs]
        self.operators.append({"#": kind, "A": written, "I": read, "O": results, "OA": []})
        return int(results[0]["%"])

    def data(self, name: str, sizes: Sequence[int]) -> int:
        expected = {"name": name, "shape": IntArray(sizes), "dtype": Element("float32")}
        return self.add("1.data", [], sizes, **expected, place=Place())

    def numbers(self, *values: int) -> int:
        expected = {"value": Longs(values), "dtype": Element("int64"), "place": Place()}
        return self.add("1.full_int_array", [], [len(values)], "int64", **expected)

    def combine(self, *values: int, sizes: Sequence[int]) -> int:
        self.count += 1
        types = [self._type("float32", sizes) for _ in values]
        result = {"%": self.count, "TT": {"#": "0.t_vec", "D": types}}
        read = [{"%": number} for number in values]
        self.operators.append({"#": "0.combine", "A": [], "I": read, "O": [result], "OA": []})
        return self.count

    def fetch(self, value: int, sizes: Sequence[int], column: int = 0) -> None:
        self.add("1.fetch", [value], sizes, name=f"fetch_name_{column}", col=column)

    def program(self) -> dict[str, Any]:
        block = {"#": "block_0", "args": [], "ops": self.operators}
        region = {"#": "region_0", "blocks": [block]}
        base = {"magic": "pir", "trainable": True, "version": 4}
        return {"base_code": base, "program": {"regions": [region]}}

    def write(self, folder: Path) -> Path:
        path = folder / "inference.json"
        path.write_text(json.dumps(self.program(), separators=(",", ":")))
        path.with_suffix(".pdiparams").write_bytes(parameters_file(self.parameters))
        return path


class IntArray(list[int]):
    """Sizes, which are a separate kind in JSON."""


class Longs(list[int]):
    """A list of 64-bit integers."""


class Double(float):
    """A 64-bit float."""


class Element(str):
    """The name of an element type."""

    __slots__ = ()


class Place(list[Any]):
    """The place of a value: the CPU."""


def _form(value: Any) -> dict[str, Any]:
    if isinstance(value, Place):
        return {"#": "1.a_place", "D": [1, 0, ""]}
    if isinstance(value, IntArray):
        return {"#": "1.a_intarray", "D": list(value)}
    if isinstance(value, Element):
        return {"#": "1.a_dtype", "D": str(value)}
    if isinstance(value, list):
        kind = "0.a_i64" if isinstance(value, Longs) else "0.a_i32"
        return {"#": "0.a_array", "D": [{"#": kind, "D": item} for item in value]}
    kinds = {bool: "0.a_bool", int: "0.a_i32", float: "0.a_f32", Double: "0.a_f64", str: "0.a_str"}
    return {"#": kinds[type(value)], "D": value}
