"""Fourier transforms as products with constant matrices, and related operators."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fourfold.formats.axes import axis_of, inverse_order, last_order
from fourfold.formats.onnx.operation import Operation, converts
from fourfold.formats.onnx.schema import graph_dtype
from fourfold.formats.rule_table import Unconvertible
from fourfold.ops.gather import Gather
from fourfold.types import DType

_MAX_MATRIX_ELEMENTS = 2**23  # elements of a matrix; a fast transform would pay beyond it
_HERTZ, _MEL, _F32 = 700.0, 2595.0, 1
Transform = Callable[[np.ndarray], np.ndarray]


def _complex(x: np.ndarray) -> np.ndarray:
    """Return the real and imaginary parts in the last axis as complex numbers."""
    return x[..., 0] + (1j * x[..., 1] if x.shape[-1] == 2 else 0)


def _parts(x: np.ndarray) -> np.ndarray:
    return np.stack([x.real, x.imag], axis=-1)


def _transform(length: int, inverse: bool, onesided: bool) -> Transform:
    """Return the transform of [..., time, parts] over time."""

    def forward(x: np.ndarray) -> np.ndarray:
        spectrum = np.fft.fft(_complex(x), length, axis=-1)
        return _parts(spectrum[..., : length // 2 + 1] if onesided else spectrum)

    def backward(x: np.ndarray) -> np.ndarray:
        if onesided:
            return np.fft.irfft(_complex(x), length, axis=-1)[..., None]
        return _parts(np.fft.ifft(_complex(x), length, axis=-1))

    return backward if inverse else forward


def _product(op: Operation, value: str, transform: Transform) -> str:
    """Apply a transform to [..., time, parts]; its matrix is the transform of the unit vectors."""
    *outer, time, parts = op.type_of(value).shape
    count = time * parts
    if parts not in (1, 2):
        raise ValueError(f"{op.type_of(value)} has neither real nor complex numbers")
    if count * count * 4 > _MAX_MATRIX_ELEMENTS:
        raise Unconvertible(f"its transform of {time} numbers is too large for a matrix product")
    columns = transform(np.eye(count).reshape(count, time, parts))
    matrix = np.ascontiguousarray(columns.reshape(count, -1).T, op.type_of(value).dtype.numpy)
    rows = op.reshaped(value, (*outer, count), "rows")
    product = op.add(
        "fully_connected", rows, op.add_constant(matrix, "waves"), None, part="product"
    )
    return op.reshaped(product, (*outer, *columns.shape[1:]), "parts")


@converts("DFT")
def dft(op: Operation) -> None:
    """fully_connected with a constant matrix, between transposes."""
    x, newer = op.input_type(0), op.version >= 20
    axis = op.integer(2, "axis") if newer and op.optional(2) is not None else None
    axis = op.attribute("axis", -2 if newer else 1) if axis is None else axis
    axis, last = axis_of(axis, x.rank), x.rank - 1
    if axis == last:
        raise ValueError("its axis is the one of real and imaginary parts")
    inverse, onesided = bool(op.attribute("inverse", 0)), bool(op.attribute("onesided", 0))
    length = 2 * (x.shape[axis] - 1) if inverse and onesided else x.shape[axis]
    if op.optional(1) is not None:
        length = op.integer(1, "dft_length")
    if length < 1:
        raise ValueError(f"a transform of length {length} is not valid")
    order = (*last_order(axis, last), last)
    turned = op.transposed(op.input(0), order, "time_last")
    result = _product(op, turned, _transform(length, inverse, onesided))
    op.give_value(op.transposed(result, inverse_order(order), "back"))


@converts("STFT")
def stft(op: Operation) -> None:
    """gather extracts frames, fully_connected transforms them."""
    x, step = op.input_type(0), op.integer(1, "frame_step")
    value = op.input(0)
    if x.rank == 2:
        x = x.with_shape(*x.shape, 1)
        value = op.reshaped(value, x.shape, "signal")
    window = None if op.optional(2) is None else op.constant(2, "window").astype(np.float64)
    length = x.shape[1] if window is None else len(window)
    if op.optional(3) is not None:
        length = op.integer(3, "frame_length")
    if step < 1 or not 0 < length <= x.shape[1] or (window is not None and len(window) != length):
        raise ValueError(f"frames of {length} in steps of {step} cannot be extracted from {x}")
    count = 1 + (x.shape[1] - length) // step
    positions = np.arange(length) + np.arange(count)[:, None] * step
    indices = op.add_constant(positions.astype(np.int32), "places")
    frames = op.add("gather", value, indices, attributes=Gather(1), part="frames")
    waves = _transform(length, inverse=False, onesided=bool(op.attribute("onesided", 1)))
    shape = np.ones(length) if window is None else window
    op.give_value(_product(op, frames, lambda frame: waves(frame * shape[:, None])))


@converts("MelWeightMatrix")
def mel_weight_matrix(op: Operation) -> None:
    """a constant: triangular filters over the bins of a spectrum."""
    bins, length, rate = (
        op.integer(index, what)
        for index, what in enumerate(("num_mel_bins", "dft_length", "sample_rate"))
    )
    lower, upper = op.number(3, "lower_edge_hertz"), op.number(4, "upper_edge_hertz")
    if min(bins, length, rate) < 1 or lower is None or upper is None:
        raise ValueError("its parameters are not valid")
    to = graph_dtype(op.attribute("output_datatype", _F32))
    op.reserve(op.input_type(0).with_shape(length // 2 + 1, bins).with_dtype(DType.F64))
    low, high = (_MEL * np.log10(1 + edge / _HERTZ) for edge in (lower, upper))
    mels = np.arange(bins + 2) * ((high - low) / (bins + 2)) + low
    hertz = _HERTZ * (10 ** (mels / _MEL) - 1)
    edges = ((length + 1) * hertz // rate).astype(np.int64)
    if edges.max() > length // 2:
        raise ValueError(f"{upper} Hz is too high for a sample rate of {rate}")
    op.give_constant(_triangles(edges, length // 2 + 1).astype(to.numpy))


def _triangles(edges: np.ndarray, rows: int) -> np.ndarray:
    """Return columns that rise from one edge to the next and fall to the one after it."""
    matrix = np.zeros((rows, len(edges) - 2))
    for column, (left, middle, right) in enumerate(zip(edges, edges[1:], edges[2:], strict=False)):
        if left == middle:
            matrix[middle, column] = 1
        else:
            matrix[left : middle + 1, column] = np.arange(middle - left + 1) / (middle - left)
        if right > middle:
            matrix[middle:right, column] = np.arange(right - middle, 0, -1) / (right - middle)
    return matrix
