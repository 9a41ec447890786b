"""Runs a model file, or a part of one written as a file, in LiteRT on the CPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from fourfold.cpu.direct import Direct, Lock, failure, make_direct
from fourfold.errors import DeviceError, InputError, Refusal, UnsupportedError
from fourfold.plan.tensor_binding import TensorBinding
from fourfold.types import Shape

_RUNTIMES = ("ai_edge_litert.interpreter", "tflite_runtime.interpreter")


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


class LitertEngine:
    """A file made ready in LiteRT. What `run` gives is valid until the next run."""

    def __init__(
        self,
        content: bytes,
        inputs: Sequence[TensorBinding],
        outputs: Sequence[TensorBinding],
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
                [
                    Refusal(binding.name, "output", _first_line(error))
                    for binding in self._outputs[:1]
                ],
                "see 'fourfold check' for which operators stay on the CPU, and why",
            ) from error

    def _opened(self, threads: int | None, keep_all: bool) -> Any:
        interpreter = make_interpreter(self._content, threads, keep_all)
        shapes: Mapping[int, Any] = {
            detail["index"]: detail["shape"] for detail in interpreter.get_input_details()
        }
        for binding in self._inputs:
            if binding.type is not None and tuple(shapes[binding.tensor]) != binding.type.shape:
                interpreter.resize_tensor_input(binding.tensor, binding.type.shape)
        interpreter.allocate_tensors()
        return interpreter

    def run(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        interpreter = self._interpreter
        for binding, array in zip(self._inputs, arrays, strict=True):
            interpreter.set_tensor(binding.tensor, binding.into_file(array))
        try:
            interpreter.invoke()
        except RuntimeError as error:
            raise failure(error) from error
        return [binding.into_graph(self._view(binding)) for binding in self._outputs]

    def direct(
        self, inputs: Mapping[str, str], outputs: Mapping[str, str], lock: Lock
    ) -> Direct | None:
        """The shortest way from the caller's names to the caller's names, each with its value; None
        where a value has to be converted or is not of this part.
        """
        sources, results = (
            {binding.name: binding.tensor for binding in bindings if not binding.converts}
            for bindings in (self._inputs, self._outputs)
        )
        if {*inputs.values()} != sources.keys() or not {*outputs.values()} <= results.keys():
            return None
        return make_direct(
            self._interpreter,
            {name: sources[value] for name, value in inputs.items()},
            {name: results[value] for name, value in outputs.items()},
            lock,
        )

    def _view(self, binding: TensorBinding) -> np.ndarray:
        """The result where it lies. An empty one or one without a buffer has to be copied."""
        try:
            found: np.ndarray = self._interpreter.tensor(binding.tensor)()
        except (ValueError, RuntimeError):
            found = self._interpreter.get_tensor(binding.tensor)
        return found

    def value(self, binding: TensorBinding) -> np.ndarray:
        """A copy of any tensor after a run, as the graph sees it (see `keep_all`)."""
        return binding.into_graph(self._interpreter.get_tensor(binding.tensor))

    def shapes(self) -> Mapping[str, Shape]:
        """What the results are by LiteRT's own count, which knows operators that are not known
        here.
        """
        found = {one["index"]: one["shape"] for one in self._interpreter.get_output_details()}
        return {binding.name: tuple(map(int, found[binding.tensor])) for binding in self._outputs}

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
