"""PoCL devices get the name of a processor that its compiler knows, and nothing else changes."""

from __future__ import annotations

import ctypes
import mmap
import platform
import sys

import pytest

from fourfold.backends.opencl.binding.pocl_cpu import (
    DEVICE_BYTES,
    NAMES,
    POCL,
    UNKNOWN,
    name_unknown_cpu,
)

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux") or platform.machine() != "x86_64",
    reason="PoCL is installed with pip on Linux and x86-64 only",
)
UNMAPPED = 0x10_0000


class Record:
    """A record of a device that points to a string on the heap, among other words."""

    def __init__(self, name: bytes) -> None:
        self.block = ctypes.create_string_buffer(64 + 16)
        self.address = -(-ctypes.addressof(self.block) // 16) * 16
        ctypes.memmove(self.address, name, len(name))
        self.words = (ctypes.c_uint64 * (DEVICE_BYTES // 8))(0, 7, UNMAPPED, self.address)

    @property
    def pointer(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(ctypes.addressof(self.words))

    @property
    def name(self) -> bytes:
        return ctypes.string_at(self.address)


def test_unknown_processor_gets_a_known_name() -> None:
    record = Record(UNKNOWN)
    name_unknown_cpu(POCL, record.pointer)
    assert record.name in [name for _, name in NAMES]


@pytest.mark.parametrize("name", [b"znver3\0", b"generic-rv64\0", b"\0"])
def test_known_names_stay(name: bytes) -> None:
    record = Record(name)
    name_unknown_cpu(POCL, record.pointer)
    assert record.name == name[:-1]


def test_other_platforms_stay() -> None:
    record = Record(UNKNOWN)
    name_unknown_cpu("Intel(R) OpenCL", record.pointer)
    assert record.name == b"generic"


def test_memory_that_is_not_mapped_is_left_alone() -> None:
    for address in (None, 0, 8, UNMAPPED):
        name_unknown_cpu(POCL, ctypes.c_void_p(address))


def test_record_at_the_end_of_mapped_memory() -> None:
    """The record may be shorter than what is read of it."""
    memory = mmap.mmap(-1, mmap.PAGESIZE)
    record, page = Record(UNKNOWN), ctypes.addressof(ctypes.c_char.from_buffer(memory))
    end = page + mmap.PAGESIZE - 16
    ctypes.memmove(end, bytes(ctypes.c_uint64(record.address)), 8)
    name_unknown_cpu(POCL, ctypes.c_void_p(end))
    assert record.name != b"generic"
