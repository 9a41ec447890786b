"""Session: a model made ready on a device, from arrays to arrays."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache as cache_once
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Literal

import numpy as np

from fourfold import players
from fourfold.config import Config, PlacementName, Precision, count
from fourfold.cpu import CPU
from fourfold.device import DeviceInfo
from fourfold.errors import DeviceError, InputError
from fourfold.lazy import lazy_import
from fourfold.options import CompileOptions, PlacementOptions
from fourfold.plan import Plan
from fourfold.players.null import NULL_GPU
from fourfold.runtime.inputs import (
    Inputs,
    Shapes,
    TensorInfo,
    match_inputs,
    name_of,
    name_shapes,
)
from fourfold.runtime.instance import KernelTime, ModelInstance, not_direct
from fourfold.runtime.instance_cache import InstanceCache
from fourfold.runtime.request import Request
from fourfold.timings import Timings
from fourfold.types import Shape

if TYPE_CHECKING:
    from fourfold import compile as compiler
    from fourfold import convert as conversions
    from fourfold import pixels as pixel_options
    from fourfold.metadata import ModelMetadata, Signature
    from fourfold.placement import OperatorPlacement, Placement
    from fourfold.runtime import in_flight
    from fourfold.store import store as stores

    Cache = str | os.PathLike[str] | stores.Store | None
else:
    compiler, stores = lazy_import("fourfold.compile"), lazy_import("fourfold.store.store")
    conversions, pixel_options = lazy_import("fourfold.convert"), lazy_import("fourfold.pixels")
    in_flight = lazy_import("fourfold.runtime.in_flight")

PathName = str | os.PathLike[str]
Model = PathName | bytes | tuple[PathName, ...]
Stage = Literal["graph", "rewritten", "plan", "kernels"]
AUTO, MEMORY = "auto", "memory"
IN_FLIGHT = 3  # runs that are under way at once
Results = dict[str, np.ndarray]


class Session:
    """A model made ready on one device. May be used from any thread; `close` or `with` frees it.

    `source` is a model's file or folder, or a prepared file, by its path or as bytes, or a tuple of
    the paths of a model's files where these do not lie beside each other; a model of TensorFlow,
    Keras or PyTorch is converted first. `model` chooses among several models in a prepared file.
    `device` is 'auto', a number, or part of a name (see `fourfold.devices()`). `precision` is
    'fp32', 'mixed' (halves in memory, floats in arithmetic) or 'fp16'. `shapes` sets the shape of
    inputs by name. `cache` is where plans and binaries are kept: 'auto' (the user's folder, or
    FOURFOLD_CACHE), a folder, 'memory' (of this process), or None. TFLite's names
    `serialization_dir` and `model_token` are understood, too.

    What cannot run on the device, or does not pay there, runs on the CPU; `session.placement` says
    what and why. `placement` is 'auto' (the model is run on the device and on the CPU once, and
    stays where it is faster), 'gpu' (all that can) or 'cpu', for which `device='cpu'` stands, too;
    without it the model stays on the device as far as that pays. `strict=True` makes anything on
    the CPU an error; `max_partitions` limits the parts on the GPU; `on_fallback` is called with
    each operator that stays on the CPU; `threads` are those of the CPU. `quantized=False` keeps
    quantised operators off the device, as TFLite's option does: they run on the CPU, or with
    `strict=True` are an error.

    `kept_shapes` is for how many shapes the model stays ready (see `resize`);
    `follow_batch=False` takes reshapes literally where a batch is changed, as LiteRT does.
    `pixels` makes an input take the bytes of a picture instead of floats: a `fourfold.Pixels` for
    the only picture, or a dict of them by name. `signature` calls the model by one of
    `session.signatures`: inputs and outputs have the names that it gives them.
    """

    def __init__(  # noqa: PLR0913 - each is an option that callers know by name
        self,
        source: Model,
        device: str | int | DeviceInfo | None = None,
        precision: Precision | None = None,
        shapes: Mapping[str, Shape] | None = None,
        *,
        cache: Cache = AUTO,
        model: str | None = None,
        placement: PlacementName | None = None,
        strict: bool = False,
        max_partitions: int | None = None,
        on_fallback: Callable[[OperatorPlacement], None] | None = None,
        threads: int | None = None,
        quantized: bool = True,
        follow_batch: bool = True,
        kept_shapes: int | None = None,
        signature: str | None = None,
        pixels: pixel_options.PixelsOption | None = None,
        serialization_dir: str | os.PathLike[str] | None = None,
        model_token: str = "",
    ) -> None:
        config, self.timings = Config.from_environment(), Timings()
        wanted = config.device if device is None else device
        placement_options = PlacementOptions(
            placement="cpu" if wanted == "cpu" else placement or "auto",
            measured=placement == "auto" and wanted != "cpu",
            strict=strict,
            max_partitions=max_partitions,
            threads=threads,
            on_fallback=on_fallback,
        )
        with self.timings.stage("device"):
            on_cpu = placement_options.placement == "cpu"
            self.device = CPU if on_cpu else players.find_device(wanted)
        pixels = None if pixels is None else pixel_options.checked_pixels(pixels)
        options = CompileOptions.from_config(config, precision, shapes, pixels)
        options = replace(
            options, quantized=quantized, follow_batch=follow_batch, signature=signature
        )
        store = _find_store(cache, serialization_dir, config)
        _check_precision(options.precision, self.device, store)
        content, how = _path_or_bytes(source), (config, options, placement_options, self.timings)
        request = Request(content, self.device, *how, model, model_token, precision is None)
        request = request._replace(make_readable=_reader(content, store, config))
        self._lock, self._closed = threading.Lock(), False
        make = partial(ModelInstance, store=store, lock=self._lock)
        limit = config.kept_shapes if kept_shapes is None else count("kept_shapes", kept_shapes)
        self._instances = InstanceCache(request, make, limit)
        self._direct = self._instance.direct
        self._waiter: in_flight.Waiter | None = None

    @property
    def _instance(self) -> ModelInstance:
        return self._instances.current

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """What the model takes, with the shapes that it has now."""
        return self._instance.inputs

    @property
    def outputs(self) -> tuple[TensorInfo, ...]:
        return self._instance.outputs

    @property
    def metadata(self) -> ModelMetadata:
        """What the model says of itself: its name and author, labels, how inputs are scaled. What
        could not be read is among its `problems`.
        """
        return self._instance.about.metadata

    @property
    def signatures(self) -> Mapping[str, Signature]:
        """The named ways to call the model; `signature=` chooses one."""
        return self._instance.about.signatures

    @property
    def plan(self) -> Plan:
        return self._instance.plan

    @property
    def placement(self) -> Placement:
        """Where every operator runs and why: a table as text, `to_json()`, HTML in notebooks."""
        return self._instance.placement

    @property
    def precision(self) -> str:
        return self.plan.precision

    @property
    def origin(self) -> str:
        """Where the plan came from: 'file' (a prepared one), 'store', or made from the 'model'."""
        return self._instance.origin

    @property
    def hit(self) -> bool:
        """Whether nothing had to be made: the plan came from the store or from a prepared file."""
        return self.origin != "model"

    def run(self, inputs: Inputs | None = None) -> Results:
        """The outputs as new arrays by name; inputs go by name, by position, or alone.

        Where the model leaves a size of an input open, an array of another size changes the model
        to its shape, as `resize` would. Without inputs it plays what `input_array` gave the caller
        to fill, and the outputs are those arrays that `output_array` gives.
        """
        if inputs is None:
            return self._run_views()
        found = self._direct(inputs)
        if found is not None:
            return found
        with self._lock:
            arrays = self._arrays(inputs)
            return self._instance.run(arrays)

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
            self.timings, self._direct = self._instance.request.timings, self._instance.direct

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

    def close(self) -> None:
        """Free the device's memory; the session cannot run afterwards."""
        with self._lock:
            self._closed, self._direct = True, not_direct
            self._instances.close()
            waiter, self._waiter = self._waiter, None
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

    def _arrays(self, inputs: Inputs) -> list[np.ndarray]:
        """The inputs as they go in, after the model has taken on their shapes."""
        self._check_open()
        arrays, shapes = match_inputs(self._instance.inputs, inputs)
        if shapes:
            self._change(shapes)
        return arrays


def explain_stage(
    model: Model,
    stage: Stage,
    device: str | int | None = None,
    precision: Precision | None = None,
    shapes: Mapping[str, Shape] | None = None,
    pixels: pixel_options.PixelsOption | None = None,
    signature: str | None = None,
) -> str:
    """The text of one stage of a model's way: 'graph', 'rewritten', 'plan' or 'kernels'.

    Without a device it shows what a GPU of no particular make would get.
    """
    config = Config.from_environment()
    options = CompileOptions.from_config(config, precision, shapes, pixels)
    options = replace(options, signature=signature)
    info = NULL_GPU if device in (None, "null") else players.find_target(device or "auto")
    readable = _reader(_path_or_bytes(model), _find_store(AUTO, None, config), config)()
    text = str(compiler.stage_text(readable.content, stage, info, options))
    if not readable.origin:
        return text
    sign = "//" if stage == "kernels" else "#"
    return f"{sign} {readable.origin}\n{text}"


def _reader(
    model: str | bytes, store: stores.Store | None, config: Config
) -> Callable[[], conversions.ReadableModel]:
    """The model as readers take it, made so when it is first asked for and then kept."""

    def make() -> conversions.ReadableModel:
        return conversions.make_readable(model, store, config.conversion_limit)

    return cache_once(make)


def _find_store(
    cache: Cache, folder: str | os.PathLike[str] | None, config: Config
) -> stores.Store | None:
    """The store that a session uses; `folder` is what TFLite's option says."""
    if folder is not None:
        if cache != AUTO:
            why = "serialization_dir is TFLite's name for the folder of the store, cache ours"
            raise InputError(
                "both cache and serialization_dir were passed", why, "pass one of them"
            )
        cache = folder
    if cache == MEMORY:
        return stores.memory_store()
    cache = config.cache if cache == AUTO else cache
    if isinstance(cache, str | os.PathLike):
        return stores.folder_store(cache, config.cache_limit)
    return cache


def _check_precision(precision: str, device: DeviceInfo, store: stores.Store | None) -> None:
    if precision != "fp16":
        return
    if not players.ask_facts(device, ("half_arithmetic",), store).half_arithmetic:
        raise DeviceError(
            f"{device.name} does not compute in half precision",
            "a test kernel with half arithmetic did not build or gave a wrong result",
            "use precision='mixed': halves in memory, floats in arithmetic",
        )


def _path_or_bytes(model: Model) -> str | bytes:
    """Several paths are one, as lists of folders are in the environment."""
    if isinstance(model, bytes):
        return model
    paths = model if isinstance(model, tuple) else (model,)
    return os.pathsep.join(os.fspath(path) for path in paths)
