"""Weights are on a device once, however many sessions hold them, and as long as one does."""

from __future__ import annotations

import gc
import threading
from pathlib import Path

import numpy as np
import pytest
from tiny_matrix import WEIGHTS, matrix, numbers

import fourfold
from fourfold.device import DeviceInfo
from fourfold.players.opencl import binding as cl
from fourfold.players.opencl.binding import objects
from fourfold.players.opencl.devices import context_of
from fourfold.players.opencl.shared_constants import upload_constants

READ_ONLY = 1 << 2  # the flag of a buffer that kernels only read, as constants are


class Uploads:
    """What was allocated for constants, and what was given back, in bytes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sizes: dict[int | None, int] = {}
        self.total = 0
        make, release = cl.Buffer._make, objects.Handle.release

        def noted(
            buffer: cl.Buffer, context: cl.Context, flags: int, size: int, at: object
        ) -> None:
            make(buffer, context, flags, size, at)  # type: ignore[arg-type]
            if flags & READ_ONLY:
                assert buffer.pointer is not None
                self.sizes[buffer.pointer.value] = size
                self.total += size

        def freed(handle: objects.Handle) -> None:
            if handle.pointer is not None:
                self.sizes.pop(handle.pointer.value, None)
            release(handle)

        monkeypatch.setattr(cl.Buffer, "_make", noted)
        monkeypatch.setattr(objects.Handle, "release", freed)

    @property
    def held(self) -> int:
        gc.collect()
        return sum(self.sizes.values())


@pytest.fixture
def uploads(monkeypatch: pytest.MonkeyPatch) -> Uploads:
    return Uploads(monkeypatch)


def is_right(session: fourfold.Session) -> bool:
    x = numbers(5)
    return np.allclose(session.run(x)["y"], x @ WEIGHTS.T, atol=1e-6)


@pytest.mark.parametrize("cache", ["folder", "memory", None])
def test_sessions_of_one_model_share_its_weights(
    device: DeviceInfo, tmp_path: Path, uploads: Uploads, cache: str | None
) -> None:
    place = str(tmp_path) if cache == "folder" else cache
    sessions = [fourfold.Session(matrix(), device, cache=place) for _ in range(3)]
    size = sessions[0].plan.bytes("constants")
    assert uploads.total == uploads.held == size
    assert len({id(session.plan.constants) for session in sessions}) == 1
    for number, session in enumerate(sessions):
        assert is_right(session)
        session.close()
        assert uploads.held == (size if number < 2 else 0)
    with fourfold.Session(matrix(), device, cache=place) as again:
        assert is_right(again)
        assert uploads.held == size
    assert uploads.total == 2 * size


def test_the_first_may_go_before_the_others_come(device: DeviceInfo, uploads: Uploads) -> None:
    first = fourfold.Session(matrix(), device, cache=None)
    second = fourfold.Session(matrix(), device, cache=None)
    first.close()
    third = fourfold.Session(matrix(), device, cache=None)
    second.close()
    assert is_right(third)
    assert uploads.total == uploads.held == third.plan.bytes("constants")
    del third
    assert uploads.held == 0


def test_other_weights_are_others(device: DeviceInfo, uploads: Uploads) -> None:
    context = context_of(device)
    one, other = np.arange(64, dtype=np.uint8), np.arange(64, dtype=np.uint8)
    other[63] = 1
    buffers = [upload_constants(context, array) for array in (one, other, one)]
    assert buffers[0].pointer is buffers[2].pointer is not buffers[1].pointer
    found = np.empty(64, np.uint8)
    cl.Queue(context).read(buffers[1], found)
    assert np.array_equal(found, other)
    assert uploads.total == 128


def test_threads_that_come_at_once_upload_once(device: DeviceInfo, uploads: Uploads) -> None:
    context, constants = context_of(device), np.zeros(1 << 20, np.uint8)
    held: list[cl.Buffer] = []
    together = threading.Barrier(8)

    def upload() -> None:
        together.wait()
        held.append(upload_constants(context, constants))

    threads = [threading.Thread(target=upload) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(held) == 8
    assert uploads.total == 1 << 20
