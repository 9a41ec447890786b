"""What kernels of trials get, and whether what they make of it is right, whoever runs them."""

from __future__ import annotations

import numpy as np

from fourfold.kernel.opencl import probes

ITEMS = 256
GROUP_SHAPES = ((ITEMS,), (32, ITEMS // 32), (ITEMS // 32, 32))
# Work-items of each kernel; the one with many branches is about its text, which is long.
SELF_TEST_SIZES: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(probes.SELF_TEST, (1, 7, 4096)),
    "branches": (7,),
}
STAGES, CHUNKS, STEPS = 50, 64, 64
_SUMS = [-261.0, -379.0, 3.0]  # 1 + (1, 2, 255, 4) times -1 each, times (127, -128, -1, 1), ...
_STORED = [3, 5, 102, 0, 2, 10, 9, 8, 5, 5, 102, 0, 3, 11, 10, 9]
# Of each kernel: its numbers for a work-item, those behind the vectors included, and their type.
_COUNTS = {"floats": 4, "halves": 5, "bytes": 5, "branches": 2 * 4 * probes.VECTORS}
_TYPES = {"halves": np.float16, "bytes": np.uint8}
_MOST = 80  # three times it and one more fit into a byte, and are exact as a half


def adds_right(result: np.ndarray, packs: bool) -> bool:
    """Whether these are sums of products of bytes, and where it `packs` them, bytes."""
    stored = result[4:].view(np.uint8).tolist()
    return bool(result[:3].tolist() == _SUMS and (not packs or stored == _STORED))


def exchanges_right(result: np.ndarray, row: int) -> bool:
    """Whether neighbours in rows of a group have handed each other their numbers."""
    sums, reach = result.T
    size = min(int(reach[0]), row)
    if size < 2 or size & (size - 1) or np.any(reach != reach[0]):
        return False
    wanted = np.arange(ITEMS).reshape(-1, size).sum(1)
    return np.array_equal(sums, np.repeat(wanted, size))


def multiplies_right(result: np.ndarray) -> bool:
    """Sixteen products of ones must add up to sixteen, in every work-item of a warp."""
    return bool(np.array_equal(result, 16.0 + (np.arange(32) ^ 1)))


def texels() -> tuple[np.ndarray, np.ndarray]:
    """Floats and halves to be read by images."""
    floats = np.random.default_rng(7).uniform(-1, 1, (ITEMS, 4)).astype(np.float32)
    return floats, floats[::-1].astype(np.float16)


def numbers(name: str, items: int, seed: int) -> np.ndarray:
    """Some numbers for so many work-items of a kernel of the self-test."""
    found = np.random.default_rng(seed).integers(0, _MOST, items * _COUNTS[name])
    return found.astype(_TYPES.get(name, np.float32))


def changed(array: np.ndarray) -> np.ndarray:
    """What the kernels of the self-test make of numbers."""
    return (array * 3 + 1).astype(array.dtype)


def chain() -> np.ndarray:
    """What stages make, each of what the one before it made."""
    made = [np.arange(CHUNKS, dtype=np.uint32)]
    for _ in range(STAGES):
        value = np.roll(made[-1], -1)
        for _ in range(STEPS):
            value = value * np.uint32(1664525) + np.uint32(1013904223)
        made.append(value)
    return np.stack(made)
