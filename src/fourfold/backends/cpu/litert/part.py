"""A model file, or a part of one written as a file, opened in LiteRT, and all of its values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fourfold.backends.cpu.litert.interpreter import allocate, make_interpreter
from fourfold.backends.cpu.protocol import Direct, Lock, Results, Wanted
from fourfold.backends.cpu.runtimes import first_line, refused_part
from fourfold.errors import DeviceError, UnsupportedError
from fourfold.plan.tensor_binding import TensorBinding, TensorId
from fourfold.types import DType, Shape

if TYPE_CHECKING:
    from fourfold.formats import Model


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
        values = [one.into_file(array) for one, array in zip(self._inputs, arrays, strict=True)]
        try:
            for binding, value in zip(self._inputs, values, strict=True):
                interpreter.set_tensor(binding.tensor, value)
            interpreter.invoke()
        except (RuntimeError, ValueError) as error:
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


def make_direct(
    interpreter: Any, inputs: Mapping[str, TensorId], outputs: Mapping[str, TensorId], lock: Lock
) -> Direct:
    """Return a function that runs a whole model on arrays by name, by position, or one array.
    Results are new arrays.

    LiteRT itself refuses wrong shapes. If an input does not match, the function returns None
    without running, and the caller takes the normal path.
    """
    put, invoke, get = interpreter.set_tensor, interpreter.invoke, interpreter.get_tensor
    types = {detail["index"]: detail["dtype"] for detail in interpreter.get_input_details()}
    sources = [(name, tensor, np.dtype(types[tensor])) for name, tensor in inputs.items()]
    results, count, ndarray = list(outputs.items()), len(sources), np.ndarray

    def run(values: Any) -> Results | None:
        if type(values) is not dict:
            values = _by_name(inputs, values)
        if len(values) != count:
            return None
        with lock:
            try:
                for name, tensor, dtype in sources:
                    array = values[name]
                    if type(array) is not ndarray or array.dtype is not dtype:
                        return None
                    put(tensor, array)
            except (AttributeError, KeyError, ValueError):
                return None
            try:
                invoke()
            except RuntimeError as error:
                raise failure(error) from error
            arrays = {}
            for name, tensor in results:  # faster than a comprehension before Python 3.12
                arrays[name] = get(tensor)
            return arrays

    return run


def _by_name(names: Mapping[str, TensorId], values: object) -> dict[str, Any]:
    """Return arrays passed by position, or one array, by name; an empty dict if their number is
    wrong.
    """
    arrays = values if isinstance(values, list | tuple) else [values]
    return dict(zip(names, arrays, strict=True)) if len(arrays) == len(names) else {}


def failure(error: Exception) -> DeviceError:
    """Return the error for a failed run, with LiteRT's message."""
    return DeviceError(
        "LiteRT could not run its part of the model",
        " ".join(str(error).split()) or "LiteRT returned no message",
        "check that the inputs are what the model expects; LiteRT itself reports this error",
    )


class LitertValues:
    """All values of a model after one run in LiteRT, as the graph sees them.

    All tensors are outputs of a file written for it, which runs in plain kernels if possible.
    LiteRT can preserve all tensors itself, but also preserves temporary buffers of its kernels,
    which are many times larger for convolutions.
    """

    def __init__(self, model: Model, inputs: Sequence[np.ndarray]) -> None:
        source = model.source_graph
        assert source is not None, "a model that runs in LiteRT has a source graph"
        self._source, self._types = source, model.main.types
        arguments = model.main.arguments
        seen = {source.tensor(name) for name, one in self._types.items() if one.dtype.has_numpy}
        written = (name for unit in source.titles for name in source.writes(unit))
        results = [name for name in dict.fromkeys(written) if source.tensor(name) in seen]
        bindings = [self._binding(name) for name in arguments]
        pairs = zip(bindings, inputs, strict=True)
        self._passed = {one.tensor: one.into_file(array) for one, array in pairs}
        self._made = {source.tensor(name) for name in results}
        self._part = _opened(source.write(tuple(source.titles), arguments, results), bindings)
        self._part.run(inputs)

    def _binding(self, value: str) -> TensorBinding:
        tensor = self._source.tensor(value)
        assert tensor is not None, f"'{value}' is not a tensor of the file"
        return TensorBinding(value, tensor, self._types[value], self._source.grid(value))

    def has(self, value: str) -> bool:
        tensor = self._source.tensor(value)
        return tensor in self._made or tensor in self._passed

    def value(self, value: str) -> np.ndarray:
        binding = self._binding(value)
        if binding.tensor in self._passed:
            return binding.into_graph(self._passed[binding.tensor])
        return self._part.value(binding)


def _opened(content: bytes, inputs: Sequence[TensorBinding]) -> LitertPart:
    """Open a file with plain kernels if possible: only XNNPACK has some custom operators."""
    try:
        return LitertPart(content, inputs, (), plain=True)
    except UnsupportedError:
        return LitertPart(content, inputs, ())
