"""AsyncRuns: runs that nobody waits for at once, and the arrays that runs read and write."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from fourfold.config import count
from fourfold.lazy import lazy_import
from fourfold.runtime.inputs import Inputs, match_inputs, name_of
from fourfold.runtime.lifetime import Lifetime
from fourfold.runtime.tensor_info import TensorInfo
from fourfold.timings import Timings
from fourfold.types import Shape

if TYPE_CHECKING:
    from fourfold.players import DeviceMemory
    from fourfold.runtime import device_memory, in_flight
else:
    in_flight = lazy_import("fourfold.runtime.in_flight")
    device_memory = lazy_import("fourfold.runtime.device_memory")

IN_FLIGHT = 3  # runs that are under way at once
Results = dict[str, Any]


class AsyncRuns(Lifetime):
    """Begins runs, and gives the arrays that they read and write."""

    @property
    def timings(self) -> Timings:
        """How long each stage of opening took."""
        return self._instance.request.timings

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """What the model takes, with the shapes that it has now."""
        return self._instance.inputs

    @property
    def default_shapes(self) -> dict[str, Shape]:
        """The shapes that inputs have where nobody says others, neither with `shapes=` nor with
        arrays; those that `shapes=` names are not among them.
        """
        return self._instances.default_shapes

    @property
    def outputs(self) -> tuple[TensorInfo, ...]:
        return self._instance.outputs

    def run_async(self, inputs: Inputs | None = None) -> in_flight.RunFuture:
        """Begin a run and return: the future has the outputs some time, by `result()` or `await`.
        Inputs are copied before this returns; without any, those of `input_array` are played.

        Runs end in the order in which they began. Where several are in flight, the first is waited
        for before one more begins.
        """
        flight = self._begin(inputs, IN_FLIGHT)
        with self._lock:
            if self._waiter is None:
                self._waiter = in_flight.Waiter()
            return self._waiter.future(flight)

    def stream(self, inputs: Iterable[Inputs], depth: int = IN_FLIGHT) -> Iterator[Results]:
        """The outputs for each of the inputs, in their order, with up to `depth` runs in flight, so
        that uploads, kernels, downloads and the making of inputs overlap. The next input is asked
        for when there is room for it; results are given as soon as they are there.
        """
        self._check_open()
        return in_flight.stream(self._begin, inputs, count("depth", depth))

    def _begin(self, inputs: Inputs | None, limit: int, spin: bool = False) -> in_flight.Flight:
        with self._lock:
            self._check_open()
            if inputs is None and not self._bound:
                return self._instance.views.begin()
            arrays = self._arrays(inputs)
            device_memory.refuse_in_flight(arrays, self._bound)
            return self._instance.flights.begin(arrays, limit, spin)

    def input_array(self, name: str | None = None) -> np.ndarray:
        """Memory to fill for `run()` without inputs: that which kernels read, or, where the device
        has memory of its own, that from which it fetches inputs soonest. It stays the same from run
        to run; only while one begun by `run_async` is in flight it is another, to be asked for
        anew. `resize` ends its use.
        """
        with self._lock:
            self._check_open()
            return self._instance.views.input_array(name_of(self.inputs, name, "input"))

    def output_array(self, name: str | None = None) -> np.ndarray:
        """Where the last `run()` without inputs left an output; the next one overwrites it."""
        with self._lock:
            self._check_open()
            return self._instance.views.output_array(name_of(self.outputs, name, "output"))

    def _change(self, shapes: Mapping[str, Shape]) -> None:
        if self._instances.change(shapes):
            self._direct = self._instance.direct

    def _take_memory(self, info: TensorInfo, given: Any) -> DeviceMemory | None:
        """The device's memory behind what a caller passed; None where it is none."""
        return device_memory.take_memory(self.device, info, given)

    def _arrays(self, inputs: Inputs) -> list[Any]:
        """The inputs as they go in, arrays or memory of the device, after the model has taken on
        their shapes.
        """
        self._check_open()
        infos, told = self._instance.inputs, self._instances.told
        if self._bound:
            inputs = device_memory.with_bound(infos, inputs, self._bound)
        arrays, shapes = match_inputs(infos, inputs, told, self._take_memory)
        if shapes:
            self._change(shapes)
        return arrays
