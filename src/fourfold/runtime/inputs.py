"""What a caller passes to a model: arrays by name, checked against what the model takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from fourfold.errors import InputError, nearest
from fourfold.plan import Port
from fourfold.types import Quantization, Shape

if TYPE_CHECKING:
    from fourfold.metadata import TensorMetadata

    ReadMetadata = Callable[[], TensorMetadata | None]

Inputs = Mapping[str, np.ndarray] | Sequence[np.ndarray] | np.ndarray
Shapes = Mapping[str, Shape] | Shape


def _nothing() -> None:
    """Most models say nothing of their tensors."""


@dataclass(frozen=True)
class TensorInfo:
    """What a caller needs to know of an input or output.

    `signature` has the sizes of an input with -1 where the model leaves one open; it is empty
    where the model leaves none open. `pixels` says in words what the bytes of a picture hold, and
    is empty for all else. An array of text has the type `object`. What the model's metadata say
    is read when it is asked for.
    """

    name: str
    shape: Shape
    dtype: np.dtype
    quantization: Quantization | None = None
    signature: Shape = ()
    pixels: str = ""
    read_metadata: ReadMetadata = field(default=_nothing, compare=False, repr=False)

    @property
    def metadata(self) -> TensorMetadata | None:
        """What the model says of it; None where it says nothing."""
        return self.read_metadata()

    @property
    def description(self) -> str:
        found = self.metadata
        return "" if found is None else found.description

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of its classes: of the places along its last axis, or of its numbers."""
        found = self.metadata
        return () if found is None else found.label_texts() or found.label_texts(kind="value")

    def admits(self, shape: Shape) -> bool:
        """Whether the model itself says that the input may have this shape."""
        pairs = zip(self.signature, shape, strict=False)
        return len(shape) == len(self.signature) and all(own in (-1, size) for own, size in pairs)


def describe_ports(
    ports: Sequence[Port],
    names: Sequence[str],
    signatures: Sequence[Shape] = (),
    pixels: Mapping[str, str] | None = None,
    read: Callable[[int], TensorMetadata | None] | None = None,
) -> tuple[TensorInfo, ...]:
    """What a caller needs to know of a plan's inputs or outputs, by the model's own names."""
    known, pixels = dict(zip(names, signatures, strict=False)), pixels or {}
    return tuple(
        TensorInfo(
            name=name,
            shape=port.type.shape,
            dtype=port.type.dtype.array_dtype,
            quantization=port.quantization,
            signature=known.get(name, ()),
            pixels=pixels.get(name, ""),
            read_metadata=_nothing if read is None else partial(read, place),
        )
        for place, (port, name) in enumerate(zip(ports, names, strict=True))
    )


def match_inputs(
    infos: Sequence[TensorInfo], inputs: Inputs
) -> tuple[list[np.ndarray], dict[str, Shape]]:
    """The arrays in the model's order, and the shapes of those that the model must change for."""
    if len(infos) == 1 and isinstance(inputs, np.ndarray):
        arrays = [_checked(infos[0], inputs)]  # what most callers pass, by the shortest way
    else:
        given = _by_name(infos, inputs)
        arrays = [_checked(info, given[info.name]) for info in infos]
    pairs = zip(infos, arrays, strict=True)
    return arrays, {info.name: a.shape for info, a in pairs if a.shape != info.shape}


def name_shapes(
    infos: Sequence[TensorInfo], shapes: Shapes | None, named: Mapping[str, Shape]
) -> dict[str, Shape]:
    """Shapes by the names of inputs; a shape alone is that of the only input."""
    names = [info.name for info in infos]
    if shapes is not None and not isinstance(shapes, Mapping):
        if len(names) != 1:
            what, why = "a shape was passed without a name", f"the inputs are {names}"
            raise InputError(what, why, "pass a dict of shapes by name")
        shapes = {names[0]: shapes}
    wanted = {**(shapes or {}), **named}
    _refuse_unknown(names, wanted)
    try:
        return {name: tuple(int(size) for size in shape) for name, shape in wanted.items()}
    except (TypeError, ValueError) as error:
        what, why = f"{wanted} are no shapes", "a shape is a tuple of whole numbers"
        raise InputError(what, why, "write it as {'name': (1, 224, 224, 3)}") from error


def name_of(infos: Sequence[TensorInfo], name: str | None, kind: str) -> str:
    """The name of an input or output; without one it is that of the only one."""
    names = [info.name for info in infos]
    if name is None and len(names) == 1:
        return names[0]
    if name not in names:
        what = f"there is no {kind} {name!r}" if name is not None else f"which {kind} is not said"
        raise InputError(what, f"the model's are {names}", nearest(name or "", names))
    return name


def _refuse_unknown(names: Sequence[str], given: Mapping[str, object]) -> None:
    for name in given:
        if name not in names:
            what = f"the model has no input {name!r}"
            raise InputError(what, f"its inputs are {list(names)}", nearest(name, names))


def _by_name(infos: Sequence[TensorInfo], inputs: Inputs) -> Mapping[str, np.ndarray]:
    names = [info.name for info in infos]
    if isinstance(inputs, Mapping):
        _refuse_unknown(names, inputs)
        missing = [name for name in names if name not in inputs]
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
    """The array in a form that can be uploaded; its type must be the model's own."""
    array = np.asarray(array)
    if info.dtype == object:
        array = _texts(info, array)
    if array.dtype != info.dtype:
        what = f"input {info.name!r} is {array.dtype}, not {info.dtype}"
        fix = f"pass array.astype(np.{info.dtype}), scaled as the model expects it"
        raise InputError(what, "the model reads its own type only", fix)
    if array.shape != info.shape and not info.admits(array.shape):
        what = f"input {info.name!r} has shape {array.shape}, not {info.shape}"
        why = f"the model leaves no size open that would allow it: {info.signature or info.shape}"
        fix = f"reshape the array, or the model: session.resize({{{info.name!r}: {array.shape}}})"
        raise InputError(what, why, fix)
    return np.asarray(array, order="C")


def _texts(info: TensorInfo, array: np.ndarray) -> np.ndarray:
    """Text as bytes, each an object of its own, whichever way the caller has it."""
    texts = [one.encode() if isinstance(one, str) else one for one in array.ravel().tolist()]
    wrong = next((one for one in texts if not isinstance(one, bytes)), None)
    if wrong is not None or array.dtype.kind not in "OUS":
        kind = array.dtype if wrong is None else type(wrong).__name__
        fix = "pass an array of str or bytes: np.array(['one text', 'another'])"
        raise InputError(f"input {info.name!r} is {kind}, not text", "the model reads text", fix)
    found = np.empty(len(texts), object)
    found[:] = texts
    return found.reshape(array.shape)
