"""Session: a model made ready on a device, from arrays to arrays."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from fourfold.config import PRECISIONS, Config
from fourfold.cpu import CPU
from fourfold.device import DeviceInfo
from fourfold.errors import DeviceError, InputError, UnsupportedError, nearest
from fourfold.keeping import BinaryKeeper
from fourfold.opening import (
    Model,
    Opened,
    Request,
    compile_chain,
    compile_request,
    make_player,
    open_model,
    tuned_choices,
)
from fourfold.plan import Compiled, Port
from fourfold.players import opencl
from fourfold.players.null import NULL_GPU
from fourfold.store import Store, memory_store
from fourfold.types import Quantization, Shape

Inputs = Mapping[str, np.ndarray] | Sequence[np.ndarray] | np.ndarray
Cache = str | os.PathLike[str] | Store | None
AUTO, MEMORY = "auto", "memory"
TFLITE_WORDS = ("serialization_dir", "model_token")
PLACEMENT_WORDS = ("placement", "strict", "max_partitions", "on_fallback", "threads")


@dataclass(frozen=True)
class TensorInfo:
    """What a caller needs to know of an input or output."""

    name: str
    shape: Shape
    dtype: np.dtype
    quantization: Quantization | None = None


@dataclass(frozen=True)
class KernelTime:
    """How long one launch takes: its kernel, the node it came from, and the seconds."""

    kernel: str
    node: str
    seconds: float


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
    CPU
    once, and stays where it is faster), 'gpu' (all that can) or 'cpu', for which `device='cpu'`
    stands, too; without it the model stays on the device as far as that pays; `strict=True` makes
    anything on the CPU an error; `max_partitions`
    limits the parts on the GPU; `on_fallback` is called with each operator that stays on the CPU;
    `threads` are those of the CPU. `quantized=False` keeps quantised operators off the device, as
    TFLite's option does: they run on the CPU, or with `strict=True` are an error.
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
        self._store = _store(words.get("serialization_dir", cache), config)
        self.timings: dict[str, float] = {}
        began = time.perf_counter()
        wanted = config.device if device is None else device
        self._wishes = _wishes(words, wanted)
        on_cpu = self._wishes.get("placement") == "cpu"
        self.device = CPU if on_cpu else opencl.find_device(wanted)
        self.timings["device"] = time.perf_counter() - began
        _check_precision(config, precision, self.device)
        self._request = Request(
            model=source if isinstance(source, bytes) else os.fspath(source),
            device=self.device,
            config=config,
            precision=precision,
            shapes=shapes,
            name=model,
            token=str(words.get("model_token", "")),
            quantized=bool(words.get("quantized", True)),
            timings=self.timings,
        )
        self._open()

    def _open(self) -> None:
        self._lock = threading.Lock()
        self._direct: Any = _not_direct
        self._placement: Any = None
        opened = self._open_whole()
        if opened is None:
            self._take_parts(open_placing().open_parts(self._request, self._store, self._wished()))
        else:
            self._take(opened.compiled, opened.origin)
            player = make_player(self._request, opened, self._store)
            self._player: opencl.Player | None = player
        built = opened is None or opened.binary is None
        self._keeper = BinaryKeeper(self._request, self._store, wanted=built)
        if self._wishes.get("placement") == AUTO and not self._wishes.get("strict"):
            self._race()

    def _race(self) -> None:
        """Whoever asks for 'auto' gets the CPU where the model was seen to run faster there."""
        assert self._player is not None
        racing = import_module("fourfold.placing.race")
        faster = racing.race_cpu(self._request, self._store, self._wished(), self._player)
        if faster is not None:
            self._player.close()
            self._take_parts(faster)

    def _take_parts(self, placed: Any) -> None:
        self._placement, self._player = placed.placement, placed.player
        self._take(placed.compiled, "model")
        self._direct = placed.player.direct(placed.compiled, self._lock) or _not_direct

    def _open_whole(self) -> Opened | None:
        """All of the model on the device; None where it has to be placed in parts."""
        if self._wishes:
            self._wished()  # says what is wrong with them
        if self._wishes.get("placement") == "cpu" or self._wishes.get("max_partitions") == 0:
            return None
        try:
            return open_model(self._request, self._store)
        except UnsupportedError:
            if self._wishes.get("strict"):
                raise
            return None

    def _wished(self) -> Any:
        return open_placing().Wishes(**self._wishes)

    def _take(self, compiled: Compiled, origin: str) -> None:
        self.origin, self.plan = origin, compiled.plan
        self.inputs = _infos(self.plan.inputs, compiled.input_names)
        self.outputs = _infos(self.plan.outputs, compiled.output_names)

    @property
    def placement(self) -> Any:
        """Where every operator runs and why: a table as text, `to_json()`, HTML in notebooks."""
        if self._placement is None:
            self._placement = open_placing().explain_placement(self._request, self._wished())
        return self._placement

    @property
    def precision(self) -> str:
        return self.plan.precision

    @property
    def hit(self) -> bool:
        """Whether nothing had to be made: the plan came from the store or from a prepared file."""
        return self.origin != "model"

    def run(self, inputs: Inputs) -> dict[str, np.ndarray]:
        """The outputs as new arrays by name; inputs go by name, by position, or alone."""
        found: dict[str, np.ndarray] | None = self._direct(inputs)
        if found is not None:
            return found
        arrays = self._arrays(inputs)
        with self._lock:
            player = self._open_player()
            results = player.run(arrays)
            self._keeper.after_run(player)
        return {info.name: result for info, result in zip(self.outputs, results, strict=True)}

    def profile(self, inputs: Inputs, runs: int = 10) -> list[KernelTime]:
        """The shortest time of every launch over some runs, by the device's own clock.

        A plan that is played as one launch is made anew as a list of them for this.
        """
        arrays = self._arrays(inputs)
        with self._lock:
            player = self._open_player()
            listed = self._as_list()
            times = (listed or player).profile(arrays, runs)
        launches = (listed or player).plan.launches
        if listed is not None:
            listed.close()
        pairs = zip(launches, times, strict=True)
        return [KernelTime(launch.entry, launch.node, seconds) for launch, seconds in pairs]

    def _as_list(self) -> opencl.Player | None:
        """Another player with one launch a kernel, where this session has all in one."""
        in_parts = not isinstance(self._player, opencl.Player)
        if in_parts or self.plan.stages == len(self.plan.launches) or self.origin == "file":
            return None
        tuned = tuned_choices(self._request, self._store)
        compiled = compile_request(self._request, tuned, form="list")
        return opencl.Player(self.device, compiled.plan)

    def close(self) -> None:
        """Free the device's memory; the session cannot run afterwards."""
        self._keeper.close()
        self._direct = _not_direct
        with self._lock:
            if self._player is not None:
                self._player.close()
                self._player = None

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _open_player(self) -> Any:
        if self._player is None:
            raise InputError("this session is closed", "close() was called", "make a new Session")
        return self._player

    def _arrays(self, inputs: Inputs) -> list[np.ndarray]:
        given = _by_name(self.inputs, inputs)
        return [_checked(info, given[info.name]) for info in self.inputs]


def _not_direct(inputs: Inputs) -> None:
    """Most models have no shorter way than that by a player."""


def open_placing() -> Any:
    """The stages that place a model in parts, imported where that is needed and nowhere else."""
    return import_module("fourfold.placing.opening")


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
) -> str:
    """The text of one stage of a model's way: 'graph', 'rewritten', 'plan' or 'kernels'.

    Without a device it shows what a GPU of no particular make would get.
    """
    config = Config.from_environment()
    chain = compile_chain()
    info = NULL_GPU if device in (None, "null") else opencl.find_device(device or "auto")
    literal, form = config.sizes == "literal", config.launches
    wish = chain.Wish(precision or config.precision, literal, dict(shapes or {}), form)
    source = model if isinstance(model, bytes) else os.fspath(model)
    return str(chain.stage_text(source, stage, info, wish))


def _check_words(words: Mapping[str, object], cache: Cache) -> None:
    for word in words:
        if word not in (*TFLITE_WORDS, *PLACEMENT_WORDS, "quantized"):
            own = ("cache", "device", "model", "precision", "quantized", "shapes")
            known = (*own, *TFLITE_WORDS, *PLACEMENT_WORDS)
            raise InputError(
                f"Session has no option {word!r}", "options have names", nearest(word, known)
            )
    if "serialization_dir" in words and cache != AUTO:
        why = "serialization_dir is TFLite's word for the folder of the store, which is cache here"
        raise InputError("both cache and serialization_dir were passed", why, "pass one of them")


def _store(cache: Cache, config: Config) -> Store | None:
    """The store that a session uses."""
    if isinstance(cache, Store):
        return cache
    if cache == MEMORY:
        return memory_store()
    folder = config.cache if cache == AUTO else cache
    return None if folder is None else Store(Path(folder), config.cache_limit)


def _check_precision(config: Config, precision: str | None, device: DeviceInfo) -> None:
    wanted = config.precision if precision is None else precision
    if wanted not in PRECISIONS:
        why = f"precisions are {', '.join(PRECISIONS)}"
        raise InputError(f"there is no precision {wanted!r}", why, nearest(str(wanted), PRECISIONS))
    if wanted == "fp16" and not opencl.has_half_arithmetic(device):
        raise DeviceError(
            f"{device.name} does not compute in half precision",
            "a test kernel with half arithmetic did not build or gave a wrong result",
            "use precision='mixed': halves in memory, floats in arithmetic",
        )


def _infos(ports: Sequence[Port], names: Sequence[str]) -> tuple[TensorInfo, ...]:
    return tuple(
        TensorInfo(name, port.type.shape, port.type.dtype.numpy, port.quantization)
        for port, name in zip(ports, names, strict=True)
    )


def _by_name(infos: Sequence[TensorInfo], inputs: Inputs) -> Mapping[str, np.ndarray]:
    names = [info.name for info in infos]
    if isinstance(inputs, Mapping):
        unknown = [name for name in inputs if name not in names]
        missing = [name for name in names if name not in inputs]
        if unknown:
            what = f"the model has no input {unknown[0]!r}"
            raise InputError(what, f"its inputs are {names}", nearest(unknown[0], names))
        if missing:
            what = f"input {missing[0]!r} is missing"
            raise InputError(what, f"the model needs {names}", "pass one array for each of them")
        return inputs
    arrays = [inputs] if isinstance(inputs, np.ndarray) else list(inputs)
    if len(arrays) != len(names):
        what = f"{len(arrays)} arrays were passed for {len(names)} inputs"
        raise InputError(
            what, f"the model needs {names}", "pass a dict by name, or a list in order"
        )
    return dict(zip(names, arrays, strict=True))


def _checked(info: TensorInfo, array: np.ndarray) -> np.ndarray:
    """The array in a form that can be uploaded; shapes and types must be the model's own."""
    array = np.asarray(array)
    if array.dtype != info.dtype:
        what = f"input {info.name!r} is {array.dtype}, not {info.dtype}"
        fix = f"pass array.astype(np.{info.dtype}), scaled as the model expects it"
        raise InputError(what, "the model reads its own type only", fix)
    if array.shape != info.shape:
        what = f"input {info.name!r} has shape {array.shape}, not {info.shape}"
        fix = f"reshape it, or open the model with shapes={{{info.name!r}: {array.shape}}}"
        raise InputError(what, "the kernels were made for one shape", fix)
    return np.asarray(array, order="C")
