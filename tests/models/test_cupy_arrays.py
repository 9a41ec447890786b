"""CuPy's arrays on a GPU, in and out of sessions by CUDA, on CuPy's streams."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from onnx_writer import small_model
from small_networks import small_onnx

import fourfold
from fourfold.errors import InputError

cupy = pytest.importorskip("cupy", reason="the package cupy is not installed")
# Keeps a stream busy for so many cycles, while the host goes on.
SPIN = """
extern "C" __global__ void spin(long long cycles) {
    long long start = clock64();
    while (clock64() - start < cycles) {}
}
"""


def count_gpus() -> int:
    try:
        return int(cupy.cuda.runtime.getDeviceCount())
    except cupy.cuda.runtime.CUDARuntimeError:
        return 0


pytestmark = pytest.mark.skipif(not count_gpus(), reason="CuPy has no GPU here")


def open_session(device: object, model: bytes | None = None, **options: Any) -> fourfold.Session:
    return fourfold.Session(model or small_onnx(), device, cache="memory", **options)


def picture(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, (1, 5, 6, 3)).astype(np.float32)


@cache
def spinning_kernel() -> Any:
    return cupy.RawKernel(SPIN, "spin")


def delay() -> None:
    """About ten milliseconds in the current stream."""
    spinning_kernel()((1,), (1,), (np.int64(20_000_000),))


class ByInterface:
    """An array that has `__cuda_array_interface__` alone, with `changes` in what it tells."""

    def __init__(self, array: Any, **changes: Any) -> None:
        self.array, self.changes = array, changes

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {**self.array.__cuda_array_interface__, **self.changes}


def by_second_version(array: Any) -> ByInterface:
    """As it was told before streams were."""
    return ByInterface(array, version=2, stream=None)


Way = Callable[[Any], Any]
WAYS: dict[str, Way] = {"dlpack": lambda array: array, "v3": ByInterface, "v2": by_second_version}


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> Way:
    """How an array is passed."""
    return WAYS[request.param]


@pytest.fixture
def session(cuda_session: fourfold.Session) -> fourfold.Session:
    return cuda_session


def test_in_and_out(session: fourfold.Session, way: Way) -> None:
    for seed in range(5):
        expected = session.run(picture(seed))["scores"]
        given = cupy.asarray(picture(seed))
        kept: Any = session.run(way(given), keep_on_device=True)["scores"]
        for taken in (cupy.from_dlpack(kept), cupy.asarray(kept)):
            assert taken.data.ptr == kept.handle
            np.testing.assert_array_equal(taken.get(), expected)
        del kept
        np.testing.assert_array_equal(taken.get(), expected)
        np.testing.assert_array_equal(given.get(), picture(seed))


def test_into_arrays(session: fourfold.Session, way: Way) -> None:
    scores = cupy.full((1, 5), 7, cupy.float32)
    table = cupy.full((4, 1, 5), 7, cupy.float32)
    for seed in range(4):
        expected = session.run(picture(seed))
        given = cupy.asarray(picture(seed))
        session.run(way(given), out={"scores": way(scores), "twice": way(table[2])})
        np.testing.assert_array_equal(scores.get(), expected["scores"])
        np.testing.assert_array_equal(table[2].get(), expected["twice"])
    np.testing.assert_array_equal(table.get()[[0, 1, 3]], 7)


@pytest.mark.parametrize("told", ["dlpack", "v3"])
@pytest.mark.parametrize("beside", [False, True])
def test_behind_work_that_is_not_done(session: fourfold.Session, told: str, beside: bool) -> None:
    """A run begins after what CuPy has put in, on the default stream or on its current one."""
    expected = session.run(picture(1))["scores"]
    stream = cupy.cuda.Stream(non_blocking=True) if beside else cupy.cuda.Stream.null
    new = cupy.asarray(picture(1))
    cupy.cuda.Device().synchronize()
    with stream:
        for _ in range(3):
            given = cupy.zeros((1, 5, 6, 3), cupy.float32)
            stream.synchronize()
            delay()
            given[...] = new
            np.testing.assert_array_equal(session.run(WAYS[told](given))["scores"], expected)


@pytest.mark.parametrize("told", ["dlpack", "v3"])
def test_a_result_comes_last(session: fourfold.Session, told: str) -> None:
    """What was put in before a run does not overwrite what the run has written."""
    expected = session.run(picture(1))["scores"]
    with cupy.cuda.Stream(non_blocking=True) as stream:
        target = cupy.zeros((1, 5), cupy.float32)
        stream.synchronize()
        delay()
        target[...] = 7
        session.run(picture(1), out={"scores": WAYS[told](target)})
        stream.synchronize()
        np.testing.assert_array_equal(target.get(), expected)


@pytest.mark.parametrize("name", ["own", "null", "ptds"])
def test_on_its_stream(session: fourfold.Session, name: str) -> None:
    expected = [session.run(picture(seed))["scores"] for seed in range(4)]
    own = cupy.cuda.Stream(non_blocking=True)
    stream = own if name == "own" else getattr(cupy.cuda.Stream, name)
    with open_session(stream) as shared, stream:
        given = cupy.zeros((1, 5, 6, 3), cupy.float32)
        shared.bind("image", given)
        for seed, wanted in enumerate(expected):
            new = cupy.asarray(picture(seed))
            delay()
            given[...] = new
            np.testing.assert_array_equal(shared.run()["scores"], wanted)
        shared.bind("image", None)
        frames = [picture(seed) for seed in range(4)]
        for wanted, found in zip(expected, shared.stream(frames), strict=True):
            np.testing.assert_array_equal(found["scores"], wanted)


def test_bound(session: fourfold.Session, way: Way) -> None:
    given, target = cupy.zeros((1, 5, 6, 3), cupy.float32), cupy.zeros((1, 5), cupy.float32)
    expected = [session.run(picture(seed))["scores"] for seed in range(4)]
    session.bind("image", way(given))
    session.bind("scores", way(target))
    for seed, wanted in enumerate(expected):
        given[...] = cupy.asarray(picture(seed))
        session.run()
        np.testing.assert_array_equal(target.get(), wanted)


@pytest.mark.parametrize("allocator", ["malloc_managed", "malloc_async"])
def test_memory_of_other_kinds(session: fourfold.Session, way: Way, allocator: str) -> None:
    expected = session.run(picture(2))["scores"]
    with cupy.cuda.using_allocator(getattr(cupy.cuda, allocator)):
        given, target = cupy.asarray(picture(2)), cupy.zeros((1, 5), cupy.float32)
        session.run(way(given), out={"scores": way(target)})
        np.testing.assert_array_equal(target.get(), expected)


def wide() -> Any:
    """Twice as many columns as the model's picture has."""
    return cupy.zeros((1, 5, 12, 3), cupy.float32)


NOT_FITTING: dict[str, tuple[Callable[[], Any], str]] = {
    "halves": (lambda: cupy.asarray(picture(1), cupy.float16), "float16"),
    "doubles": (lambda: cupy.asarray(picture(1), cupy.float64), "float64"),
    "transposed": (lambda: cupy.zeros((1, 6, 5, 3), cupy.float32).transpose(0, 2, 1, 3), "piece"),
    "every second": (lambda: wide()[:, :, ::2], "piece"),
    "backwards": (lambda: cupy.asarray(picture(1))[:, ::-1], "piece"),
    "a part": (lambda: wide()[:, :, :6], "piece"),
    "broadcast": (lambda: cupy.broadcast_to(cupy.ones(3, cupy.float32), (1, 5, 6, 3)), "piece"),
    "Fortran's": (lambda: cupy.asfortranarray(cupy.asarray(picture(1))), "piece"),
    "smaller": (lambda: cupy.zeros((1, 5, 6, 2), cupy.float32), r"\[1, 5, 6, 2\]"),
}


@pytest.mark.parametrize("name", NOT_FITTING)
def test_arrays_that_do_not_fit(session: fourfold.Session, way: Way, name: str) -> None:
    make, words = NOT_FITTING[name]
    with pytest.raises(InputError, match=words) as caught:
        session.run(way(make()))
    assert caught.value.fix


def test_a_contiguous_copy_fits(session: fourfold.Session, way: Way) -> None:
    """As the message says; and axes of one element may have any stride."""
    expected = session.run(picture(1))["scores"]
    given = cupy.asarray(picture(1).transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3)
    given = cupy.ascontiguousarray(given)
    np.testing.assert_array_equal(session.run(way(given))["scores"], expected)
    first = cupy.concatenate([given, given])[:1]
    np.testing.assert_array_equal(session.run(way(first))["scores"], expected)


def test_what_the_interface_forbids(session: fourfold.Session) -> None:
    array = cupy.zeros((1, 5), cupy.float32)
    read_only = ByInterface(array, data=(array.data.ptr, True))
    with pytest.raises(InputError, match="cannot be written to"):
        session.run(picture(1), out={"scores": read_only})
    given = cupy.asarray(picture(1))
    expected = session.run(picture(1))["scores"]
    found = session.run(ByInterface(given, data=(given.data.ptr, True)))["scores"]
    np.testing.assert_array_equal(found, expected)
    for changes, words in (
        ({"mask": array}, "masked"),
        ({"stream": 0}, "stream 0"),
        ({"version": 1}, "version 1"),
        ({"strides": (4, 4)}, "2 strides for 4 axes"),
    ):
        with pytest.raises(InputError, match=words):
            session.run(ByInterface(given, **changes))


@pytest.mark.skipif(count_gpus() < 2, reason="there is one GPU")
def test_memory_of_another_gpu(session: fourfold.Session, way: Way) -> None:
    with cupy.cuda.Device(1):
        given = cupy.asarray(picture(1))
    with pytest.raises(InputError, match="memory is on cuda:1, the model on cuda:0"):
        session.run(way(given))


def test_results_as_copies(session: fourfold.Session) -> None:
    expected = session.run(picture(3))["scores"]
    kept: Any = session.run(picture(3), keep_on_device=True)["scores"]
    copied = cupy.from_dlpack(kept, copy=True)
    assert copied.data.ptr != kept.handle
    np.testing.assert_array_equal(copied.get(), expected)
    copied[...] = 7
    np.testing.assert_array_equal(kept.numpy(), expected)
    np.testing.assert_array_equal(np.from_dlpack(kept, device="cpu"), expected)


def test_one_model_after_the_other(session: fourfold.Session) -> None:
    with open_session(session.device, small_model("Neg", {"x": (1, 5)})) as second:
        kept: Any = session.run(cupy.asarray(picture(3)), keep_on_device=True)["scores"]
        middle = cupy.from_dlpack(kept)
        middle += 1  # CuPy works where the result is, and the next model reads it there
        found = second.run(kept)["y"]
        expected = -(session.run(picture(3))["scores"] + np.float32(1))
        np.testing.assert_array_equal(found, expected)


def test_sessions_of_other_apis_refuse_them() -> None:
    with (
        open_session("interpret") as other,
        pytest.raises(InputError, match=r"memory of a GPU \(CUDA\)") as caught,
    ):
        other.run(cupy.asarray(picture(1)))
    assert caught.value.fix == "pass x.get()"
