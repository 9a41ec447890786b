"""The outputs that a caller requests of a run, and the arrays that they are written to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fourfold.errors import InputError, nearest
from fourfold.runtime.arrays import writable_view
from fourfold.runtime.device_memory import OutputMemory
from fourfold.runtime.instance_cache import InstanceCache
from fourfold.runtime.tensor_info import TensorInfo


def run_wanted(
    instances: InstanceCache,
    arrays: Sequence[Any],
    outputs: object,
    out: object,
    memory: OutputMemory,
) -> dict[str, Any]:
    """Return the requested outputs by name; all if `outputs` is None.

    Outputs with an array in `out` are written there, and the result has that array. `memory` has
    outputs that stay in device memory. If only some outputs are requested, the model is cut to them
    if possible; otherwise the others are not fetched.
    """
    instance = instances.current
    names = instance.output_names
    if outputs is not None:
        names = wanted_names(instance.outputs, outputs)
        instance = instances.cut_to(names) or instance
    targets = {} if out is None else _by_name(names, out)
    into: list[Any] = []
    views: list[tuple[TensorInfo, np.ndarray]] = []
    for info in instance.outputs:
        if info.name not in names:
            into.append(None)
            continue
        one, array = targets.get(info.name), None
        on_device = memory.take(info, one)
        if one is not None and on_device is None:
            array = _checked(info, one, instance.in_parts)
            views.append((info, array))
        into.append(on_device or _target(info, array, arrays))
    if len(views) > 1:
        _refuse_overlaps(views)
    results = instance.run_into(arrays, into)
    for info, array in views:
        _deliver(info, results[info.name], array)
        results[info.name] = targets[info.name]
    results.update(memory.held)
    return {name: results[name] for name in names}


def wanted_names(infos: Sequence[TensorInfo], outputs: object) -> tuple[str, ...]:
    """Return the names of the requested outputs; all if `outputs` is None."""
    available = [info.name for info in infos]
    if outputs is None:
        return tuple(available)
    names = [outputs] if isinstance(outputs, str) else outputs
    if not isinstance(names, Sequence) or not names:
        why = f"outputs is {outputs!r}"
        raise InputError(
            "no output is requested", why, f"name some of {available}, or leave it out"
        )
    for name in names:
        if name not in available:
            what = f"the model has no output {name!r}"
            raise InputError(what, f"its outputs are {available}", nearest(str(name), available))
    return tuple(names)


def names_before_feeds(
    infos: Sequence[TensorInfo], names: object, outputs: object
) -> tuple[str, ...]:
    """Return the outputs that a call in ONNX Runtime's form requests, `run(names, feeds)`; all if
    the names are None or empty.
    """
    if outputs is not None:
        what, why = "outputs are named twice", "run(names, feeds) already names them"
        raise InputError(what, why, "pass run(feeds, outputs=names)")
    if names is None or (isinstance(names, list | tuple) and not names):
        return wanted_names(infos, None)
    several = [names] if isinstance(names, str) else names
    if not isinstance(several, list | tuple) or not all(isinstance(one, str) for one in several):
        what = f"the first of two arguments is a {type(names).__name__}"
        why = "as in ONNX Runtime, run(names, feeds) begins with the names of outputs, or None"
        raise InputError(what, why, "pass several inputs as one list or dict: run([a, b])")
    return wanted_names(infos, several)


def _by_name(names: Sequence[str], out: object) -> Mapping[str, Any]:
    """Return the caller's arrays by output name. A list is in the order of the requested
    outputs.
    """
    if out is None:
        return {}
    if isinstance(out, Mapping):
        for name in out:
            if name not in names:
                what = f"out has {name!r}, which is not a requested output"
                why = f"the requested outputs are {list(names)}"
                raise InputError(what, why, nearest(str(name), names))
        return out
    arrays = out if isinstance(out, list | tuple) else [out]
    if len(arrays) != len(names):
        what = f"out has {len(arrays)} arrays for {len(names)} outputs"
        fix = "pass a dict by name, or a list in order, with None for a new array"
        raise InputError(what, f"the outputs are {list(names)}", fix)
    return dict(zip(names, arrays, strict=True))


def _checked(info: TensorInfo, value: Any, in_parts: bool) -> np.ndarray:
    """Return the caller's array if results can be written to it. Shapes of results of a CPU engine
    are only certain after a run, and are checked then.
    """
    array = writable_view(value, f"out[{info.name!r}]")
    if array.dtype != info.dtype:
        what = f"out[{info.name!r}] is {array.dtype}, not {info.dtype}"
        fix = f"pass np.empty({info.shape}, np.{info.dtype})"
        raise InputError(what, "results are not converted", fix)
    if array.shape != info.shape and not in_parts:
        raise _shape_error(info, array, info.shape)
    return array


def _shape_error(info: TensorInfo, array: np.ndarray, shape: tuple[int, ...]) -> InputError:
    what = f"out[{info.name!r}] has shape {array.shape}, not {shape}"
    fix = f"pass np.empty({shape}, np.{info.dtype})"
    return InputError(what, "results are not converted", fix)


def _refuse_overlaps(views: Sequence[tuple[TensorInfo, np.ndarray]]) -> None:
    """Raise an InputError if two arrays share memory. Strided arrays may interleave."""
    plain = [(info.name, one) for info, one in views if one.flags.c_contiguous]
    for number, (name, array) in enumerate(plain):
        for other, second in plain[:number]:
            if np.may_share_memory(array, second):
                what = f"out[{other!r}] and out[{name!r}] share memory"
                raise InputError(what, "each result needs its own memory", "pass two arrays")


def _target(info: TensorInfo, array: np.ndarray | None, inputs: Sequence[Any]) -> np.ndarray:
    """Return the array that a result is written to: the caller's if it is contiguous and shares no
    memory with an input, else a new one.
    """
    if array is None or array.shape != info.shape or not array.flags.carray:
        return np.empty(info.shape, info.dtype)
    in_place = any(np.may_share_memory(array, one) for one in inputs if isinstance(one, np.ndarray))
    return np.empty(info.shape, info.dtype) if in_place else array


def _deliver(info: TensorInfo, result: np.ndarray, array: np.ndarray) -> None:
    if result is array:
        return
    if result.shape != array.shape:
        raise _shape_error(info, array, result.shape)
    np.copyto(array, result, casting="equiv")
