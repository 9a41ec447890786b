"""An ONNX file, or a part of one, opened in ONNX Runtime, and all values of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fourfold.backends.cpu.onnxruntime.inference import failures, open_session, port_dtype
from fourfold.backends.cpu.protocol import Direct, Lock, Results, Wanted
from fourfold.backends.cpu.runtimes import first_line, refused_part
from fourfold.errors import DeviceError
from fourfold.plan.tensor_binding import TensorBinding
from fourfold.types import Shape

if TYPE_CHECKING:
    from fourfold.formats import Model


class OnnxPart:
    """A file opened in ONNX Runtime. Results are new arrays."""

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
        # fp16 values of the file are fp32 in graphs.
        self._dtypes = {port.name: port_dtype(port) for port in self._session.get_inputs()}
        self._names = [str(binding.tensor) for binding in self._outputs]

    def run(self, arrays: Sequence[np.ndarray], wanted: Wanted | None = None) -> list[Any]:
        wanted = [True] * len(self._outputs) if wanted is None else wanted
        feeds = {
            str(binding.tensor): self._converted(binding, array)
            for binding, array in zip(self._inputs, arrays, strict=True)
        }
        names = [name for name, needed in zip(self._names, wanted, strict=True) if needed]
        results = iter(self._infer(names, feeds) if names else ())
        pairs = zip(self._outputs, wanted, strict=True)
        return [_as_graph(binding, next(results)) if needed else None for binding, needed in pairs]

    def _converted(self, binding: TensorBinding, array: np.ndarray) -> np.ndarray:
        array = binding.into_file(array)
        dtype = self._dtypes.get(str(binding.tensor))
        return array if dtype is None else array.astype(dtype, copy=False)

    def _infer(self, names: Sequence[str], feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        try:
            results: list[np.ndarray] = self._session.run(names, feeds)
        except failures() as error:
            raise failure(error) from error
        return results

    def direct(
        self, inputs: Mapping[str, str], outputs: Mapping[str, str], lock: Lock
    ) -> Direct | None:
        """Return the fast path from the caller's names to the caller's names; None if a value has
        to be converted or is not part of the file.
        """
        sources = {one.name: str(one.tensor) for one in self._inputs if not one.converts}
        results = {one.name: str(one.tensor) for one in self._outputs}
        if {*inputs.values()} != sources.keys() or not {*outputs.values()} <= results.keys():
            return None
        tensors = {name: sources[value] for name, value in inputs.items()}
        result_tensors = {name: results[value] for name, value in outputs.items()}
        return make_direct(self._session, tensors, result_tensors, lock)

    def shapes(self) -> Mapping[str, Shape]:
        """Return nothing: ONNX Runtime knows shapes only after a run."""
        return {}

    def reset(self) -> None:
        """Do nothing: there are no states."""

    def close(self) -> None:
        self._session = None


def _as_graph(binding: TensorBinding, array: np.ndarray) -> np.ndarray:
    """Return a result in the dtype of the graph."""
    if binding.type is None or not binding.type.dtype.is_float:
        return array
    return array.astype(binding.type.dtype.numpy, copy=False)


def make_direct(
    session: Any, inputs: Mapping[str, str], outputs: Mapping[str, str], lock: Lock
) -> Direct:
    """Return a function that runs a whole model on arrays by name, by position, or one array.

    ONNX Runtime itself refuses wrong shapes and types, but ignores the byte order. If an input does
    not match, the function returns None without running, and the caller takes the normal path.
    """
    names, keys, errors = list(outputs.values()), list(outputs), failures()
    sources, count = list(inputs.items()), len(inputs)

    def run(values: Any) -> Results | None:
        if type(values) is not dict:
            arrays = values if isinstance(values, list | tuple) else [values]
            values = dict(zip(inputs, arrays, strict=True)) if len(arrays) == count else {}
        if len(values) != count:
            return None
        feeds = {}
        for name, tensor in sources:
            array = values.get(name)
            if type(array) is not np.ndarray or not array.dtype.isnative:
                return None
            feeds[tensor] = array
        with lock:
            try:
                results = session.run(names, feeds)
            except errors:
                return None
        return dict(zip(keys, results, strict=True))

    return run


def failure(error: Exception) -> DeviceError:
    """Return the error for a failed run, with ONNX Runtime's message."""
    return DeviceError(
        "ONNX Runtime could not run its part of the model",
        first_line(error),
        "check that the inputs are what the model expects; ONNX Runtime itself reports this error",
    )


class OnnxValues:
    """All values of a model after one run in ONNX Runtime without optimizations, as the graph sees
    them.
    """

    def __init__(self, model: Model, inputs: Sequence[np.ndarray]) -> None:
        source = model.source_graph
        assert source is not None, "a model that runs in ONNX Runtime has a source graph"
        self._source, types = source, model.main.types
        names = model.main.arguments
        results = [
            name
            for unit in source.titles
            for name in source.writes(unit)
            if name in types and name not in model.main.constants
        ]
        content = source.write(list(source.titles), names, results)
        bindings = [
            TensorBinding(name, source.tensor(name) or name, types[name]) for name in results
        ]
        input_bindings = [
            TensorBinding(name, source.tensor(name) or name, types[name]) for name in names
        ]
        arrays = OnnxPart(content, input_bindings, bindings, plain=True).run(inputs)
        self._values: dict[str, np.ndarray] = dict(zip(results, arrays, strict=True))
        self._values |= dict(zip(names, inputs, strict=True))

    def has(self, value: str) -> bool:
        return self._source.tensor(value) in self._values

    def value(self, value: str) -> np.ndarray:
        return self._values[str(self._source.tensor(value))]
