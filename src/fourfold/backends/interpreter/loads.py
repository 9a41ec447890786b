"""Loads of a kernel: elements converted to kinds, or packed into words."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fourfold.backends.interpreter.arithmetic import KINDS
from fourfold.backends.interpreter.frame import NOBODY, Frame
from fourfold.codegen.expression import Expression

Evaluate = Callable[[Frame], np.ndarray]
_HALVES = np.dtype(np.uint16)


def _load(pointer: int, item: Expression, index: Evaluate) -> Evaluate:
    """Load `width` elements at `index * width` and convert them."""
    width, dtype = item.width, KINDS[item.kind]

    def read(frame: Frame) -> np.ndarray:
        loaded = frame.pointers[pointer].read(frame, index(frame), width)
        return loaded if loaded.dtype == dtype else loaded.astype(dtype)

    return read


def _words(
    pointer: int, item: Expression, index: Evaluate, inside: Evaluate | None = None
) -> Evaluate:
    """Load four fp16 at `index * 4` in two words."""
    return _halves(pointer, 4, index, inside, alignment=0)


def _streamed_words(pointer: int, item: Expression, index: Evaluate) -> Evaluate:
    """Load four fp16 from an element on."""
    return _halves(pointer, 4, index, None, alignment=4)


def _double_words(pointer: int, item: Expression, index: Evaluate, inside: Evaluate) -> Evaluate:
    """Load eight fp16 from an element on in four words."""
    return _halves(pointer, 8, index, inside, alignment=8)


def _halves(
    pointer: int, count: int, index: Evaluate, inside: Evaluate | None, alignment: int
) -> Evaluate:
    """Load fp16 as stored, two per word; zeros where `inside` is False."""

    def read(frame: Frame) -> np.ndarray:
        start, outer = index(frame), frame.mask
        holds = None if inside is None else inside(frame).astype(np.bool_, copy=False)
        frame.mask = outer if holds is None else frame.narrow(holds)
        words = np.zeros((count // 2, 1), np.uint32)
        if frame.mask is not NOBODY:
            halves = frame.pointers[pointer].read(frame, start, count, alignment)
            words = join_halves(halves.view(_HALVES))
        every, frame.mask = frame.mask is outer, outer
        return words if every or holds is None else np.where(holds, words, np.uint32(0))

    return read


def join_halves(halves: np.ndarray) -> np.ndarray:
    """Pack rows of 16 bits into half as many rows of 32, low half first."""
    wide = halves.astype(np.uint32)
    return wide[0::2] | wide[1::2] << np.uint32(16)


def split_halves(words: np.ndarray) -> np.ndarray:
    """Unpack the fp16 of words into twice as many rows."""
    rows, items = words.shape
    halves = np.empty((2 * rows, items), _HALVES)
    halves[0::2], halves[1::2] = words & np.uint32(0xFFFF), words >> np.uint32(16)
    return halves.view(np.float16)


def _bytes(pointer: int, item: Expression, index: Evaluate) -> Evaluate:
    """Load eight bytes from an element on, as floats."""
    return lambda frame: (
        frame.pointers[pointer].read(frame, index(frame), 8, alignment=1).astype(np.float32)
    )


def _taps(pointer: int, item: Expression, index: Evaluate, step: Evaluate) -> Evaluate:
    """Load two 4x4 byte matrices of four words each, transposed."""

    def read(frame: Frame) -> np.ndarray:
        start = index(frame)
        parts = [
            frame.pointers[pointer].read(frame, at, 4, alignment=1)
            for at in (start, start + step(frame))
        ]
        return np.concatenate([_transposed(part) for part in parts])

    return read


def _transposed(words: np.ndarray) -> np.ndarray:
    """Transpose four rows of words as 4x4 bytes: row n gets byte n of each."""
    bytes_ = np.ascontiguousarray(words.T).view(np.uint8).reshape(-1, 4, 4)
    columns = np.ascontiguousarray(bytes_.transpose(0, 2, 1)).view(np.int32)
    return np.ascontiguousarray(columns[:, :, 0].T)


LOADS: dict[str, Callable[..., Evaluate]] = {
    "load": _load,
    "load_words": _words,
    "load_words_streamed": _streamed_words,
    "load_double_words": _double_words,
    "load_bytes": _bytes,
    "load_taps": _taps,
}
