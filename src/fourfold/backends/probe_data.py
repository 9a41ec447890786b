"""Inputs and expected results of probe kernels, for all backends."""

from __future__ import annotations

import numpy as np

from fourfold.codegen.opencl import probes

ITEMS = 256
GROUP_SHAPES = ((ITEMS,), (32, ITEMS // 32), (ITEMS // 32, 32))
# Work-items of each kernel; few for the one with many branches, whose text is what is tested.
SELF_TEST_SIZES: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(probes.SELF_TEST, (1, 7, 4096)),
    "branches": (7,),
}
STAGES, CHUNKS, STEPS = 50, 64, 64
_SUMS = [-261.0, -379.0, 3.0]  # 1 + (1, 2, 255, 4) times -1 each, times (127, -128, -1, 1), ...
_STORED = [3, 5, 102, 0, 2, 10, 9, 8, 5, 5, 102, 0, 3, 11, 10, 9]
# Values per work-item of each kernel, including those after the vectors, and their dtype.
_COUNTS = {"floats": 4, "halves": 5, "bytes": 5, "branches": 2 * 4 * probes.VECTORS}
_TYPES = {"halves": np.float16, "bytes": np.uint8}
_MAX_INPUT = 80  # largest input: 3 x + 1 fits into a byte, and is exact as fp16


def adds_right(result: np.ndarray, packs: bool) -> bool:
    """Return True if the sums of int8 products are right, and with `packs` also the
    packed bytes.
    """
    stored = result[4:].view(np.uint8).tolist()
    return bool(result[:3].tolist() == _SUMS and (not packs or stored == _STORED))


def exchanges_right(result: np.ndarray, row: int) -> bool:
    """Return True if neighbours in rows of a group have exchanged their numbers correctly."""
    sums, reach = result.T
    size = min(int(reach[0]), row)
    if size < 2 or size & (size - 1) or np.any(reach != reach[0]):
        return False
    expected = np.arange(ITEMS).reshape(-1, size).sum(1)
    return np.array_equal(sums, np.repeat(expected, size))


def multiplies_right(result: np.ndarray) -> bool:
    """Return True if sixteen products of ones add up to sixteen in every work-item of a warp."""
    return bool(np.array_equal(result, 16.0 + (np.arange(32) ^ 1)))


def texels() -> tuple[np.ndarray, np.ndarray]:
    """Return fp32 and fp16 data to be read through images."""
    floats = np.random.default_rng(7).uniform(-1, 1, (ITEMS, 4)).astype(np.float32)
    return floats, floats[::-1].astype(np.float16)


def numbers(name: str, items: int, seed: int) -> np.ndarray:
    """Return inputs for this many work-items of a self-test kernel."""
    values = np.random.default_rng(seed).integers(0, _MAX_INPUT, items * _COUNTS[name])
    return values.astype(_TYPES.get(name, np.float32))


def changed(array: np.ndarray) -> np.ndarray:
    """Return what self-test kernels compute from their inputs."""
    return (array * 3 + 1).astype(array.dtype)


def chain() -> np.ndarray:
    """Return the expected results of chained stages, each computed from the previous one."""
    stages = [np.arange(CHUNKS, dtype=np.uint32)]
    for _ in range(STAGES):
        value = np.roll(stages[-1], -1)
        for _ in range(STEPS):
            value = value * np.uint32(1664525) + np.uint32(1013904223)
        stages.append(value)
    return np.stack(stages)
