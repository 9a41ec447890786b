"""Session: the one place that strings the stages together, from a model file to arrays."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from types import TracebackType

import numpy as np

from fourfold.config import Config
from fourfold.device import DeviceInfo
from fourfold.errors import DeviceError, InputError, nearest
from fourfold.formats import read_model
from fourfold.graph import Graph
from fourfold.kernel.site import Options
from fourfold.lower import make_plan
from fourfold.plan import Plan, Port
from fourfold.players import opencl
from fourfold.players.null import NULL_GPU
from fourfold.rewrite import rewrite
from fourfold.types import Quantization, Shape

Model = str | os.PathLike[str] | bytes
Inputs = Mapping[str, np.ndarray] | Sequence[np.ndarray] | np.ndarray
PRECISIONS = ("fp32", "mixed", "fp16")
STAGES = ("graph", "rewritten", "plan", "kernels")


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

    `model` is a path or the bytes of a file. `device` is 'auto', a number, or part of a name (see
    `fourfold.devices()`). `precision` is 'fp32', 'mixed' (halves in memory, floats in arithmetic) or
    'fp16'. `shapes` sets the shape of inputs by name, for instance another batch size.
    """

    def __init__(
        self,
        model: Model,
        device: str | int | DeviceInfo | None = None,
        precision: str | None = None,
        shapes: Mapping[str, Shape] | None = None,
    ) -> None:
        config = Config.from_environment()
        self.timings: dict[str, float] = {}
        self.device = opencl.find_device(config.device if device is None else device)
        options = _options(config, precision, self.device)
        clock = _Clock(self.timings)
        loaded = read_model(model, shapes)
        clock.stage("read")
        graph = rewrite(loaded.main)
        clock.stage("rewrite")
        self.plan: Plan = make_plan(graph, self.device, options)
        clock.stage("lower")
        self.inputs = _infos(self.plan.inputs, loaded.input_names)
        self.outputs = _infos(self.plan.outputs, loaded.output_names)
        self._player = opencl.Player(self.device, self.plan)
        self.timings |= self._player.timings
        self._lock = Lock()

    @property
    def precision(self) -> str:
        return self.plan.precision

    def run(self, inputs: Inputs) -> dict[str, np.ndarray]:
        """The model's outputs, as new arrays by name, for inputs by name, by position, or for the only one."""
        arrays = self._arrays(inputs)
        with self._lock:
            results = self._open_player().run(arrays)
        return {info.name: result for info, result in zip(self.outputs, results, strict=True)}

    def profile(self, inputs: Inputs, runs: int = 10) -> list[KernelTime]:
        """The shortest time of every launch over some runs, by the device's own clock."""
        arrays = self._arrays(inputs)
        with self._lock:
            times = self._open_player().profile(arrays, runs)
        pairs = zip(self.plan.launches, times, strict=True)
        return [KernelTime(launch.entry, launch.node, seconds) for launch, seconds in pairs]

    def close(self) -> None:
        """Free the device's memory; the session cannot run afterwards."""
        with self._lock:
            if self._player is not None:
                self._player.close()
                self._player = None  # type: ignore[assignment]

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _open_player(self) -> opencl.Player:
        if self._player is None:
            raise InputError("this session is closed", "close() was called", "make a new Session")
        return self._player

    def _arrays(self, inputs: Inputs) -> list[np.ndarray]:
        given = _by_name(self.inputs, inputs)
        return [_checked(info, given[info.name]) for info in self.inputs]


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
    if stage not in STAGES:
        raise InputError(
            f"there is no stage {stage!r}", "stages have names", nearest(stage, STAGES)
        )
    graph = read_model(model, shapes).main
    if stage == "graph":
        return str(graph)
    graph = rewrite(graph)
    if stage == "rewritten":
        return str(graph)
    plan = _planned(graph, device, precision)
    return str(plan) if stage == "plan" else plan.program.text


def _planned(graph: Graph, device: str | int | None, precision: str | None) -> Plan:
    config = Config.from_environment()
    info = NULL_GPU if device in (None, "null") else opencl.find_device(device or "auto")
    literal = _literal(config, info)
    return make_plan(graph, info, Options(precision or config.precision, literal))


def _literal(config: Config, device: DeviceInfo) -> bool:
    """Sizes as numbers in the text make the best code on some GPUs, as parameters the fewest builds."""
    return config.sizes == "literal"


def _options(config: Config, precision: str | None, device: DeviceInfo) -> Options:
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
    return Options(wanted, _literal(config, device))


class _Clock:
    """Notes how long each stage took."""

    def __init__(self, timings: dict[str, float]) -> None:
        self._timings, self._last = timings, time.perf_counter()

    def stage(self, title: str) -> None:
        now = time.perf_counter()
        self._timings[title] = now - self._last
        self._last = now


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
    """The array in the form that can be uploaded as it is; shapes and types must be the model's own."""
    array = np.asarray(array)
    if array.dtype != info.dtype:
        what = f"input {info.name!r} is {array.dtype}, not {info.dtype}"
        fix = f"pass array.astype(np.{info.dtype}), scaled as the model expects it"
        raise InputError(what, "the model reads its own type only", fix)
    if array.shape != info.shape:
        what = f"input {info.name!r} has shape {array.shape}, not {info.shape}"
        fix = f"reshape it, or open the model with shapes={{{info.name!r}: {array.shape}}}"
        raise InputError(what, "the kernels were made for one shape", fix)
    return np.ascontiguousarray(array)
