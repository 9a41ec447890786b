"""A run in flight on a thread can be polled while another thread waits for it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from fourfold.backends.thread_slot import ThreadSlot
from fourfold.plan import Port
from fourfold.types import DType, TensorType

PORTS = (Port("x", TensorType(DType.F32, (3,)), 0, None),)


def test_run_is_not_done_while_another_thread_waits() -> None:
    asked, go_on = threading.Event(), threading.Event()

    def play(arrays: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        asked.set()
        assert go_on.wait(60)
        return [2 * arrays[0]]

    with ThreadPoolExecutor(2) as threads:
        slot = ThreadSlot(play, threads, PORTS, PORTS)
        slot.begin([np.ones(3, np.float32)])
        assert asked.wait(60)
        waits = threads.submit(slot.end)
        seen = [slot.done for _ in range(100_000)]
        assert waits.running()
        go_on.set()
        np.testing.assert_array_equal(waits.result(60)[0], [2, 2, 2])
        assert slot.done
    assert not any(seen)
