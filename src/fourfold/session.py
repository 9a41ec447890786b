"""Session: a model made ready on a device, from arrays to arrays."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from fourfold import players
from fourfold.config import PRECISIONS, Config, count
from fourfold.cpu import CPU
from fourfold.device import DeviceInfo
from fourfold.errors import DeviceError, InputError, nearest
from fourfold.lazy import lazy_import
from fourfold.plan import Plan
from fourfold.players.null import NULL_GPU
from fourfold.runtime.inputs import Inputs, Shapes, TensorInfo, feed, name_shapes
from fourfold.runtime.instance import AUTO, InstanceCache, KernelTime, ModelInstance, not_direct
from fourfold.runtime.loading import Model, Request
from fourfold.types import Shape

if TYPE_CHECKING:
    from fourfold import compile as chain
    from fourfold import pixels as pictures
    from fourfold.store import store as stores

    Cache = str | os.PathLike[str] | stores.Store | None
else:
    chain, stores = lazy_import("fourfold.compile"), lazy_import("fourfold.store.store")
    pictures = lazy_import("fourfold.pixels")

MEMORY = "memory"
TFLITE_WORDS = ("serialization_dir", "model_token")
OWN_WORDS = ("quantized", "kept_shapes", "follow_batch", "pixels")
PLACEMENT_WORDS = ("placement", "strict", "max_partitions", "on_fallback", "threads")


class Session:
    """A model made ready on one device. May be used from any thread; `close` or `with` frees it.

    `source` is a model file or a prepared file, by its path or as bytes; `model` chooses among
    several models in a prepared file. `device` is 'auto', a number, or part of a name (see
    `fourfold.devices()`). `precision` is 'fp32', 'mixed' (halves in memory, floats in arithmetic)
    or 'fp16'. `shapes` sets the shape of inputs by name. `cache` is where plans and binaries are
    kept: 'auto' (the user's folder, or FOURFOLD_CACHE), a folder, 'memory' (of this process), or
    None. TFLite's words `serialization_dir` and `model_token` are understood, too.

    What cannot run on the device, or does not pay there, runs on the CPU; `session.placement` says
    what and why. Further words: `placement` is 'auto' (the model is run on the device and on the
    CPU once, and stays where it is faster), 'gpu' (all that can) or 'cpu', for which `device='cpu'`
    stands, too; without it the model stays on the device as far as that pays; `strict=True` makes
    anything on the CPU an error; `max_partitions` limits the parts on the GPU; `on_fallback` is
    called with each operator that stays on the CPU; `threads` are those of the CPU.
    `quantized=False` keeps quantised operators off the device, as TFLite's option does: they run
    on the CPU, or with `strict=True` are an error. `kept_shapes` is for how many shapes the model
    stays ready (see `resize`); `follow_batch=False` takes reshapes literally where a batch is
    changed, as LiteRT does. `pixels` makes an input take the bytes of a picture instead of floats:
    a `fourfold.Pixels` for the only picture, or a dict of them by name.
    """

    def __init__(
        self,
        source: Model,
        device: str | int | DeviceInfo | None = None,
        precision: str | None = None,
        shapes: Mapping[str, Shape] | None = None,
        *,
        cache: Cache = AUTO,
        model: str | None = None,
        **words: Any,
    ) -> None:
        config = Config.from_environment()
        _check_words(words, cache)
        store = _store(words.get("serialization_dir", cache), config)
        self.timings: dict[str, float] = {}
        began = time.perf_counter()
        wanted = config.device if device is None else device
        wishes = _wishes(words, wanted)
        on_cpu = wishes.get("placement") == "cpu"
        self.device = CPU if on_cpu else players.find_device(wanted)
        self.timings["device"] = time.perf_counter() - began
        _check_precision(config, precision, self.device, store)
        request = Request(
            model=source if isinstance(source, bytes) else os.fspath(source),
            device=self.device,
            config=config,
            precision=precision,
            shapes=shapes,
            name=model,
            token=str(words.get("model_token", "")),
            quantized=bool(words.get("quantized", True)),
            follow=bool(words.get("follow_batch", True)),
            pixels=_pixels(words.get("pixels")),
            timings=self.timings,
        )
        self._lock, self._closed = threading.Lock(), False
        limit = count("kept_shapes", words.get("kept_shapes", config.kept_shapes))
        make = partial(ModelInstance, store=store, wishes=wishes, lock=self._lock)
        self._shapes = InstanceCache(request, make, limit)
        self._direct = self._ready.direct

    @property
    def _ready(self) -> ModelInstance:
        return self._shapes.current

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """What the model takes, with the shapes that it has now."""
        return self._ready.inputs

    @property
    def outputs(self) -> tuple[TensorInfo, ...]:
        return self._ready.outputs

    @property
    def plan(self) -> Plan:
        return self._ready.plan

    @property
    def placement(self) -> Any:
        """Where every operator runs and why: a table as text, `to_json()`, HTML in notebooks."""
        return self._ready.placement

    @property
    def precision(self) -> str:
        return self.plan.precision

    @property
    def origin(self) -> str:
        """Where the plan came from: 'file' (a prepared one), 'store', or made from the 'model'."""
        return self._ready.origin

    @property
    def hit(self) -> bool:
        """Whether nothing had to be made: the plan came from the store or from a prepared file."""
        return self.origin != "model"

    def run(self, inputs: Inputs) -> dict[str, np.ndarray]:
        """The outputs as new arrays by name; inputs go by name, by position, or alone.

        Where the model leaves a size of an input open, an array of another size changes the model
        to its shape, as `resize` would.
        """
        found = self._direct(inputs)
        if found is not None:
            return found
        with self._lock:
            arrays = self._arrays(inputs)
            return self._ready.run(arrays)

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
        if self._shapes.change(shapes):
            self.timings, self._direct = self._ready.request.timings, self._ready.direct

    def reset(self) -> None:
        """Forget what operators such as LSTM kept from run to run, as in a new session."""
        with self._lock:
            self._check_open()
            self._ready.reset()
            self._direct = self._ready.direct

    def profile(self, inputs: Inputs, runs: int = 10) -> list[KernelTime]:
        """The shortest time of every launch over some runs, by the device's own clock.

        A plan that is played as one launch is made anew as a list of them for this.
        """
        with self._lock:
            arrays = self._arrays(inputs)
            return self._ready.profile(arrays, runs)

    def close(self) -> None:
        """Free the device's memory; the session cannot run afterwards."""
        with self._lock:
            self._closed, self._direct = True, not_direct
            self._shapes.close()

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
        arrays, shapes = feed(self._ready.inputs, inputs)
        if shapes:
            self._change(shapes)
        return arrays


def _pixels(given: object) -> pictures.Given | None:
    return None if given is None else pictures.checked_pixels(given)


def _wishes(words: Mapping[str, Any], device: object) -> dict[str, Any]:
    """What the caller asks of placement; the device 'cpu' is a placement."""
    wishes = {word: words[word] for word in PLACEMENT_WORDS if word in words}
    return {**wishes, "placement": "cpu"} if device == "cpu" else wishes


def stage(
    model: Model,
    stage: str,
    device: str | int | None = None,
    precision: str | None = None,
    shapes: Mapping[str, Shape] | None = None,
    pixels: pictures.Given | None = None,
) -> str:
    """The text of one stage of a model's way: 'graph', 'rewritten', 'plan' or 'kernels'.

    Without a device it shows what a GPU of no particular make would get.
    """
    config = Config.from_environment()
    info = NULL_GPU if device in (None, "null") else players.find_device(device or "auto")
    literal, form = config.sizes == "literal", config.launches
    wish = chain.CompileOptions(
        precision or config.precision, literal, dict(shapes or {}), form, pixels=pixels
    )
    source = model if isinstance(model, bytes) else os.fspath(model)
    return str(chain.stage_text(source, stage, info, wish))


def _check_words(words: Mapping[str, object], cache: Cache) -> None:
    for word in words:
        if word not in (*TFLITE_WORDS, *PLACEMENT_WORDS, *OWN_WORDS):
            own = ("cache", "device", "model", "precision", "shapes", *OWN_WORDS)
            known = (*own, *TFLITE_WORDS, *PLACEMENT_WORDS)
            raise InputError(
                f"Session has no option {word!r}", "options have names", nearest(word, known)
            )
    if "serialization_dir" in words and cache != AUTO:
        why = "serialization_dir is TFLite's word for the folder of the store, which is cache here"
        raise InputError("both cache and serialization_dir were passed", why, "pass one of them")


def _store(cache: Cache, config: Config) -> stores.Store | None:
    """The store that a session uses."""
    if cache == MEMORY:
        return stores.memory_store()
    cache = config.cache if cache == AUTO else cache
    if isinstance(cache, str | os.PathLike):
        return stores.folder_store(cache, config.cache_limit)
    return cache


def _check_precision(
    config: Config, precision: str | None, device: DeviceInfo, store: stores.Store | None
) -> None:
    wanted = config.precision if precision is None else precision
    if wanted not in PRECISIONS:
        why = f"precisions are {', '.join(PRECISIONS)}"
        raise InputError(f"there is no precision {wanted!r}", why, nearest(str(wanted), PRECISIONS))
    if wanted != "fp16":
        return
    if not players.ask_facts(device, ("half_arithmetic",), store).half_arithmetic:
        raise DeviceError(
            f"{device.name} does not compute in half precision",
            "a test kernel with half arithmetic did not build or gave a wrong result",
            "use precision='mixed': halves in memory, floats in arithmetic",
        )
