"""Device memory of a plan that all of its runs share: weights, arena, variables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial

import numpy as np

from fourfold.backends.cleanup import cleanup_on_error
from fourfold.backends.cuda import binding as cu
from fourfold.backends.port_buffers import port_buffers
from fourfold.backends.shared_uploads import SharedUploads, Upload
from fourfold.plan import Plan, padded

POISON = 0x7FC07FC0  # NaN as fp32, and as two fp16


class Constants:
    """Constants in device memory, which several players may share."""

    def __init__(self, context: cu.Context, stream: cu.Stream, values: np.ndarray) -> None:
        self._context, self._buffer = context, cu.DeviceBuffer(padded(values.nbytes))
        self.address = self._buffer.address
        if values.nbytes:
            stream.write(self.address, values)
            stream.finish()

    def __del__(self) -> None:
        if hasattr(self, "_buffer"):
            with suppress(cu.Error), self._context:  # the process may be exiting
                self._buffer.release()


_uploads: SharedUploads[Constants] = SharedUploads()


class Buffers:
    """All buffers of a plan except those that each run has its own copy of."""

    def __init__(self, context: cu.Context, plan: Plan, stream: cu.Stream) -> None:
        self.plan, self._stream = plan, stream
        self._own: dict[int, cu.DeviceBuffer] = {}
        self._constants: list[Upload[Constants]] = []
        self.addresses: dict[int, int] = {}
        with cleanup_on_error(self.release):
            self._allocate(context)

    def _allocate(self, context: cu.Context) -> None:
        ports, upload = port_buffers(self.plan), partial(Constants, context, self._stream)
        for number, buffer in enumerate(self.plan.buffers):
            if number in ports:
                continue
            if buffer.kind == "constants":
                self._constants.append(_uploads.hold(context, self.plan, buffer, upload))
                self.addresses[number] = self._constants[-1].memory.address
                continue
            allocated = self._own[number] = cu.DeviceBuffer(padded(buffer.bytes))
            self.addresses[number] = allocated.address
            if buffer.kind == "state":
                self._stream.fill(allocated.address, 0, allocated.size // 4)
        self.reset()

    def reset(self) -> None:
        """Reset the model's variables to their initial values."""
        for number, buffer in enumerate(self.plan.buffers):
            if buffer.kind == "variable":
                self._stream.write(self.addresses[number], self.plan.start_of(buffer))
        self._stream.finish()

    def variables(self) -> dict[int, int]:
        """Return the address of every variable by buffer number."""
        kinds = ((number, buffer.kind) for number, buffer in enumerate(self.plan.buffers))
        return {number: self.addresses[number] for number, kind in kinds if kind == "variable"}

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Context manager that restores the variables at its end."""
        addresses = self.variables()
        saved = {n: np.empty(self.plan.buffers[n].bytes, np.uint8) for n in addresses}
        for number, array in saved.items():
            self._stream.read(addresses[number], array)
        self._stream.finish()
        yield
        for number, array in saved.items():
            self._stream.write(addresses[number], array)
        self._stream.finish()

    def poison(self) -> None:
        """Fill the arena with NaN."""
        for number, buffer in enumerate(self.plan.buffers):
            if buffer.kind == "arena":
                arena = self._own[number]
                self._stream.fill(arena.address, POISON, arena.size // 4)

    def release(self) -> None:
        own, self._own, self._constants = self._own, {}, []
        for buffer in own.values():
            buffer.release()
