"""A model file, or a part of one written as a file, opened in LiteRT."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fourfold.backends.cpu.litert.direct import failure, make_direct
from fourfold.backends.cpu.litert.interpreter import allocate, make_interpreter
from fourfold.backends.cpu.protocol import Direct, Lock, Wanted
from fourfold.backends.cpu.refusal import first_line, refused_part
from fourfold.plan.tensor_binding import TensorBinding, TensorId
from fourfold.types import DType, Shape


class LitertPart:
    """A file opened in LiteRT. Results of `run` are valid until the next run."""

    def __init__(
        self,
        content: bytes,
        inputs: Sequence[TensorBinding],
        outputs: Sequence[TensorBinding],
        threads: int | None = None,
        plain: bool = False,
    ) -> None:
        self._content = content  # the interpreter reads weights in place
        self._inputs, self._outputs = tuple(inputs), tuple(outputs)
        self._threads, self._plain = threads, plain
        try:
            self._interpreter = self._open()
        except (RuntimeError, ValueError) as error:
            raise refused_part("LiteRT", self._outputs, first_line(error)) from error

    def _open(self) -> Any:
        interpreter = make_interpreter(self._content, self._threads, self._plain)
        shapes: Mapping[TensorId, Any] = {
            detail["index"]: detail["shape"] for detail in interpreter.get_input_details()
        }
        for binding in self._inputs:
            if binding.type is not None and tuple(shapes[binding.tensor]) != binding.type.shape:
                interpreter.resize_tensor_input(binding.tensor, binding.type.shape)
        allocate(interpreter)
        return interpreter

    def run(self, arrays: Sequence[np.ndarray], wanted: Wanted | None = None) -> list[Any]:
        interpreter = self._interpreter
        for binding, array in zip(self._inputs, arrays, strict=True):
            interpreter.set_tensor(binding.tensor, binding.into_file(array))
        try:
            interpreter.invoke()
        except RuntimeError as error:
            raise failure(error) from error
        if wanted is None:
            return [binding.into_graph(self._view(binding)) for binding in self._outputs]
        pairs = zip(self._outputs, wanted, strict=True)
        return [one.into_graph(self._view(one)) if needed else None for one, needed in pairs]

    def direct(
        self, inputs: Mapping[str, str], outputs: Mapping[str, str], lock: Lock
    ) -> Direct | None:
        """Return the fast path from the caller's names to the caller's names; None if a value has
        to be converted or is not part of the file.
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
        """Return a result without a copy. Empty results, results without a buffer, and text (which
        LiteRT would return as an array of pointers) are copied.
        """
        if binding.type is None or binding.type.dtype is DType.STRING:
            return np.asarray(self._interpreter.get_tensor(binding.tensor))
        try:
            array: np.ndarray = self._interpreter.tensor(binding.tensor)()
        except (ValueError, RuntimeError):
            array = self._interpreter.get_tensor(binding.tensor)
        return array

    def value(self, binding: TensorBinding) -> np.ndarray:
        """Return a copy of an output of the file after a run, as the graph sees it."""
        return binding.into_graph(self._interpreter.get_tensor(binding.tensor))

    def shapes(self) -> Mapping[str, Shape]:
        """Return the shapes of results that LiteRT inferred, also for operators that fourfold does
        not know.
        """
        shapes = {one["index"]: one["shape"] for one in self._interpreter.get_output_details()}
        return {binding.name: tuple(map(int, shapes[binding.tensor])) for binding in self._outputs}

    def reset(self) -> None:
        """Reset all states. Resource variables are reset only by a new interpreter."""
        self._interpreter.reset_all_variables()
        details = self._interpreter.get_tensor_details()
        if any(detail["dtype"] is np.object_ for detail in details):
            self._interpreter = self._open()

    def close(self) -> None:
        self._interpreter = None
