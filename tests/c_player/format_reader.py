"""A second player, written from docs/internals/file-format.md alone, without fourfold.

Layouts, kinds and element types are read from the tables of that page.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zlib import crc32, decompress

import numpy as np
import pyopencl as cl

PAGE = Path(__file__).parents[2] / "docs" / "internals" / "file-format.md"
SIZES = {"u32": 4, "u64": 8}
FLAGS = cl.mem_flags


def table(heading: str, first: str) -> list[list[str]]:
    """Return the rows of a table by the titles of its section and its first column."""
    text = PAGE.read_text(encoding="utf-8").split(f"\n## {heading}")[1].split("\n## ")[0]
    rows = [line[1:-1].split("|") for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in row] for row in rows]
    start = next(n for n, row in enumerate(cells) if row[0] == first)
    result = []
    for row in cells[start + 2 :]:
        if len(row) != len(cells[start]) or row[1].startswith("--"):
            break
        result.append(row)
    return result


def quoted(text: str) -> list[str]:
    return re.findall(r"`(\w+)`", text)


def fields(data: memoryview, heading: str) -> dict[str, Any]:
    """Return the fields of a layout by their description on the page."""
    found: dict[str, Any] = {}
    for at, kind, what in table(heading, "at"):
        size = SIZES.get(kind) or int(kind.split()[0])
        piece = bytes(data[int(at) : int(at) + size])
        found[what.split(":")[0]] = int.from_bytes(piece, "little") if kind in SIZES else piece
    return found


def element_types() -> dict[str, np.dtype]:
    """Return NumPy's element types by name, checked against the sizes on the page."""
    types = {}
    for names, sizes, _ in table("A plan", "type"):
        for name, size in zip(quoted(names), sizes.split(","), strict=True):
            letter = "?" if name == "bool" else f"{name[0]}{int(size)}"
            types[name] = np.dtype(letter)
            assert types[name].itemsize == int(size)
    return types


class File:
    """The sections of a file, with verified checksums."""

    def __init__(self, data: bytes) -> None:
        self.data = memoryview(data)
        head = fields(self.data, "Header")
        assert head["`FOURFOLD`"] == b"FOURFOLD"
        assert head["CRC-32 of the 60 bytes before"] == crc32(self.data[:60])
        assert (head["format"], head["size of the file"]) == (6, len(data))
        start, count = head["where the table starts"], head["number of sections"]
        assert crc32(self.data[start : start + 48 * count]) == head["CRC-32 of the table"]
        rows = [self.data[start + 48 * n : start + 48 * n + 48] for n in range(count)]
        self.entries = [fields(row, "Table") for row in rows]
        assert [one["its number"] for one in self.entries] == [*range(count)]

    def section(self, number: int, name: str) -> memoryview:
        entry = self.entries[number]
        assert entry["name in ASCII, filled up with zeros"] == name.encode().ljust(16, b"\0")
        start, size = entry["where the section starts"], entry["its size"]
        assert start % (4096 if size >= 65536 else 64) == 0
        content = self.data[start : start + size]
        assert crc32(content) == entry["CRC-32 of the section"]
        before = entry["its size before compression"]
        if before:
            content = memoryview(decompress(content, wbits=-15))
            assert len(content) == before
        return content

    def record(self, number: int, name: str) -> Any:
        return json.loads(bytes(self.section(number, name)))


def expand(
    description: Sequence[Any], between: np.ndarray, weights: Sequence[np.ndarray]
) -> np.ndarray:
    """Return the block of constants whose larger pieces are stored apart."""
    size, pieces = description
    block, cursor = np.zeros(size, np.uint8), 0
    for piece in pieces:
        start, dtype, *_ = piece
        content = expand_piece(piece, weights).astype(element_types()[dtype]).view(np.uint8)
        block[cursor:start], between = between[: start - cursor], between[start - cursor :]
        cursor = start + content.size
        block[start:cursor] = content
    block[cursor:] = between
    return block


def expand_piece(piece: Sequence[Any], weights: Sequence[np.ndarray]) -> np.ndarray:
    """Return the elements of a piece as they are in memory, element by element."""
    assert len(table("Stored constants", "item")) == 10
    shape, factors, order, number, stored, *grid = piece[2:]
    array = weights[number].view(element_types()[stored]).reshape(shape)
    if grid:
        zero, scale, axis = grid
        array = array.astype(np.int32) - zero
        if axis is not None:
            scales = weights[scale].view(np.float32)
            scale = scales.reshape([-1 if one == axis else 1 for one in range(len(shape))])
        if scale is not None:
            array = array.astype(np.float32) * np.float32(scale)
    sizes = [size for axis_factors in factors for size in axis_factors]
    place, stride = np.zeros(shape, np.int64), 1
    strides = [0] * len(sizes)
    for factor in reversed(order):
        strides[factor], stride = stride, stride * sizes[factor]
    first = 0
    for axis, axis_factors in enumerate(factors):
        index = np.arange(shape[axis])
        parts = np.unravel_index(index, axis_factors)
        moved = sum(part * strides[first + one] for one, part in enumerate(parts))
        place += moved.reshape([-1 if one == axis else 1 for one in range(len(shape))])
        first += len(axis_factors)
    result = np.zeros(stride, array.dtype)
    result[place.reshape(-1)] = array.reshape(-1)
    return result


class FormatReader:
    """Runs a plan of a prepared file on the first OpenCL device."""

    def __init__(self, data: bytes, row: int = 0) -> None:
        file = File(data)
        index = file.record(0, "index")
        self.row = index["plans"][row]
        assert self.row["parts"] == ["gpu"]
        plan, text, constants = self.row["sections"][1:4]
        self.plan = file.record(plan, "plan")
        self.constants = np.frombuffer(file.section(constants, "constants"), np.uint8)
        if "constants" in self.plan:
            numbers = self.row["weights"]
            weights = [np.frombuffer(file.section(one, "weights"), np.uint8) for one in numbers]
            self.constants = expand(self.plan["constants"], self.constants, weights)
        self.device = cl.get_platforms()[0].get_devices()[0]
        self.context = cl.Context([self.device])
        self.queue = cl.CommandQueue(self.context)
        self.program = self._program(file, index, bytes(file.section(text, "text")))
        self.buffers = [self._buffer(*one) for one in self.plan["buffers"]]
        self.kernels = [self._kernel(*one[:2]) for one in self.plan["launches"]]

    def _program(self, file: File, index: Any, text: bytes) -> cl.Program:
        device = self.device
        parts = {
            "kind of entry": "binary",
            "format": "1",
            "text": hashlib.blake2b(text, digest_size=16).hexdigest(),
            "options": self.plan["options"],
            "platform": device.platform.name.strip(),
            "device": device.name.strip(),
            "driver": device.driver_version.strip(),
            "version": device.version.strip(),
        }
        assert {*parts} == {
            name
            for row in table("A prepared file", "label")
            for name in re.findall(r"`([\w ]+)`", row[0])
        }
        (own,) = (one["section"] for one in index["binaries"] if one["parts"] == parts)
        program = cl.Program(self.context, [device], [bytes(file.section(own, "binary"))])
        return program.build(self.plan["options"])

    def _buffer(self, name: str, kind: str, size: int, start: int | None = None) -> cl.Buffer:
        kinds = {one: row[2:] for row in table("A plan", "kind") for one in quoted(row[0])}
        before, allocated = kinds[kind]
        first = self.constants[start or 0 :][:size]
        if "zeros" in before and start is None:
            first = np.zeros(size, np.uint8)
        if before != "anything":
            return cl.Buffer(self.context, FLAGS.READ_WRITE | FLAGS.COPY_HOST_PTR, hostbuf=first)
        assert allocated == "rounded up"
        return cl.Buffer(self.context, FLAGS.READ_WRITE, max(64, -(-size // 64) * 64))

    def _kernel(self, entry: str, arguments: Sequence[Any]) -> cl.Kernel:
        kernel, position = cl.Kernel(self.program, entry), 0
        for one in arguments:
            passed = [np.int32(one)]
            if isinstance(one, list):
                buffer, offset = one
                passed = [self.buffers[buffer], np.int64(offset)]
            for value in passed:
                kernel.set_arg(position, value)
                position += 1
        return kernel

    def array(self, port: Sequence[Any]) -> np.ndarray:
        match = re.fullmatch(r"(\w+)\[([\d,]*)\]", port[1])
        assert match is not None
        shape = tuple(int(one) for one in match[2].split(",") if one)
        return np.zeros(shape, element_types()[match[1]])

    def run(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        for port, array in zip(self.plan["inputs"], arrays, strict=True):
            cl.enqueue_copy(self.queue, self.buffers[port[2]], np.ascontiguousarray(array))
        for kernel, launch in zip(self.kernels, self.plan["launches"], strict=True):
            cl.enqueue_nd_range_kernel(self.queue, kernel, launch[2], launch[3])
        outputs = [self.array(port) for port in self.plan["outputs"]]
        for port, array in zip(self.plan["outputs"], outputs, strict=True):
            cl.enqueue_copy(self.queue, array, self.buffers[port[2]])
        self.queue.finish()
        return outputs

    def reset(self) -> None:
        """Reset variables to their initial values."""
        for (_, kind, size, *start), buffer in zip(self.plan["buffers"], self.buffers, strict=True):
            if kind == "variable":
                first = self.constants[start[0] :][:size] if start else np.zeros(size, np.uint8)
                cl.enqueue_copy(self.queue, buffer, np.ascontiguousarray(first))
