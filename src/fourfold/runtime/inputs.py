"""Matches the arrays and shapes that a caller passes with the inputs of a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fourfold.errors import InputError, nearest
from fourfold.options import checked_shapes
from fourfold.runtime.tensor_info import TensorInfo
from fourfold.support.lazy import lazy_import
from fourfold.types import Shape

if TYPE_CHECKING:
    from fourfold.backends import DeviceMemory
    from fourfold.runtime import fitting
else:
    fitting = lazy_import("fourfold.runtime.fitting")

Inputs = object  # arrays of any kind: a mapping by name, a list or tuple in order, or one alone
Shapes = Mapping[str, Shape] | Shape
LISTS = (list, tuple)
SCALARS = (int, float, complex, str, bytes, np.generic)
NUMBERS = (*SCALARS, *LISTS)
ON_HOST = (np.ndarray, memoryview, bytearray, *NUMBERS)  # never memory of a device


def match_inputs(
    infos: Sequence[TensorInfo],
    inputs: Inputs,
    told: set[str],
    take_memory: Callable[[TensorInfo, Any], DeviceMemory | None],
) -> tuple[list[Any], dict[str, Shape]]:
    """Return the arrays in the model's order, and the shapes that the model has to be changed to.

    `told` has the names of inputs whose conversion was logged. `take_memory` recognizes device
    memory, which is passed on.
    """
    values = (inputs,) if type(inputs) is np.ndarray else in_order(infos, inputs)
    if len(values) != len(infos):
        raise _count_error(infos, len(values))
    arrays: list[Any] = []
    changed: dict[str, Shape] = {}
    for info, one in zip(infos, values, strict=True):
        if info.is_taken(one):
            arrays.append(one)
            continue
        memory = None if isinstance(one, ON_HOST) else take_memory(info, one)
        if memory is not None:
            arrays.append(memory)
            continue
        array = fitting.fit_array(info, one, told)
        if array.shape != info.shape:
            changed[info.name] = array.shape
        arrays.append(array)
    return arrays, changed


def listed(names: Sequence[str], inputs: object) -> Sequence[object]:
    """Return inputs by name, in order, or alone as a list, without checks; () if a dict has another
    length.
    """
    if type(inputs) is dict:
        values = [inputs.get(name) for name in names]
        return values if len(inputs) == len(values) else ()
    return inputs if isinstance(inputs, LISTS) else (inputs,)


def in_order(infos: Sequence[TensorInfo], inputs: Inputs) -> Sequence[object]:
    """Return what was passed for each input, without looking into arrays."""
    if isinstance(inputs, LISTS):
        return (inputs,) if len(infos) == 1 and _is_array(infos[0], inputs) else inputs
    if type(inputs) is dict or isinstance(inputs, Mapping):
        return _by_name(infos, inputs)
    return (inputs,)


def _is_array(info: TensorInfo, given: Sequence[object]) -> bool:
    """Return whether a list is the only input itself, and not a list of inputs.

    It is if it has numbers or texts in it, or lists of them, nested as deep as the input has axes.
    """
    depth, inner = 0, given
    while isinstance(inner, LISTS) and inner:
        depth, inner = depth + 1, inner[0]
    if not isinstance(inner, NUMBERS) or not given:
        return False
    return len(given) > 1 or depth != len(info.shape) + 1


def _count_error(infos: Sequence[TensorInfo], count: int) -> InputError:
    names = [info.name for info in infos]
    fix = "pass a dict by name, or a list in order"
    if len(names) == 1:
        fix = "pass one array: np.stack(arrays) makes a batch of several"
    what = f"{count} arrays were passed for {len(names)} inputs"
    return InputError(what, f"the model needs {names}", fix)


def _by_name(infos: Sequence[TensorInfo], inputs: Mapping[str, object]) -> Sequence[object]:
    try:
        values = [inputs[info.name] for info in infos]
    except KeyError:
        values = []
    if values and len(values) == len(inputs):
        return values
    names = [info.name for info in infos]
    _refuse_unknown(names, inputs)
    missing = [name for name in names if name not in inputs]
    if missing:
        what = f"input {missing[0]!r} is missing"
        raise InputError(what, f"the model needs {names}", "pass one array for each of them")
    return values


def _refuse_unknown(names: Sequence[str], given: Mapping[str, object]) -> None:
    for name in given:
        if name not in names:
            what = f"the model has no input {name!r}"
            raise InputError(what, f"its inputs are {list(names)}", nearest(str(name), names))


def name_shapes(
    infos: Sequence[TensorInfo], shapes: Shapes | None, named: Mapping[str, Shape]
) -> dict[str, Shape]:
    """Return shapes by input name; a shape alone is that of the only input."""
    names = [info.name for info in infos]
    if shapes is not None and not isinstance(shapes, Mapping):
        if len(names) != 1:
            what, why = "a shape was passed without a name", f"the inputs are {names}"
            raise InputError(what, why, "pass a dict of shapes by name")
        shapes = {names[0]: shapes}
    stated = {**(shapes or {}), **named}
    _refuse_unknown(names, stated)
    return checked_shapes(stated)


def name_of(infos: Sequence[TensorInfo], name: str | None, kind: str) -> str:
    """Return the name of an input or output; without one, that of the only one."""
    names = [info.name for info in infos]
    if name is None and len(names) == 1:
        return names[0]
    if not isinstance(name, str) or name not in names:
        what = f"there is no {kind} {name!r}" if name is not None else f"which {kind} is not said"
        wanted = "" if name is None else str(name)
        raise InputError(what, f"the model's are {names}", nearest(wanted, names))
    return name
