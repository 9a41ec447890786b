"""Count allocations on an OpenCL device, and what is freed."""

from __future__ import annotations

import gc

import pytest

from fourfold.backends.opencl import binding as cl
from fourfold.backends.opencl.binding import objects

READ_ONLY, HOST = 1 << 2, 1 << 4  # buffer flags: constants are read-only


class Allocations:
    """Sizes of all buffers created since, except those in host memory."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._held: dict[int | None, int] = {}
        self.sizes: list[int] = []  # in order of creation
        self.constants: list[int] = []
        make, release = cl.Buffer._make, objects.Handle.release

        def noted(
            buffer: cl.Buffer, context: cl.Context, flags: int, size: int, at: object
        ) -> None:
            make(buffer, context, flags, size, at)  # type: ignore[arg-type]
            if flags & HOST:
                return
            assert buffer.pointer is not None
            self._held[buffer.pointer.value] = size
            self.sizes.append(size)
            self.constants += [size] if flags & READ_ONLY else []

        def freed(handle: objects.Handle) -> None:
            if handle.pointer is not None:
                self._held.pop(handle.pointer.value, None)
            release(handle)

        monkeypatch.setattr(cl.Buffer, "_make", noted)
        monkeypatch.setattr(objects.Handle, "release", freed)

    @property
    def held(self) -> int:
        """Bytes that were not freed."""
        gc.collect()
        return sum(self._held.values())
