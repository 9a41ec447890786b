"""The driver's linker, which joins the compiled parts of a program."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import byref, c_char_p, c_size_t, c_void_p

from fourfold.backends.cuda.binding.calls import call, give_back

_CUBIN = 0


def linked(parts: Sequence[bytes]) -> bytes:
    """Link parts into code that can be loaded on the current context's GPU."""
    state = c_void_p()
    call("cuLinkCreate_v2", 0, None, None, byref(state))
    try:
        for number, part in enumerate(parts):
            call(
                "cuLinkAddData_v2",
                state,
                _CUBIN,
                c_char_p(part),
                c_size_t(len(part)),
                f"part {number}".encode(),
                0,
                None,
                None,
            )
        code, size = c_void_p(), c_size_t()
        call("cuLinkComplete", state, byref(code), byref(size))
        return ctypes.string_at(code, size.value)  # copied, since the linker owns the memory
    finally:
        give_back("cuLinkDestroy", state)
