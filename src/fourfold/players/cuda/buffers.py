"""The memory of a plan on a CUDA device that all of its runs share: weights, arena, variables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial

import numpy as np

from fourfold.plan import Plan, padded
from fourfold.players.cleanup import cleanup_on_error
from fourfold.players.cuda import binding as cu
from fourfold.players.port_buffers import port_buffers
from fourfold.players.shared_uploads import SharedUploads, Upload

POISON = 0x7FC07FC0  # NaN as a float, and as two halves


class Constants:
    """Constants in memory of the device, which several players may hold."""

    def __init__(self, context: cu.Context, stream: cu.Stream, values: np.ndarray) -> None:
        self._context, self._buffer = context, cu.DeviceBuffer(padded(values.nbytes))
        self.address = self._buffer.address
        if values.nbytes:
            stream.write(self.address, values)
            stream.finish()

    def __del__(self) -> None:
        if hasattr(self, "_buffer"):
            with suppress(cu.Error), self._context:  # the process may be at its end
                self._buffer.release()


_uploads: SharedUploads[Constants] = SharedUploads()


class Buffers:
    """Every buffer of a plan but those that each run has of its own."""

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
            made = self._own[number] = cu.DeviceBuffer(padded(buffer.bytes))
            self.addresses[number] = made.address
            if buffer.kind == "state":
                self._stream.fill(made.address, 0, made.size // 4)
        self.reset()

    def reset(self) -> None:
        """Set the model's variables back to what they began with."""
        for number, buffer in enumerate(self.plan.buffers):
            if buffer.kind == "variable":
                self._stream.write(self.addresses[number], self.plan.start_of(buffer))
        self._stream.finish()

    def variables(self) -> dict[int, int]:
        """The address of every variable, by the number of its buffer."""
        kinds = ((number, buffer.kind) for number, buffer in enumerate(self.plan.buffers))
        return {number: self.addresses[number] for number, kind in kinds if kind == "variable"}

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Puts variables back to what they were before."""
        places = self.variables()
        saved = {n: np.empty(self.plan.buffers[n].bytes, np.uint8) for n in places}
        for number, array in saved.items():
            self._stream.read(places[number], array)
        self._stream.finish()
        yield
        for number, array in saved.items():
            self._stream.write(places[number], array)
        self._stream.finish()

    def poison(self) -> None:
        """Fill the arena with NaN."""
        for number, buffer in enumerate(self.plan.buffers):
            if buffer.kind == "arena":
                made = self._own[number]
                self._stream.fill(made.address, POISON, made.size // 4)

    def release(self) -> None:
        own, self._own, self._constants = self._own, {}, []
        for buffer in own.values():
            buffer.release()
