"""What goes in and out of one run in flight: buffers of its own, and staging memory for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fourfold.plan import Plan, Port, padded
from fourfold.players.chunked_copy import copied
from fourfold.players.cleanup import cleanup_on_error
from fourfold.players.protocol import Outputs
from fourfold.players.webgpu import binding as wg
from fourfold.players.webgpu.memory import USAGE, WebGpuMemory, whole_words

IN_AND_OUT = ("input", "output")
_ALIGNED = 8  # bytes at which a port begins in staging memory


class _Staged(wg.Staging):
    """Ports side by side in staging memory."""

    def __init__(self, device: wg.Device, ports: Sequence[Port], upload: bool) -> None:
        self._ports = ports
        self.places: list[int] = []
        at = 0
        for port in ports:
            self.places.append(at)
            at += -(-port.type.bytes // _ALIGNED) * _ALIGNED
        super().__init__(device, max(at, _ALIGNED), upload)

    def views(self) -> list[np.ndarray]:
        """The arrays that lie in it, while it is mapped."""
        memory, found = self.bytes(), []
        for port, at in zip(self._ports, self.places, strict=True):
            flat = memory[at : at + port.type.bytes].view(port.type.dtype.numpy)
            found.append(flat.reshape(port.type.shape))
        return found


class Ports:
    """The buffers and the staging memory of all inputs and outputs, for one run at a time.

    Inputs are written while their memory is the host's, which it is from the end of a run until the
    next begins; that of the outputs is mapped at the end of a run and handed back with the results.
    """

    def __init__(self, device: wg.Device, plan: Plan, shared: Sequence[wg.Buffer | None]) -> None:
        """`shared` are the buffers of the plan that all runs have; None for those of each run."""
        self._device, self._plan = device, plan
        self._own: list[wg.Buffer] = []
        with cleanup_on_error(self.release):
            self.buffers = [one or self._make(n) for n, one in enumerate(shared)]
            self._in = _Staged(device, plan.inputs, upload=True)
            self._own.append(self._in)
            self._out = _Staged(device, plan.outputs, upload=False)
            self._own.append(self._out)

    def _make(self, number: int) -> wg.Buffer:
        made = wg.Buffer(self._device, padded(self._plan.buffers[number].bytes), USAGE)
        self._own.append(made)
        return made

    def inputs(self) -> list[np.ndarray]:
        """Where inputs are written, until the next run begins."""
        return self._in.views()

    def put_in(self, commands: wg.Commands, arrays: Sequence[Any]) -> None:
        """Bring inputs to the device: arrays, or memory of it; what is None is there already, in
        staging memory.
        """
        views = self._in.views()
        for view, array in zip(views, arrays, strict=True):
            if isinstance(array, np.ndarray):
                copied(array, view)
        self._in.unmap()
        for port, at, array in zip(self._plan.inputs, self._in.places, arrays, strict=True):
            target, size = self.buffers[port.buffer], whole_words(port.type.bytes)
            if isinstance(array, WebGpuMemory):
                commands.copy(array.buffer, 0, target, 0, size)
            else:
                commands.copy(self._in, at, target, 0, size)

    def put_out(self, commands: wg.Commands, into: Sequence[Any] | None) -> None:
        """Bring results to where they are wanted: memory of the device, or staging memory."""
        self._out.unmap()
        targets = [None] * len(self._plan.outputs) if into is None else into
        pairs = zip(self._plan.outputs, self._out.places, targets, strict=True)
        for port, at, target in pairs:
            source, size = self.buffers[port.buffer], whole_words(port.type.bytes)
            if isinstance(target, WebGpuMemory):
                commands.copy(source, 0, target.buffer, 0, size)
            else:
                commands.copy(source, 0, self._out, at, size)

    def ask(self) -> None:
        """Have staging memory back as soon as the run has ended."""
        self._in.ask()
        self._out.ask()

    @property
    def done(self) -> bool:
        """Whether the run has ended, as far as the device was asked."""
        return self._in.answered and self._out.answered

    def outputs(self) -> list[np.ndarray]:
        """The results where they lie, until the next run begins."""
        return self._out.views()

    def take(self, into: Sequence[Any] | None) -> Outputs:
        """The results: as new arrays, or where they are wanted."""
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
