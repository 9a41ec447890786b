"""Inputs and outputs of one run in flight: its buffers, and staging memory for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fourfold.backends.chunked_copy import copied
from fourfold.backends.cleanup import cleanup_on_error
from fourfold.backends.protocol import Outputs
from fourfold.backends.webgpu import binding as wg
from fourfold.backends.webgpu.memory import USAGE, WebGpuMemory, whole_words
from fourfold.plan import Plan, Port, padded

PORT_KINDS = ("input", "output")
_ALIGNED = 8  # bytes; alignment of a port in staging memory


class _Staged(wg.Staging):
    """Ports side by side in staging memory."""

    def __init__(self, device: wg.Device, ports: Sequence[Port], upload: bool) -> None:
        self._ports = ports
        self.offsets: list[int] = []
        at = 0
        for port in ports:
            self.offsets.append(at)
            at += -(-port.type.bytes // _ALIGNED) * _ALIGNED
        super().__init__(device, max(at, _ALIGNED), upload)

    def views(self) -> list[np.ndarray]:
        """Return the arrays in it, while it is mapped."""
        memory, arrays = self.bytes(), []
        for port, at in zip(self._ports, self.offsets, strict=True):
            flat = memory[at : at + port.type.bytes].view(port.type.dtype.numpy)
            arrays.append(flat.reshape(port.type.shape))
        return arrays


class Ports:
    """The buffers and the staging memory of all inputs and outputs, for one run at a time.

    Inputs are written while their memory is mapped, from the end of a run until the next begins.
    The memory of outputs is mapped at the end of a run and unmapped after reading the results.
    """

    def __init__(self, device: wg.Device, plan: Plan, shared: Sequence[wg.Buffer | None]) -> None:
        """`shared` are the buffers of the plan that all runs share; None for those of each run."""
        self._device, self._plan = device, plan
        self._own: list[wg.Buffer] = []
        with cleanup_on_error(self.release):
            self.buffers = [one or self._make(n) for n, one in enumerate(shared)]
            self._in = _Staged(device, plan.inputs, upload=True)
            self._own.append(self._in)
            self._out = _Staged(device, plan.outputs, upload=False)
            self._own.append(self._out)

    def _make(self, number: int) -> wg.Buffer:
        buffer = wg.Buffer(self._device, padded(self._plan.buffers[number].bytes), USAGE)
        self._own.append(buffer)
        return buffer

    def inputs(self) -> list[np.ndarray]:
        """Return the arrays to write inputs to, until the next run begins."""
        return self._in.views()

    def put_in(self, commands: wg.Commands, arrays: Sequence[Any]) -> None:
        """Upload inputs: arrays, or device memory; None is already in staging memory."""
        views = self._in.views()
        for view, array in zip(views, arrays, strict=True):
            if isinstance(array, np.ndarray):
                copied(array, view)
        self._in.unmap()
        for port, at, array in zip(self._plan.inputs, self._in.offsets, arrays, strict=True):
            target, size = self.buffers[port.buffer], whole_words(port.type.bytes)
            if isinstance(array, WebGpuMemory):
                commands.copy(array.buffer, 0, target, 0, size)
            else:
                commands.copy(self._in, at, target, 0, size)

    def put_out(self, commands: wg.Commands, into: Sequence[Any] | None) -> None:
        """Copy results to their targets: device memory, or staging memory."""
        self._out.unmap()
        targets = [None] * len(self._plan.outputs) if into is None else into
        pairs = zip(self._plan.outputs, self._out.offsets, targets, strict=True)
        for port, at, target in pairs:
            source, size = self.buffers[port.buffer], whole_words(port.type.bytes)
            if isinstance(target, WebGpuMemory):
                commands.copy(source, 0, target.buffer, 0, size)
            else:
                commands.copy(source, 0, self._out, at, size)

    def ask(self) -> None:
        """Request the mapping of staging memory when the run has ended."""
        self._in.ask()
        self._out.ask()

    @property
    def done(self) -> bool:
        """Return True if the run is known to have ended."""
        return self._in.answered and self._out.answered

    def outputs(self) -> list[np.ndarray]:
        """Return the results in staging memory, until the next run begins."""
        return self._out.views()

    def take(self, into: Sequence[Any] | None) -> Outputs:
        """Return the results: as new arrays, or copied into the arrays of `into`."""
        views = self._out.views()
        if into is None:
            results: Outputs = [copied(view) for view in views]
        else:
            pairs = zip(views, into, strict=True)
            results = [_taken(view, target) for view, target in pairs]
        self._out.unmap()
        return results

    def release(self) -> None:
        for one in self._own:
            one.release()
        self._own = []


def _taken(view: np.ndarray, target: Any) -> Any:
    return copied(view, target) if isinstance(target, np.ndarray) else target
