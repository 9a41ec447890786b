"""ModelRunner: a model that is ready, run from any thread, at once or in flight."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, overload

import numpy as np

from fourfold.config import count
from fourfold.lazy import lazy_import
from fourfold.runtime.inputs import Inputs, Shapes, match_inputs, name_of, name_shapes
from fourfold.runtime.instance import KernelTime
from fourfold.runtime.lifetime import Lifetime
from fourfold.runtime.tensor_info import TensorInfo
from fourfold.timings import Timings
from fourfold.types import Shape

if TYPE_CHECKING:
    from fourfold.runtime import in_flight
    from fourfold.runtime import results as wanted_results
else:
    in_flight = lazy_import("fourfold.runtime.in_flight")
    wanted_results = lazy_import("fourfold.runtime.results")

IN_FLIGHT = 3  # runs that are under way at once
Results = dict[str, np.ndarray]
Names = str | Sequence[str]


class ModelRunner(Lifetime):
    """Runs a model that is ready. May be used from any thread."""

    @property
    def timings(self) -> Timings:
        """How long each stage of opening took."""
        return self._instance.request.timings

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """What the model takes, with the shapes that it has now."""
        return self._instance.inputs

    @property
    def outputs(self) -> tuple[TensorInfo, ...]:
        return self._instance.outputs

    @overload
    def run(
        self, inputs: Inputs = None, *, outputs: Names | None = None, out: object = None
    ) -> Results: ...
    @overload
    def run(
        self, inputs: Names | None, feeds: Inputs, *, out: object = None
    ) -> list[np.ndarray]: ...
    def run(
        self,
        inputs: Inputs = None,
        feeds: Inputs = None,
        *,
        outputs: Names | None = None,
        out: object = None,
    ) -> Results | list[np.ndarray]:
        """The outputs as new arrays by name; inputs go by name, by position, or alone.

        Inputs are arrays of any library. Where the model leaves a size of one open, an array of
        another size changes the model to its shape, as `resize` would. Without inputs it plays
        what `input_array` gave the caller to fill, and the outputs are those arrays that
        `output_array` gives.

        `outputs` names those that are wanted; what only others need is not computed where that can
        be left out. `out` has arrays that results are written to, by name, in order, or alone.
        `run(names, feeds)`, with None for all names, is called as ONNX Runtime's, and gives a list.
        """
        if feeds is None and outputs is None and out is None:
            if inputs is None:
                return self._run_views()
            found = self._direct(inputs)
            if found is not None:
                return found
            with self._lock:
                arrays = self._arrays(inputs)
                return self._instance.run(arrays)
        if feeds is None:
            return self._run_wanted(inputs, outputs, out)
        names = wanted_results.names_before_feeds(self.outputs, inputs, outputs)
        wanted = self._run_wanted(feeds, names, out)
        return [wanted[name] for name in names]

    def _run_wanted(self, inputs: Inputs, outputs: Names | None, out: object) -> Results:
        with self._lock:
            arrays = self._arrays(inputs)
            return wanted_results.run_wanted(self._instances, arrays, outputs, out)

    def _run_views(self) -> Results:
        with self._lock:
            self._check_open()
            return self._instance.views.play()

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

    def _begin(self, inputs: Inputs | None, limit: int) -> in_flight.Flight:
        with self._lock:
            self._check_open()
            if inputs is None:
                return self._instance.views.begin()
            arrays = self._arrays(inputs)
            return self._instance.flights.begin(arrays, limit)

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

    def resize(self, shapes: Shapes | None = None, /, **named: Shape) -> None:
        """Make the model ready for other shapes of its inputs: a dict by name, names with shapes,
        or one shape where there is one input. Those that are not given stay as they are.

        What was made for the last few shapes is kept (`kept_shapes`), so that coming back to one
        of them makes nothing anew. What operators kept from run to run is forgotten. Where a
        shape does not fit the model, all stays as it was.
        """
        with self._lock:
            self._check_open()
            self._change(name_shapes(self.inputs, shapes, named))

    def _change(self, shapes: Mapping[str, Shape]) -> None:
        if self._instances.change(shapes):
            self._direct = self._instance.direct

    def reset(self) -> None:
        """Forget what operators such as LSTM kept from run to run, as in a new session."""
        with self._lock:
            self._check_open()
            self._instance.reset()
            self._direct = self._instance.direct

    def profile(self, inputs: Inputs, runs: int = 10) -> list[KernelTime]:
        """The shortest time of every launch over some runs, by the device's own clock.

        A plan that is played as one launch is made anew as a list of them for this.
        """
        with self._lock:
            arrays = self._arrays(inputs)
            return self._instance.profile(arrays, runs)

    def _arrays(self, inputs: Inputs) -> list[np.ndarray]:
        """The inputs as they go in, after the model has taken on their shapes."""
        self._check_open()
        arrays, shapes = match_inputs(self._instance.inputs, inputs, self._instances.told)
        if shapes:
            self._change(shapes)
        return arrays
