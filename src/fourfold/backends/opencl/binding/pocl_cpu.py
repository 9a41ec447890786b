"""Lets PoCL compile for processors that are newer than its compiler.

PoCL 3.0 asks LLVM 14 for the name of the processor. For one that LLVM does not know, such as AMD's
Zen 5, the answer is 'generic', which its own compiler then refuses: "unknown target CPU 'generic'".
No environment variable of PoCL 3.0 sets the name. The device holds it in a string of its own, which
is replaced here by the name of an older processor with the same vector instructions.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from ctypes import c_size_t, c_void_p

from fourfold.support.log import Log

log = Log("opencl")

POCL = "Portable Computing Language"
UNKNOWN = b"generic\0"
DEVICE_BYTES = 2048  # of the driver's own record of a device, which points to the name
HEAP_ALIGNMENT = 16  # of a block of memory from malloc
# Names that LLVM 14 knows, with the processor flag that each needs; the first that fits is used.
# Each fits into 24 bytes, which malloc reserves for a string as short as UNKNOWN.
NAMES = (("avx512bw", b"skylake-avx512"), ("avx2", b"haswell"), ("", b"x86-64"))


class _Range(ctypes.Structure):
    _fields_ = (("start", c_void_p), ("size", c_size_t))


def name_unknown_cpu(platform_name: str, device: c_void_p) -> None:
    """Give a PoCL device the name of a processor that its compiler knows, if it has none."""
    if platform_name != POCL or not sys.platform.startswith("linux"):
        return
    if platform.machine() != "x86_64" or device.value is None:
        return
    record = _copy("process_vm_readv", device.value, bytes(DEVICE_BYTES))
    words = (ctypes.c_uint64 * (len(record) // 8)).from_buffer_copy(record)
    for address in words:
        is_heap = address > 2**16 and not address % HEAP_ALIGNMENT
        if is_heap and _copy("process_vm_readv", address, bytes(len(UNKNOWN))) == UNKNOWN:
            name = _known_name()
            _copy("process_vm_writev", address, name + b"\0")
            log.debug("PoCL does not know this processor: it compiles for %s", name.decode())


def _copy(function: str, address: int, content: bytes) -> bytes:
    """Copy memory of this process with a system call, which stops where nothing is mapped, or where
    nothing may be written, instead of crashing. Return the bytes that were copied.
    """
    buffer = ctypes.create_string_buffer(content, len(content))
    local = _Range(ctypes.addressof(buffer), len(content))
    remote = _Range(address, len(content))
    call = getattr(ctypes.CDLL(None), function)
    copied = call(os.getpid(), ctypes.byref(local), 1, ctypes.byref(remote), 1, 0)
    return buffer.raw[: max(copied, 0)]


def _known_name() -> bytes:
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            flags = next((line for line in file if line.startswith("flags")), "").split()
    except OSError:
        flags = []
    return next(name for flag, name in NAMES if not flag or flag in flags)
