"""ModelRunner: runs a model that is ready, from any thread."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, overload

import numpy as np

from fourfold.cpu import CPU
from fourfold.lazy import lazy_import
from fourfold.players import backend_of
from fourfold.runtime.async_runs import AsyncRuns, Results
from fourfold.runtime.inputs import Inputs, Shapes, name_of, name_shapes
from fourfold.types import Shape

if TYPE_CHECKING:
    from fourfold import trace as traces
    from fourfold.runtime import device_memory, repeated_runs, tracing
    from fourfold.runtime import results as wanted_results
    from fourfold.runtime.profile import Profile
else:
    wanted_results = lazy_import("fourfold.runtime.results")
    device_memory = lazy_import("fourfold.runtime.device_memory")
    repeated_runs = lazy_import("fourfold.runtime.repeated_runs")
    tracing, traces = lazy_import("fourfold.runtime.tracing"), lazy_import("fourfold.trace")

Names = str | Sequence[str]


class ModelRunner(AsyncRuns):
    """Runs a model that is ready. May be used from any thread."""

    @overload
    def run(
        self,
        inputs: Inputs = None,
        *,
        outputs: Names | None = None,
        out: object = None,
        keep_on_device: bool = False,
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
        keep_on_device: bool = False,
    ) -> Results | list[np.ndarray]:
        """The outputs as new arrays by name, when they are there; inputs go by name, by position,
        or alone.

        Inputs are arrays of any library, or memory of the device (see `bind`). Where the model
        leaves a size of one open, an array of another size changes the model to its shape, as
        `resize` would. Without inputs it plays what `input_array` gave the caller to fill, and the
        outputs are those arrays that `output_array` gives.

        `outputs` names those that are wanted; what only others need is not computed where that can
        be left out. `out` has arrays that results are written to, by name, in order, or alone.
        `keep_on_device` leaves results where they are: as `DeviceArray`s, inputs for other sessions
        on the device. `run(names, feeds)`, with None for all names, is called as ONNX Runtime's,
        and gives a list.
        """
        plain = outputs is None and out is None and not keep_on_device and not self._bound
        if feeds is None and plain:
            if inputs is None:
                return self._run_views()
            found = self._direct(inputs)
            if found is not None:
                return found
            with self._lock:
                arrays = self._arrays(inputs)
                return self._instance.run(arrays)
        if feeds is None:
            return self._run_wanted(inputs, outputs, out, keep_on_device)
        if inputs is None and plain:
            return list(self.run(feeds).values())
        names = wanted_results.names_before_feeds(self.outputs, inputs, outputs)
        wanted = self._run_wanted(feeds, names, out, keep_on_device)
        return [wanted[name] for name in names]

    def _run_wanted(
        self, inputs: Inputs, outputs: Names | None, out: object, keep_on_device: bool
    ) -> Results:
        with self._lock:
            repeats = outputs is None and out is not None and not self._bound
            if repeats and self._repeated is not None:
                found = self._repeated.play(self._instance, inputs, out)
                if found is not None:
                    return found
            memory = device_memory.OutputMemory(self.device, self._bound, keep_on_device)
            arrays = self._arrays(inputs)
            results = wanted_results.run_wanted(self._instances, arrays, outputs, out, memory)
            if repeats:
                self._repeated = self._repeated or repeated_runs.RepeatedRuns()
                self._repeated.note(self._instance, inputs, arrays, memory)
            return results

    def _run_views(self) -> Results:
        with self._lock:
            self._check_open()
            return self._instance.views.play()

    @property
    def context_handle(self) -> int:
        """The context of the device's API that memory must be of to be bound: for OpenCL,
        `pyopencl.Context.from_int_ptr(session.context_handle)`. A CPU has none: 0.
        """
        return 0 if self.device == CPU else backend_of(self.device).context_handle(self.device)

    def bind(self, name: str, memory: object) -> None:
        """Let an input be read from, or an output be written to, memory of the device in all runs
        that follow, without a way through the host; None ends that.

        Taken are `DeviceArray`s; on OpenCL `pyopencl.Buffer`s, images and `pyopencl.array.Array`s,
        DLPack tensors, and a `cl_mem` as a number; on CUDA tensors of PyTorch, arrays of CuPy, JAX
        and Numba, and an address as a number. Who wrote there must have finished, unless the
        session was opened on the caller's queue or stream, or it was put into CUDA's default
        stream; a run has ended when `run` returns.
        """
        with self._lock:
            self._check_open()
            infos = {info.name: info for info in (*self.inputs, *self.outputs)}
            name = name_of(tuple(infos.values()), name, "input or output")
            is_output = name in {info.name for info in self.outputs}
            if memory is None:
                self._bound.pop(name, None)
                return
            self._bound[name] = device_memory.bind_memory(
                self.device, infos[name], memory, is_output
            )

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

    def reset(self) -> None:
        """Forget what operators such as LSTM kept from run to run, as in a new session."""
        with self._lock:
            self._check_open()
            self._instance.reset()
            self._direct = self._instance.direct

    def profile(self, inputs: Inputs, runs: int = 10) -> Profile:
        """The shortest time of every launch over some runs, by the device's own clock.

        A plan that is played as one launch is built once more with clocks in it, and the list is of
        its stages in the shortest run. Where kernels have no clock, it is made anew as a list of
        launches. `profile(...).form` says which of these it is.
        """
        with self._lock:
            arrays = self._arrays(inputs)
            return self._instance.profile(arrays, runs)

    @contextmanager
    def trace(
        self, path: str | os.PathLike[str] | None = None, opening: bool = False
    ) -> Iterator[traces.Trace]:
        """Write down what the host and the device do in the runs inside: a `with` gives the trace,
        which is saved at its end where a path is given, for Perfetto and chrome://tracing.

        It holds runs for the shapes that the model has now, and with `opening` how the session was
        opened, too. A plan of one launch is played with clocks in it, and a list launch by launch,
        so runs inside take a little longer than others. Arrays that `input_array` gave before are
        not those that are played.
        """
        with self._lock:
            self._check_open()
            instance = self._instance
            spans = tracing.opening_spans(self.timings.spans) if opening else []
            found = traces.Trace(str(self.device), spans[0].began if spans else None)
            found.add(*spans)
            traced = tracing.trace_instance(instance, found)
            with found.span("setting up the trace") if opening else nullcontext():
                traced.__enter__()
            self._direct = instance.direct
        try:
            yield found
        finally:
            with self._lock:
                traced.__exit__(None, None, None)
                self._direct = self._instance.direct
            if path is not None:
                found.save(path)

    def device_seconds(self, inputs: Inputs, runs: int = 10) -> float:
        """What all launches of a run take by the device's own clock, in the plan that is played."""
        with self._lock:
            return sum(self._instance.player.profile(self._arrays(inputs), runs))

    def run_seconds(self, inputs: Inputs, runs: int = 10) -> list[float]:
        """How long runs take by the clock of the machine that the device is on."""
        with self._lock:
            arrays = self._arrays(inputs)
            return self._instance.run_seconds(arrays, runs)

    @property
    def is_in_parts(self) -> bool:
        """Whether engines for the CPU run some of the model, or all."""
        return self._instance.in_parts
