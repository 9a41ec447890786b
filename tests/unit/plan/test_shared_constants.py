"""Equal constants in a process share one array; constants that differ in a byte do not."""

from __future__ import annotations

import gc
import weakref

import numpy as np
from tiny_plan import line

from fourfold.plan import Container, container_bytes, read_plan
from fourfold.plan.record import plan_sections
from fourfold.plan.shared_constants import CHUNK, share_constants


def block(last: int = 0) -> np.ndarray:
    result = np.arange(CHUNK + 64, dtype=np.uint32).view(np.uint8)
    result[-1] = last
    return result


def test_equal_arrays_are_shared() -> None:
    first = share_constants(block())
    assert share_constants(block()) is first
    assert share_constants(first) is first
    assert share_constants(block(last=7)) is not first


def test_shared_arrays_are_read_only() -> None:
    assert not share_constants(block(last=9)).flags.writeable


def test_unused_arrays_are_freed() -> None:
    first = share_constants(block(last=3))
    reference = weakref.ref(first)
    del first
    gc.collect()
    assert reference() is None
    assert np.array_equal(share_constants(block(last=3)), block(last=3))


def test_plans_read_twice_share_constants() -> None:
    file = container_bytes(plan_sections(line(a=3.0, b=41.0).plan))
    first, second = (read_plan(Container(bytes(file), "it"), 0, 1, 2) for _ in range(2))
    assert first.constants is second.constants
    assert np.array_equal(first.constants, line(a=3.0, b=41.0).plan.constants)
