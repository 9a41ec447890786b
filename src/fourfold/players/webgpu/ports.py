"""What goes in and out of one run in flight: buffers of its own, and staging memory for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fourfold.plan import Plan, Port, padded
from fourfold.players.chunked_copy import copied
from fourfold.players.protocol import Outputs
from fourfold.players.webgpu import binding as wg
from fourfold.players.webgpu.memory import USAGE, WebGpuMemory, whole_words

IN_AND_OUT = ("input", "output")
_ALIGNED = 8  # bytes at which a port begins in staging memory


class _Staged:
    """Ports side by side in one staging buffer."""

    def __init__(self, device: wg.Device, ports: Sequence[Port], upload: bool) -> None:
        self.ports, self.places, at = ports, [], 0
        for port in ports:
            self.places.append(at)
            at += -(-port.type.bytes // _ALIGNED) * _ALIGNED
        self.memory = wg.Staging(device, max(at, _ALIGNED), upload) if at else None

    def views(self) -> list[np.ndarray]:
        """The arrays that lie in it, while it is mapped."""
        memory = None if self.memory is None else self.memory.bytes()
        return [self._view(memory, *pair) for pair in zip(self.ports, self.places, strict=True)]

    def _view(self, memory: np.ndarray | None, port: Port, at: int) -> np.ndarray:
        if memory is None:
            return np.empty(port.type.shape, port.type.dtype.numpy)
        flat: np.ndarray = memory[at : at + port.type.bytes].view(port.type.dtype.numpy)
        return flat.reshape(port.type.shape)

    def ask(self) -> None:
        if self.memory is not None:
            self.memory.ask()

    def unmap(self) -> None:
        if self.memory is not None:
            self.memory.unmap()

    def release(self) -> None:
        if self.memory is not None:
            self.memory.release()


class Ports:
    """The buffers and the staging memory of all inputs and outputs, for one run at a time.

    Inputs are written while their memory is the host's, which it is from the end of a run until the
    next begins; that of the outputs is mapped at the end of a run and handed back with the results.
    """

    def __init__(self, device: wg.Device, plan: Plan, shared: Sequence[wg.Buffer | None]) -> None:
        """`shared` are the buffers of the plan that all runs have; None for those of each run."""
        self._device, self._plan = device, plan
        self._own: list[wg.Buffer] = []
        self._staged: list[_Staged] = []
        try:
            self.buffers = [one or self._make(n) for n, one in enumerate(shared)]
            self._in = self._stage(plan.inputs, upload=True)
            self._out = self._stage(plan.outputs, upload=False)
        except BaseException:
            self.release()
            raise

    def _make(self, number: int) -> wg.Buffer:
        made = wg.Buffer(self._device, padded(self._plan.buffers[number].bytes), USAGE)
        self._own.append(made)
        return made

    def _stage(self, ports: Sequence[Port], upload: bool) -> _Staged:
        self._staged.append(_Staged(self._device, ports, upload))
        return self._staged[-1]

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
            own = isinstance(array, WebGpuMemory)
            source, start = (array.buffer, 0) if own else (self._in.memory, at)
            if port.type.bytes:
                target = self.buffers[port.buffer]
                commands.copy(source, start, target, 0, whole_words(port.type.bytes))

    def put_out(self, commands: wg.Commands, into: Sequence[Any] | None) -> None:
        """Bring results to where they are wanted: memory of the device, or staging memory."""
        self._out.unmap()
        for number, (port, at) in enumerate(zip(self._plan.outputs, self._out.places, strict=True)):
            wanted = None if into is None else into[number]
            own = isinstance(wanted, WebGpuMemory)
            target, start = (wanted.buffer, 0) if own else (self._out.memory, at)
            if port.type.bytes:
                source = self.buffers[port.buffer]
                commands.copy(source, 0, target, start, whole_words(port.type.bytes))

    def ask(self) -> None:
        """Have staging memory back as soon as the run has ended."""
        self._in.ask()
        self._out.ask()

    @property
    def done(self) -> bool:
        """Whether the run has ended, as far as the device was asked."""
        return all(one.memory is None or one.memory.answered for one in self._staged)

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
        for one in (*self._own, *self._staged):
            one.release()
        self._own, self._staged = [], []


def _taken(view: np.ndarray, target: Any) -> Any:
    return copied(view, target) if isinstance(target, np.ndarray) else target
