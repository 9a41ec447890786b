"""Slot: memory and launches of one run in flight."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from ctypes import c_uint64
from typing import Any

import numpy as np

from fourfold.backends.protocol import Outputs
from fourfold.backends.webgpu import binding as wg
from fourfold.backends.webgpu.failures import convert_errors
from fourfold.backends.webgpu.launches import Launches
from fourfold.backends.webgpu.ports import Ports
from fourfold.device import DeviceInfo
from fourfold.errors import FourfoldError
from fourfold.plan import Plan, Port

DOING = "running the model"


class Flight:
    """Starts and ends runs, one after the other: the ports, and the launches of the plan."""

    def __init__(self, device: wg.Device, ports: Ports, launches: Launches) -> None:
        self.device, self.ports, self.launches = device, ports, launches

    def begin(self, arrays: Sequence[Any], into: Sequence[Any] | None) -> c_uint64:
        """Submit a run; returns the index to wait for."""
        commands = wg.Commands(self.device)
        self.ports.put_in(commands, arrays)
        commands = self.launches.put(self.device, commands)
        self.ports.put_out(commands, into)
        index = commands.submit()
        self.ports.ask()
        return index

    def end(self, index: c_uint64, into: Sequence[Any] | None) -> Outputs:
        """Wait for a run and return the results."""
        self.device.wait(index)
        return self.ports.take(into)

    def release(self) -> None:
        self.launches.release()
        self.ports.release()


class Slot:
    """One run in flight; see the protocol. `inputs` and `outputs` are separate arrays, since
    staging memory is not always mapped.
    """

    def __init__(self, info: DeviceInfo, plan: Plan, flight: Flight) -> None:
        self._info, self._needed, self._flight = info, plan.device_bytes, flight
        self.inputs, self.outputs = _arrays(plan.inputs), _arrays(plan.outputs)
        self._index: c_uint64 | None = None

    def begin(self, arrays: Sequence[np.ndarray | None], spin: bool = False) -> None:
        self.end()  # the caller may have stopped waiting for the previous run
        for own, array in zip(self.inputs, arrays, strict=True):
            if array is not None:
                np.copyto(own, array)
        with convert_errors(DOING, self._info, self._needed):
            self._index = self._flight.begin(self.inputs, None)

    @property
    def done(self) -> bool:
        if self._index is None or self._flight.ports.done:
            return True
        with convert_errors(DOING, self._info, self._needed):
            self._flight.device.poll()
        return self._flight.ports.done

    def end(self, spin: bool = False) -> Sequence[np.ndarray]:
        index = self._index
        if index is not None:
            with convert_errors(DOING, self._info, self._needed):
                self._flight.end(index, self.outputs)
            self._index = None  # not earlier: another thread may check `done` meanwhile
        return self.outputs

    def close(self) -> None:
        with suppress(FourfoldError):  # errors are reported to the waiter of the run
            self.end()
        with suppress(wg.Error):  # a lost device has nothing to free
            self._flight.release()


def _arrays(ports: Sequence[Port]) -> tuple[np.ndarray, ...]:
    return tuple(np.zeros(port.type.shape, port.type.dtype.array_dtype) for port in ports)
