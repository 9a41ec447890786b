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
MAX_NAME_BYTES = 24  # what malloc sets aside for a string as short as UNKNOWN
DEVICE_BYTES = 2048  # of the driver's own record of a device, in which the name is looked for
HEAP_ALIGNMENT = 16
# Names that LLVM 14 knows, with the flag of the processor that each needs; the first that fits.
NAMES = (("avx512bw", b"skylake-avx512"), ("avx2", b"haswell"), ("", b"x86-64"))


class _Range(ctypes.Structure):
    _fields_ = (("start", c_void_p), ("size", c_size_t))


def name_unknown_cpu(platform_name: str, device: c_void_p) -> None:
    """Give a device of PoCL the name of a processor that its compiler knows, if it has none."""
    if platform_name != POCL or not sys.platform.startswith("linux"):
        return
    if platform.machine() != "x86_64" or device.value is None:
        return
    record = _read(device.value, DEVICE_BYTES) or b""
    words = (ctypes.c_uint64 * (len(record) // 8)).from_buffer_copy(record)
    for address in words:
        is_heap = address > 2**16 and not address % HEAP_ALIGNMENT
        if is_heap and _read(address, len(UNKNOWN)) == UNKNOWN:
            name = _known_name()
            ctypes.memmove(address, name + b"\0", len(name) + 1)
            log.debug("PoCL does not know this processor: it compiles for %s", name.decode())


def _read(address: int, size: int) -> bytes | None:
    """Return bytes of this process; None where nothing is mapped."""
    buffer = ctypes.create_string_buffer(size)
    local, remote = _Range(ctypes.addressof(buffer), size), _Range(address, size)
    read = ctypes.CDLL(None).process_vm_readv
    copied = read(os.getpid(), ctypes.byref(local), 1, ctypes.byref(remote), 1, 0)
    return buffer.raw if copied == size else None


def _known_name() -> bytes:
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
        lines = (line for line in file if line.startswith("flags"))
        flags = next(lines, "").split()
    return next(name for flag, name in NAMES if not flag or flag in flags)
