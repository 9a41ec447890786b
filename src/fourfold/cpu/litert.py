"""Runs a model file, or a part of one written as a file, in LiteRT on the CPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from fourfold.cpu.direct import Direct, Lock, failure, make_direct
from fourfold.errors import DeviceError, InputError, Refusal, UnsupportedError
from fourfold.pixels import Pixels
from fourfold.types import DType, Quantization, Shape, TensorType, dequantize, quantize

_RUNTIMES = ("ai_edge_litert.interpreter", "tflite_runtime.interpreter")
Grid = tuple[Quantization, DType]


@cache
def runtime() -> Any | None:
    """The module that has LiteRT's interpreter; None where none is installed."""
    for name in _RUNTIMES:
        try:
            return import_module(name)
        except ImportError:
            continue
    return None


def version() -> str:
    """Which LiteRT this is; 'none' where none is installed."""
    module = runtime()
    if module is None:
        return "none"
    package = import_module(module.__name__.partition(".")[0])
    return f"{package.__name__} {getattr(package, '__version__', '')}".strip()


def make_interpreter(content: bytes, threads: int | None, keep_all: bool = False) -> Any:
    """An interpreter of a file; raises ValueError or RuntimeError for what LiteRT cannot run.

    With `keep_all` every tensor can be read after a run: plain kernels, and memory is not shared.
    """
    module = runtime()
    if module is None:
        raise DeviceError(
            "LiteRT is not installed",
            "parts of the model can run nowhere else",
            "install it with 'pip install fourfold[litert]'",
        )
    if not keep_all:
        return module.Interpreter(model_content=content, num_threads=threads)
    return module.Interpreter(
        model_content=content,
        num_threads=threads,
        experimental_preserve_all_tensors=True,
        experimental_op_resolver_type=module.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    )


def refuses_shapes(error: RuntimeError) -> InputError:
    """What LiteRT said to inputs of other shapes than the file's."""
    why = " ".join(str(error).split())
    return InputError("LiteRT does not take these shapes", why, "compare with it without --shape")


@dataclass(frozen=True)
class Wire:
    """A value that goes in or out: its tensor, the graph's type, and the file's own form of it."""

    name: str
    tensor: int
    type: TensorType | None  # None where only the file has the value
    grid: Grid | None = None
    pixels: Pixels | None = None  # where bytes come in for the file's real numbers

    @property
    def converts(self) -> bool:
        """Whether the caller has pixels, or the graph real numbers where the file has integers."""
        real = self.type is not None and self.type.dtype is DType.F32
        return self.pixels is not None or (self.grid is not None and real)

    def into_file(self, array: np.ndarray) -> np.ndarray:
        if self.pixels is not None:
            return self.pixels.real(array)
        if self.grid is None or not self.converts:
            return array
        return quantize(array, *self.grid)

    def into_graph(self, array: np.ndarray) -> np.ndarray:
        if self.grid is None or not self.converts:
            return array
        return dequantize(array, self.grid[0])


class LitertEngine:
    """A file made ready in LiteRT. What `run` gives is valid until the next run."""

    def __init__(
        self,
        content: bytes,
        inputs: Sequence[Wire],
        outputs: Sequence[Wire],
        threads: int | None = None,
        keep_all: bool = False,
    ) -> None:
        self._content = content  # the interpreter reads weights in place
        self._inputs, self._outputs = tuple(inputs), tuple(outputs)
        self._how = (threads, keep_all)
        try:
            self._interpreter = self._opened(*self._how)
        except (RuntimeError, ValueError) as error:
            raise UnsupportedError(
                "LiteRT cannot take its part of the model",
                [Refusal(wire.name, "output", _first_line(error)) for wire in self._outputs[:1]],
                "see 'fourfold check' for which operators stay on the CPU, and why",
            ) from error

    def _opened(self, threads: int | None, keep_all: bool) -> Any:
        interpreter = make_interpreter(self._content, threads, keep_all)
        shapes: Mapping[int, Any] = {
            detail["index"]: detail["shape"] for detail in interpreter.get_input_details()
        }
        for wire in self._inputs:
            if wire.type is not None and tuple(shapes[wire.tensor]) != wire.type.shape:
                interpreter.resize_tensor_input(wire.tensor, wire.type.shape)
        interpreter.allocate_tensors()
        return interpreter

    def run(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        interpreter = self._interpreter
        for wire, array in zip(self._inputs, arrays, strict=True):
            interpreter.set_tensor(wire.tensor, wire.into_file(array))
        try:
            interpreter.invoke()
        except RuntimeError as error:
            raise failure(error) from error
        return [wire.into_graph(self._view(wire)) for wire in self._outputs]

    def direct(
        self, inputs: Mapping[str, str], outputs: Mapping[str, str], lock: Lock
    ) -> Direct | None:
        """The shortest way from the caller's names to the caller's names, each with its value; None
        where a value has to be converted or is not of this part.
        """
        sources, results = (
            {wire.name: wire.tensor for wire in wires if not wire.converts}
            for wires in (self._inputs, self._outputs)
        )
        if {*inputs.values()} != sources.keys() or not {*outputs.values()} <= results.keys():
            return None
        return make_direct(
            self._interpreter,
            {name: sources[value] for name, value in inputs.items()},
            {name: results[value] for name, value in outputs.items()},
            lock,
        )

    def _view(self, wire: Wire) -> np.ndarray:
        """The result where it lies. An empty one or one without a buffer has to be copied."""
        try:
            found: np.ndarray = self._interpreter.tensor(wire.tensor)()
        except (ValueError, RuntimeError):
            found = self._interpreter.get_tensor(wire.tensor)
        return found

    def value(self, wire: Wire) -> np.ndarray:
        """A copy of any tensor after a run, as the graph sees it (see `keep_all`)."""
        return wire.into_graph(self._interpreter.get_tensor(wire.tensor))

    def shapes(self) -> Mapping[str, Shape]:
        """What the results are by LiteRT's own count, which knows operators that are not known
        here.
        """
        found = {one["index"]: one["shape"] for one in self._interpreter.get_output_details()}
        return {wire.name: tuple(map(int, found[wire.tensor])) for wire in self._outputs}

    def reset(self) -> None:
        """Forget all states. Variables with a name of their own begin anew with a new
        interpreter only.
        """
        self._interpreter.reset_all_variables()
        details = self._interpreter.get_tensor_details()
        if any(detail["dtype"] is np.object_ for detail in details):
            self._interpreter = self._opened(*self._how)

    def close(self) -> None:
        self._interpreter = None


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
