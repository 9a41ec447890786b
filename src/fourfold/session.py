"""Session: a model that is ready to run on a device."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from fourfold import backends
from fourfold.backends.cpu import CPU
from fourfold.backends.null import NULL_GPU
from fourfold.config import PlacementName, Precision, count
from fourfold.errors import DeviceError, InputError
from fourfold.options import AUTO, SessionOptions
from fourfold.plan import CompiledModel, Plan
from fourfold.runtime.inputs import Inputs, Shapes, match_inputs, name_of, name_shapes
from fourfold.runtime.instance import ModelInstance, not_direct
from fourfold.runtime.instance_cache import InstanceCache
from fourfold.runtime.opening import Cache, Model, find_store, model_reader, open_request, path_text
from fourfold.runtime.opening import path_or_bytes as path_or_bytes
from fourfold.runtime.tensor_info import TensorInfo
from fourfold.support import forks
from fourfold.support.lazy import lazy_import
from fourfold.support.log import Log
from fourfold.support.timings import Timings
from fourfold.types import Shape

if TYPE_CHECKING:
    import pickle
    import traceback

    from fourfold.backends import DeviceMemory
    from fourfold.compiler import compile as compiler
    from fourfold.graph.metadata import ModelMetadata, Signature
    from fourfold.options import CompileOptions
    from fourfold.plan.placement import OperatorPlacement, Placement
    from fourfold.processing.option import PostprocessOption
    from fourfold.processing.pixels import PixelsOption
    from fourfold.runtime import (
        description,
        device_memory,
        in_flight,
        other_api,
        repeated_runs,
        stages,
        tracing,
    )
    from fourfold.runtime import results as wanted_results
    from fourfold.runtime.profile import Profile
    from fourfold.runtime.request import Request
    from fourfold.store.store import Store
    from fourfold.support import trace as traces
    from fourfold.support.progress import ProgressOption
    from fourfold.tools.report.run_report import report as reports
else:  # a plain start and run need none of these
    pickle, compiler = lazy_import("pickle"), lazy_import("fourfold.compiler.compile")
    reports = lazy_import("fourfold.tools.report.run_report.report")
    traceback = lazy_import("traceback")
    traces, tracing = lazy_import("fourfold.support.trace"), lazy_import("fourfold.runtime.tracing")
    description = lazy_import("fourfold.runtime.description")
    device_memory = lazy_import("fourfold.runtime.device_memory")
    in_flight = lazy_import("fourfold.runtime.in_flight")
    other_api = lazy_import("fourfold.runtime.other_api")
    repeated_runs = lazy_import("fourfold.runtime.repeated_runs")
    stages = lazy_import("fourfold.runtime.stages")
    wanted_results = lazy_import("fourfold.runtime.results")

_LOG = Log("session")
RUNS_IN_FLIGHT = 3  # default number of asynchronous runs that overlap
Stage = Literal["graph", "rewritten", "plan", "kernels"]
Results = dict[str, Any]
Names = str | Sequence[str]


class Session:
    """A model that is ready to run on one device. A session may be used from any thread.

    `close` frees its memory; a `with` block closes it at the end. A model that the device cannot
    run as a whole runs in parts: `session.placement` says which operator runs where, and why.

    Args:
        source: The model: a path, bytes, an open file, or a tuple of paths for a model whose files
            lie in different folders. TensorFlow, Keras and PyTorch models are converted first.
        device: 'auto', an index, part of a device's name (see `fourfold.devices()`), 'cpu', or a
            `pyopencl.CommandQueue`, `pyopencl.Context` or CUDA stream to share.
        precision: 'fp32', 'mixed' (fp16 storage, fp32 arithmetic) or 'fp16'.
        shapes: Shapes of inputs by name, where they differ from the model's own.
        cache: Where compiled models are cached: 'auto' (the user's cache folder), a folder,
            'memory' (this process), or None.
        model: Name of the model, for a prepared file that holds several.
        placement: 'auto' (the device, except operators that it cannot run or would run slower),
            'measure' (as 'auto', then run the model on the CPU too and keep the faster), 'gpu'
            (every operator that the device can run) or 'cpu'.
        strict: Raise an error if any operator would run on the CPU.
        max_partitions: Largest number of parts on the device.
        on_fallback: Function to call with each operator that stays on the CPU.
        threads: Number of CPU threads.
        isolate: Run CPU engines in another process, for models that may be hostile: a crash of
            the engine becomes a DeviceError.
        quantized: Let quantized operators run on the device. False keeps them on the CPU.
        follow_batch: Let reshapes with a fixed batch size follow another batch. False takes them
            literally, as LiteRT does.
        kept_shapes: Number of input shapes that the model stays ready for (see `resize`).
        memory_limit: Largest device memory of the session, in bytes or as text such as '512 MB'.
            Smaller plans are tried before an error is raised.
        signature: Signature by which the model is called, one of `session.signatures`.
        pixels: Inputs that take the bytes of a picture: a `Pixels` for the only picture input, or a
            dict of them by name.
        postprocess: Postprocessing of outputs on the device: an option of `fourfold.processing`, or
            a dict of them by output.
        trust: Files that may run the code they hold: 'extension' (prepared files, and models that a
            framework converts, whose extension says what they are), 'data' (none), 'signed:KEY'
            (prepared files signed with this public key) or 'all'. The setting FOURFOLD_TRUST is the
            default.
        serialization_dir: TFLite's name for `cache`.
        model_token: TFLite's name for a string that tells versions of a model apart in the cache.
        progress: True for a progress bar in a terminal or notebook, or a function that is called
            with (done, total, stage, seconds left).
    """

    def __init__(
        self,
        source: Model,
        device: object = None,
        precision: Precision | None = None,
        shapes: Mapping[str, Shape] | None = None,
        *,
        cache: Cache = AUTO,
        model: str | None = None,
        placement: PlacementName = "auto",
        strict: bool = False,
        max_partitions: int | None = None,
        on_fallback: Callable[[OperatorPlacement], None] | None = None,
        threads: int | None = None,
        isolate: bool = False,
        quantized: bool = True,
        follow_batch: bool = True,
        kept_shapes: int | None = None,
        memory_limit: int | str | None = None,
        signature: str | None = None,
        pixels: PixelsOption | None = None,
        postprocess: PostprocessOption | None = None,
        trust: str | None = None,
        serialization_dir: str | os.PathLike[str] | None = None,
        model_token: str = "",
        progress: ProgressOption | None = None,
    ) -> None:
        arguments = dict(locals())
        options = SessionOptions(**{k: v for k, v in arguments.items() if k not in _NOT_OPTIONS})
        self._source, self._options = path_or_bytes(source), options
        try:
            request, store = open_request(self._source, options)
            limit = options.shape_limit(request.config)
            selection = options.wanted_device(request.config)
            open_ = partial(_open_instances, request, store, limit, selection)
            request, instances = (
                open_() if progress is None else stages.open_with_progress(open_, request, progress)
            )
        except InputError as error:
            raise _without_frames(error) from None
        self._use(request, store, limit, instances)

    @classmethod
    def open(cls, source: Model, options: SessionOptions) -> Session:
        """Open a model with options that were collected in a `SessionOptions`."""
        return cls(source, **options.keywords())

    def _use(
        self, request: Request, store: Store | None, limit: int, instances: InstanceCache
    ) -> None:
        self.device = request.device
        self._opened_with, self._instances = (request, store, limit), instances
        self._lock, self._closed, self._forked = threading.Lock(), False, False
        self._waiter: in_flight.Waiter | None = None
        self._bound: dict[str, device_memory.MemoryBinding] = {}  # device memory by port name
        self._direct = self._instance.direct
        self._repeated: repeated_runs.RepeatedRuns | None = None
        forks.follow(self, Session._leave_to_parent)

    @property
    def _instance(self) -> ModelInstance:
        return self._instances.current

    def __repr__(self) -> str:
        if not hasattr(self, "_instances"):  # it could not be opened
            return "<Session>"
        return str(description.session_line(self._instance, self._closed))

    def _repr_html_(self) -> str:
        if not hasattr(self, "_instances"):
            return "<p>Session</p>"
        return str(description.session_html(self._instance, self._closed))

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """The inputs of the model, with their current shapes."""
        return self._instance.inputs

    @property
    def outputs(self) -> tuple[TensorInfo, ...]:
        """The outputs of the model, with their current shapes."""
        return self._instance.outputs

    @property
    def default_shapes(self) -> dict[str, Shape]:
        """Shapes of the inputs that `shapes=` did not name, as the model was opened."""
        return self._instances.default_shapes

    @property
    def metadata(self) -> ModelMetadata:
        """Metadata of the model: name, author, labels, scaling of inputs. `problems` lists what
        could not be read.
        """
        return self._instance.about.metadata

    @property
    def title(self) -> str:
        """Name of the model: that of its file, or its own in a prepared file. '' in memory."""
        return str(description.model_name(self._instance.request))

    @property
    def signatures(self) -> Mapping[str, Signature]:
        """The signatures of the model; `signature=` selects one."""
        return self._instance.about.signatures

    @property
    def placement(self) -> Placement:
        """The target of every operator, and why. It prints as a table and has `to_json()`."""
        return self._instance.placement

    @property
    def compiled(self) -> CompiledModel:
        """The compiled model: its parts, plans, ports and placement record."""
        return self._instance.model

    @property
    def plan(self) -> Plan:
        """The plan of a model that runs whole on the device."""
        if not self.compiled.is_whole:
            why = f"the model runs in {len(self.compiled.parts)} parts"
            raise InputError("the session has no single plan", why, "use session.compiled.plans")
        return self.compiled.plan

    @property
    def is_in_parts(self) -> bool:
        """True if CPU engines run some of the model, or all of it."""
        return not self.compiled.is_whole

    @property
    def precision(self) -> str:
        """The precision that the model was compiled in."""
        return self.compiled.precision

    @property
    def origin(self) -> str:
        """Source of the compiled model: 'file' (prepared), 'store' (cache) or 'model'."""
        return self._instance.origin

    @property
    def hit(self) -> bool:
        """True if nothing had to be compiled."""
        return self.origin != "model"

    @property
    def timings(self) -> Timings:
        """Seconds of each stage of opening the model."""
        return self._instance.request.timings

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
        """Run the model and return its outputs as new arrays, by name.

        An input whose size the model leaves open may have any size: the model is compiled for a new
        shape as `resize` would. `run(names, feeds)` has the signature of ONNX Runtime's method and
        returns a list; `names` may be None for all outputs.

        Args:
            inputs: Arrays of any library or device memory (see `bind`): a dict by name, a list by
                position, or one array. None runs on the arrays of `input_array`, and the results
                are the arrays of `output_array`.
            outputs: Names of the only outputs to compute.
            out: Arrays to write results to: a dict by name, a list, or one array.
            keep_on_device: Return results as `DeviceArray`s, to pass to other sessions.
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

    def run_async(self, inputs: Inputs | None = None) -> in_flight.RunFuture:
        """Start a run and return a future, for `result()` or `await`.

        Inputs are copied before this returns; without any, the arrays of `input_array` are used.
        Runs finish in the order in which they were started. If several are in flight, this waits
        for the first of them.
        """
        flight = self._begin(inputs, RUNS_IN_FLIGHT)
        with self._lock:
            if self._waiter is None:
                self._waiter = in_flight.Waiter()
            return self._waiter.future(flight)

    def stream(self, inputs: Iterable[Inputs], depth: int = RUNS_IN_FLIGHT) -> Iterator[Results]:
        """Run the model on each of the inputs, and yield outputs in order.

        Up to `depth` runs are in flight, so that uploads, kernels, downloads and the preparation of
        inputs overlap. The next input is taken when there is room for it.
        """
        self._check_open()
        try:
            several = iter(inputs)
        except TypeError as error:
            what, fix = "the inputs of a stream cannot be iterated", "pass a list or generator"
            raise InputError(what, str(error), fix) from error
        return in_flight.stream(self._begin, several, count("depth", depth))

    def _begin(self, inputs: Inputs | None, limit: int, spin: bool = False) -> in_flight.Flight:
        with self._lock:
            self._check_open()
            if inputs is None and not self._bound:
                return self._instance.views.begin()
            arrays = self._arrays(inputs)
            device_memory.refuse_in_flight(arrays, self._bound)
            return self._instance.flights.begin(arrays, limit, spin)

    def input_array(self, name: str | None = None) -> np.ndarray:
        """Return the array to fill for `run()` without inputs.

        It is memory that kernels read, or that the device fetches inputs from fastest. It stays the
        same from run to run, except while a run of `run_async` is in flight; then ask again.
        `resize` ends its use.
        """
        with self._lock:
            self._check_open()
            return self._instance.views.input_array(name_of(self.inputs, name, "input"))

    def output_array(self, name: str | None = None) -> np.ndarray:
        """Return the array with an output of the last `run()` without inputs. The next run
        overwrites it.
        """
        with self._lock:
            self._check_open()
            return self._instance.views.output_array(name_of(self.outputs, name, "output"))

    @property
    def context_handle(self) -> int:
        """Handle of the context that device memory must belong to. For OpenCL, pass it to
        `pyopencl.Context.from_int_ptr`. 0 for the CPU.
        """
        if self.device == CPU:
            return 0
        return backends.backend_of(self.device).context_handle(self.device)

    def bind(self, name: str, memory: object) -> None:
        """Read an input from device memory, or write an output to it, in all following runs. None
        ends the binding.

        OpenCL takes `DeviceArray`, `pyopencl.Buffer`, images, `pyopencl.array.Array`, DLPack
        tensors and a `cl_mem` as an integer. CUDA takes `DeviceArray`, PyTorch tensors, arrays of
        CuPy, JAX and Numba, and an address as an integer. Whatever wrote the memory must have
        finished, unless the session shares its queue or stream, or it used CUDA's default stream.
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
        """Compile the model for other input shapes: a dict by name, keywords, or one shape for the
        only input. Inputs that are not named keep their shapes.

        The last few shapes stay ready (`kept_shapes`), so that going back to one is free. States
        are reset. If a shape does not fit the model, the session stays as it was.
        """
        with self._lock:
            self._check_open()
            self._change(name_shapes(self.inputs, shapes, named))

    def reset(self) -> None:
        """Reset the states of operators such as LSTM to those of a new session."""
        with self._lock:
            self._check_open()
            self._instance.reset()
            self._direct = self._instance.direct

    def profile(self, inputs: Inputs, runs: int = 10) -> Profile:
        """Measure the shortest time of each kernel over some runs, with the device's own clock.

        A model that is one launch is compiled again with clocks in its stages. Where kernels have
        no clock, it is compiled as a list of launches. `profile(...).form` says which was used.
        """
        with self._lock:
            arrays = self._arrays(inputs)
            return self._instance.profile(arrays, count("runs", runs))

    @contextmanager
    def trace(
        self, path: str | os.PathLike[str] | None = None, opening: bool = False
    ) -> Iterator[traces.Trace]:
        """Record what the host and the device do in the runs inside a `with` block. The trace is
        saved to `path` at the end, for Perfetto and chrome://tracing.

        `opening` adds how the session was opened. Runs inside take a little longer than others, and
        arrays that `input_array` returned before are not used.
        """
        path = None if path is None else path_text(path)
        with self._lock:
            self._check_open()
            instance = self._instance
            spans = tracing.opening_spans(self.timings.spans) if opening else []
            recorded = traces.Trace(str(self.device), spans[0].began if spans else None)
            recorded.add(*spans)
            traced = tracing.trace_instance(instance, recorded)
            with recorded.span("setting up the trace") if opening else nullcontext():
                traced.__enter__()
            self._direct = instance.direct
        try:
            yield recorded
        finally:
            with self._lock:
                traced.__exit__(None, None, None)
                self._direct = self._instance.direct
            if path is not None:
                recorded.save(path)

    def report(
        self,
        inputs: Inputs = None,
        *,
        verify: bool = False,
        candidates: bool = False,
        seconds: float = 3.0,
    ) -> reports.RunReport:
        """Measure the model and report what ran where, why and how fast. `save` writes one HTML
        page, `json` returns the data, and notebooks show it.

        Args:
            inputs: Inputs of the runs; random values by default.
            verify: Compare every layer with the CPU runtime of the model's format.
            candidates: Time alternative kernels too, which takes about a minute.
            seconds: Time limit of the measured runs.
        """
        with self._lock:
            arrays = None if inputs is None else self._arrays(inputs)
        names = [info.name for info in self.inputs]
        by_name = None if arrays is None else dict(zip(names, arrays, strict=True))
        report: reports.RunReport = reports.report_run(
            self,
            self._instance,
            by_name,
            verify=verify,
            candidates=candidates,
            seconds=seconds,
        )
        return report

    def device_seconds(self, inputs: Inputs, runs: int = 10) -> float:
        """Return the shortest time of all launches of a run, by the device's own clock."""
        with self._lock:
            arrays = self._arrays(inputs)
            return sum(self._instance.executor.profile(arrays, count("runs", runs)))

    def run_seconds(self, inputs: Inputs, runs: int = 10) -> list[float]:
        """Return the seconds of runs, by the clock of the machine that the device is on."""
        with self._lock:
            arrays = self._arrays(inputs)
            return self._instance.run_seconds(arrays, count("runs", runs))

    def _change(self, shapes: Mapping[str, Shape]) -> None:
        if self._instances.change(shapes):
            self._direct = self._instance.direct

    def _take_memory(self, info: TensorInfo, value: Any) -> DeviceMemory | None:
        """Return the device memory behind a value that a caller passed, if it is any."""
        return device_memory.take_memory(self.device, info, value)

    def _arrays(self, inputs: Inputs) -> list[Any]:
        """Return the inputs as arrays or device memory, once the model has their shapes."""
        self._check_open()
        infos, told = self._instance.inputs, self._instances.told
        if self._bound:
            inputs = device_memory.with_bound(infos, inputs, self._bound)
        arrays, shapes = match_inputs(infos, inputs, told, self._take_memory)
        if shapes:
            self._change(shapes)
        return arrays

    def close(self) -> None:
        """Free the device's memory after current runs have finished. The session cannot run any
        more; closing it again does nothing.
        """
        with self._lock:
            self._closed, self._direct, self._repeated = True, not_direct, None
            waiter, self._waiter = self._waiter, None
            if not self._forked:
                self._instances.close()
        if waiter is not None:
            waiter.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise InputError("this session is closed", "close() was called", "make a new Session")
        if self._forked:
            self._open_in_child()

    def _leave_to_parent(self) -> None:
        """Leave open resources to the parent process, in a forked child."""
        forks.skip_finalizer((self._instances, self._waiter))
        forks.exit_without_destructors()
        self._lock, self._direct, self._waiter = threading.Lock(), not_direct, None
        self._bound, self._repeated, self._forked = {}, None, True

    def _open_in_child(self) -> None:
        """Reopen in a forked child what the parent had open. Raises DeviceError if that is not
        possible.
        """
        if self.device != CPU:
            forks.check_not_lost(self.device.api)
        shapes = {info.name: info.shape for info in self._instance.inputs}
        request, store, limit = self._opened_with
        self._instances = InstanceCache(request, store, limit)
        self._forked = False
        self._instances.change(shapes)
        self._direct = self._instance.direct

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, SessionOptions]]:
        """Pickle the source and the options, with the current shapes."""
        if self.device.shared_context or self.device.shared_queue:
            raise InputError(
                "this session cannot be pickled",
                "it shares a context or stream of this process, which other processes do not have",
                f"open it with device={self.device.address!r} to send it",
            )
        _check_callback(self._options.on_fallback)
        return Session.open, (self._source, self._options_now())

    def __copy__(self) -> Session:
        """Open the same model again, with memory and states of its own."""
        return Session.open(self._source, self._options_now())

    def __deepcopy__(self, memo: Mapping[int, object]) -> Session:
        return self.__copy__()

    def _options_now(self) -> SessionOptions:
        with self._lock:
            self._check_open()
            shapes: Mapping[str, Shape] = self._instance.request.compile_options.shapes
            return replace(self._options, shapes=shapes or None, progress=None)


def require_compiled(session: Session) -> Session:
    """Return a session whose model is compiled; close it and raise if input sizes are open."""
    if not session.outputs:
        session.close()
        session.compiled  # noqa: B018 - raises
    return session


_NOT_OPTIONS = ("self", "source", "__class__")


def _open_instances(
    request: Request, store: Store | None, limit: int, wanted_device: object
) -> tuple[Request, InstanceCache]:
    """Open a model. If the GPU's preferred API has neither a plan nor a compiler, and the caller
    did not ask for that API, open it with another one.
    """
    try:
        return request, InstanceCache(request, store, limit)
    except (DeviceError, InputError) as error:
        other = other_api.other_device(request, wanted_device)
        if other is None:
            raise
        backends.warn_other_api(other, error)
        request = request._replace(device=other)
        return request, InstanceCache(request, store, limit)


def _without_frames(error: InputError) -> InputError:
    """Return an error in the caller's arguments without the frames that found it, so that its
    traceback ends at the caller's line. The log has them.
    """
    _LOG.debug("%s", traceback.format_exc())
    return error.with_traceback(None)


def _check_callback(function: object) -> None:
    """Raise InputError for a function that cannot be sent to another process."""
    try:
        pickle.dumps(function)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InputError(
            "this session cannot be pickled",
            f"its on_fallback cannot: {error}",
            "pass a function that is defined in a module by name, or leave it out: "
            "session.placement.fallbacks has the same rows",
        ) from error


def explain_stage(
    model: Model,
    stage: Stage,
    device: str | int | None = None,
    options: CompileOptions | None = None,
    trust: str | None = None,
    full_names: bool = False,
) -> str:
    """Return the model at one compiler stage: 'graph', 'rewritten', 'plan' or 'kernels'. Without a
    device it is compiled for a generic GPU. `trust` is that of a `Session`. Graphs have numbers for
    values unless `full_names`.
    """
    config = SessionOptions(trust=trust).settings()
    options = SessionOptions().compile_options(config) if options is None else options
    info = NULL_GPU if device in (None, "null") else backends.find_target(device or "auto")
    readable = model_reader(path_or_bytes(model), find_store(AUTO, None, config), config)()
    text = str(compiler.stage_text(readable.content, stage, info, options, full_names))
    if not readable.origin:
        return text
    comment = "//" if stage == "kernels" else "#"
    return f"{comment} {readable.origin}\n{text}"
