"""An ONNX file, or a part of one written as a file, made ready in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fourfold.backends.cpu.onnxruntime.inference import failures, open_session, port_dtype
from fourfold.backends.cpu.protocol import Direct, Lock, Results, Wanted
from fourfold.backends.cpu.refusal import first_line, refused_part
from fourfold.errors import DeviceError
from fourfold.plan.tensor_binding import TensorBinding
from fourfold.types import Shape


class OnnxPart:
    """A file made ready in ONNX Runtime. Its results are new arrays."""

    def __init__(
        self,
        content: bytes,
        inputs: Sequence[TensorBinding],
        outputs: Sequence[TensorBinding],
        threads: int | None = None,
        plain: bool = False,
    ) -> None:
        self._inputs, self._outputs = tuple(inputs), tuple(outputs)
        try:
            self._session = open_session(content, threads, plain)
        except failures() as error:
            raise refused_part("ONNX Runtime", self._outputs, first_line(error)) from error
        # Half floats are f32 in graphs.
        self._dtypes = {port.name: port_dtype(port) for port in self._session.get_inputs()}
        self._names = [str(binding.tensor) for binding in self._outputs]

    def run(self, arrays: Sequence[np.ndarray], wanted: Wanted | None = None) -> list[Any]:
        wanted = [True] * len(self._outputs) if wanted is None else wanted
        given = {
            str(binding.tensor): self._converted(binding, array)
            for binding, array in zip(self._inputs, arrays, strict=True)
        }
        names = [name for name, needed in zip(self._names, wanted, strict=True) if needed]
        found = iter(self._infer(names, given) if names else ())
        pairs = zip(self._outputs, wanted, strict=True)
        return [_as_graph(binding, next(found)) if needed else None for binding, needed in pairs]

    def _converted(self, binding: TensorBinding, array: np.ndarray) -> np.ndarray:
        array = binding.into_file(array)
        dtype = self._dtypes.get(str(binding.tensor))
        return array if dtype is None else array.astype(dtype, copy=False)

    def _infer(self, names: Sequence[str], given: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        try:
            found: list[np.ndarray] = self._session.run(names, given)
        except failures() as error:
            raise failure(error) from error
        return found

    def direct(
        self, inputs: Mapping[str, str], outputs: Mapping[str, str], lock: Lock
    ) -> Direct | None:
        """The shortest way from the caller's names to the caller's names; None where a value has
        to be converted or is not of this part.
        """
        sources = {one.name: str(one.tensor) for one in self._inputs if not one.converts}
        results = {one.name: str(one.tensor) for one in self._outputs}
        if {*inputs.values()} != sources.keys() or not {*outputs.values()} <= results.keys():
            return None
        tensors = {name: sources[value] for name, value in inputs.items()}
        wanted = {name: results[value] for name, value in outputs.items()}
        return make_direct(self._session, tensors, wanted, lock)

    def shapes(self) -> Mapping[str, Shape]:
        """None: ONNX Runtime knows shapes when it has run."""
        return {}

    def reset(self) -> None:
        """Nothing is kept between runs."""

    def close(self) -> None:
        self._session = None


def _as_graph(binding: TensorBinding, array: np.ndarray) -> np.ndarray:
    """A result in the type that the graph has it in."""
    if binding.type is None or not binding.type.dtype.is_float:
        return array
    return array.astype(binding.type.dtype.numpy, copy=False)


def make_direct(
    session: Any, inputs: Mapping[str, str], outputs: Mapping[str, str], lock: Lock
) -> Direct:
    """A run of a whole model, its arrays by name, by position or alone.

    ONNX Runtime itself refuses other shapes and types, but takes the bytes of an array for numbers
    in whatever order they are. Where anything does not fit, the run has done nothing and gives
    None: whoever called it can look closer.
    """
    names, keys, errors = list(outputs.values()), list(outputs), failures()
    sources, count = list(inputs.items()), len(inputs)

    def run(given: Any) -> Results | None:
        if type(given) is not dict:
            arrays = given if isinstance(given, list | tuple) else [given]
            given = dict(zip(inputs, arrays, strict=True)) if len(arrays) == count else {}
        if len(given) != count:
            return None
        feeds = {}
        for name, tensor in sources:
            array = given.get(name)
            if type(array) is not np.ndarray or not array.dtype.isnative:
                return None
            feeds[tensor] = array
        with lock:
            try:
                found = session.run(names, feeds)
            except errors:
                return None
        return dict(zip(keys, found, strict=True))

    return run


def failure(error: Exception) -> DeviceError:
    """What ONNX Runtime said when it could not run."""
    return DeviceError(
        "ONNX Runtime could not run its part of the model",
        first_line(error),
        "check that the inputs are what the model expects; ONNX Runtime alone would fail, too",
    )
