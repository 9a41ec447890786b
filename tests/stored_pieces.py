"""Constants in every form that a prepared file stores, for the tests of all players."""

from __future__ import annotations

import numpy as np

from fourfold.plan.layout import ArrayLayout, Piece
from fourfold.types import DType

RANDOM = np.random.default_rng(7)
STEPS = RANDOM.integers(-127, 128, (20, 9, 7)).astype(np.int8)
SCALES = RANDOM.uniform(0.001, 0.2, 20).astype(np.float32)
TILED = ((3, 8), (9,), (8,))  # 20 outputs in groups of eight, 7 inputs padded to 8
WORDS = ((3, 8), (3, 3), (2, 4))  # the same, with four inputs in a word


def _reals(scale: np.ndarray | float) -> np.ndarray:
    return STEPS.astype(np.float32) * np.float32(scale)


def _halves() -> np.ndarray:
    """Return fp16 numbers of all sizes: normal, subnormal, zero of both signs, the largest."""
    array = RANDOM.standard_normal((20, 9, 7)).astype(np.float16)
    array.reshape(-1)[:8] = [0, -0.0, 6e-8, -6e-8, 6e-5, -6.1e-5, 65504, -65504]
    return array


# Each array with its layout, and the type that a file stores.
FORMS: dict[str, tuple[np.ndarray, ArrayLayout, DType]] = {
    "one scale": (_reals(0.037), ArrayLayout((20, 9, 7), TILED, (0, 2, 3, 1)), DType.U8),
    "scales of the first axis": (
        _reals(SCALES[:, None, None]),
        ArrayLayout((20, 9, 7), TILED, (0, 2, 3, 1)),
        DType.U8,
    ),
    "scales of the last axis": (
        _reals(SCALES[:7]),
        ArrayLayout((20, 9, 7), ((20,), (9,), (2, 4)), (2, 0, 1, 3)),
        DType.U8,
    ),
    "steps of one sign": (
        np.abs(_reals(0.25)) + np.float32(0.25),
        ArrayLayout((20, 9, 7), TILED, (0, 2, 3, 1)),
        DType.U8,
    ),
    "rounded to fp16": (
        _reals(SCALES[:, None, None]).astype(np.float16),
        ArrayLayout((20, 9, 7), TILED, (0, 2, 3, 1)),
        DType.U8,
    ),
    "bytes": (STEPS, ArrayLayout((20, 9, 7), WORDS, (0, 2, 4, 3, 1, 5)), DType.U8),
    "fp16 as fp32": (
        _halves().astype(np.float32),
        ArrayLayout((20, 9, 7), TILED, (0, 2, 3, 1)),
        DType.F16,
    ),
    "fp16": (
        _halves().reshape(180, 7),
        ArrayLayout((180, 7), ((180,), (2, 4)), (1, 0, 2)),
        DType.F16,
    ),
    "fp32": (
        RANDOM.standard_normal((4, 5, 6, 7)).astype(np.float32),
        ArrayLayout((4, 5, 6, 7), ((2, 2), (5,), (2, 4), (8,)), (0, 3, 2, 5, 1, 4)),
        DType.F32,
    ),
    "fp32 with a negative zero": (
        np.where(STEPS == 5, np.float32(-0.0), _reals(0.1)),
        ArrayLayout((20, 9, 7), TILED, (0, 2, 3, 1)),
        DType.F32,
    ),
    "a bias": (
        RANDOM.standard_normal(300).astype(np.float32),
        ArrayLayout.plain((300,), (320,)),
        DType.F32,
    ),
    "indices": (
        RANDOM.integers(-9, 2**30, 200).astype(np.int32),
        ArrayLayout.plain((200,)),
        DType.I32,
    ),
}


def stored_block() -> tuple[np.ndarray, tuple[Piece, ...]]:
    """Return a block of constants with all forms and some bytes between them, and its pieces."""
    random, pieces, content, cursor = np.random.default_rng(3), [], [], 0
    for array, layout, _ in FORMS.values():
        data = np.ascontiguousarray(layout.arrange(array)).reshape(-1).view(np.uint8)
        gap = random.integers(0, 256, -data.size % 64 + 64, np.uint8)
        pieces.append(Piece(cursor, DType.of(array), layout))
        content += [data, gap]
        cursor += data.size + gap.size
    return np.concatenate(content), tuple(pieces)
