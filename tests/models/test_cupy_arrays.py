"""CuPy arrays on a GPU as inputs and outputs of CUDA sessions, on CuPy streams."""

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
# Keeps a stream busy for a number of cycles, without blocking the host.
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


def random_image(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, (1, 5, 6, 3)).astype(np.float32)


@cache
def spinning_kernel() -> Any:
    return cupy.RawKernel(SPIN, "spin")


def delay() -> None:
    """Occupy the current stream for about ten milliseconds."""
    spinning_kernel()((1,), (1,), (np.int64(20_000_000),))


class InterfaceOnly:
    """An array that exposes only `__cuda_array_interface__`, with some entries changed."""

    def __init__(self, array: Any, **changes: Any) -> None:
        self.array, self.changes = array, changes

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {**self.array.__cuda_array_interface__, **self.changes}


def interface_version_2(array: Any) -> InterfaceOnly:
    """Return the interface of version 2, which has no stream."""
    return InterfaceOnly(array, version=2, stream=None)


Exporter = Callable[[Any], Any]
EXPORTERS: dict[str, Exporter] = {
    "dlpack": lambda array: array,
    "v3": InterfaceOnly,
    "v2": interface_version_2,
}


@pytest.fixture(params=EXPORTERS)
def exporter(request: pytest.FixtureRequest) -> Exporter:
    """Return the function that exports an array."""
    return EXPORTERS[request.param]


@pytest.fixture
def session(cuda_session: fourfold.Session) -> fourfold.Session:
    return cuda_session


def test_accepts_arrays_and_exports_results(session: fourfold.Session, exporter: Exporter) -> None:
    for seed in range(5):
        expected = session.run(random_image(seed))["scores"]
        inputs = cupy.asarray(random_image(seed))
        kept: Any = session.run(exporter(inputs), keep_on_device=True)["scores"]
        for taken in (cupy.from_dlpack(kept), cupy.asarray(kept)):
            assert taken.data.ptr == kept.handle
            np.testing.assert_array_equal(taken.get(), expected)
        del kept
        np.testing.assert_array_equal(taken.get(), expected)
        np.testing.assert_array_equal(inputs.get(), random_image(seed))


def test_writes_results_into_arrays(session: fourfold.Session, exporter: Exporter) -> None:
    scores = cupy.full((1, 5), 7, cupy.float32)
    table = cupy.full((4, 1, 5), 7, cupy.float32)
    for seed in range(4):
        expected = session.run(random_image(seed))
        inputs = cupy.asarray(random_image(seed))
        session.run(exporter(inputs), out={"scores": exporter(scores), "twice": exporter(table[2])})
        np.testing.assert_array_equal(scores.get(), expected["scores"])
        np.testing.assert_array_equal(table[2].get(), expected["twice"])
    np.testing.assert_array_equal(table.get()[[0, 1, 3]], 7)


@pytest.mark.parametrize("told", ["dlpack", "v3"])
@pytest.mark.parametrize("beside", [False, True])
def test_runs_after_pending_work(session: fourfold.Session, told: str, beside: bool) -> None:
    """A run starts after work that CuPy enqueued on the default or its current stream."""
    expected = session.run(random_image(1))["scores"]
    stream = cupy.cuda.Stream(non_blocking=True) if beside else cupy.cuda.Stream.null
    new = cupy.asarray(random_image(1))
    cupy.cuda.Device().synchronize()
    with stream:
        for _ in range(3):
            inputs = cupy.zeros((1, 5, 6, 3), cupy.float32)
            stream.synchronize()
            delay()
            inputs[...] = new
            np.testing.assert_array_equal(session.run(EXPORTERS[told](inputs))["scores"], expected)


@pytest.mark.parametrize("told", ["dlpack", "v3"])
def test_result_is_not_overwritten_by_pending_work(session: fourfold.Session, told: str) -> None:
    """Work enqueued before the run must not overwrite its result."""
    expected = session.run(random_image(1))["scores"]
    with cupy.cuda.Stream(non_blocking=True) as stream:
        target = cupy.zeros((1, 5), cupy.float32)
        stream.synchronize()
        delay()
        target[...] = 7
        session.run(random_image(1), out={"scores": EXPORTERS[told](target)})
        stream.synchronize()
        np.testing.assert_array_equal(target.get(), expected)


@pytest.mark.parametrize("name", ["own", "null", "ptds"])
def test_runs_on_a_cupy_stream(session: fourfold.Session, name: str) -> None:
    expected = [session.run(random_image(seed))["scores"] for seed in range(4)]
    own = cupy.cuda.Stream(non_blocking=True)
    stream = own if name == "own" else getattr(cupy.cuda.Stream, name)
    with open_session(stream) as shared, stream:
        inputs = cupy.zeros((1, 5, 6, 3), cupy.float32)
        shared.bind("image", inputs)
        for seed, expected_value in enumerate(expected):
            new = cupy.asarray(random_image(seed))
            delay()
            inputs[...] = new
            np.testing.assert_array_equal(shared.run()["scores"], expected_value)
        shared.bind("image", None)
        frames = [random_image(seed) for seed in range(4)]
        for expected_value, result in zip(expected, shared.stream(frames), strict=True):
            np.testing.assert_array_equal(result["scores"], expected_value)


def test_binds_arrays(session: fourfold.Session, exporter: Exporter) -> None:
    inputs, target = cupy.zeros((1, 5, 6, 3), cupy.float32), cupy.zeros((1, 5), cupy.float32)
    expected = [session.run(random_image(seed))["scores"] for seed in range(4)]
    session.bind("image", exporter(inputs))
    session.bind("scores", exporter(target))
    for seed, expected_value in enumerate(expected):
        inputs[...] = cupy.asarray(random_image(seed))
        session.run()
        np.testing.assert_array_equal(target.get(), expected_value)


@pytest.mark.parametrize("allocator", ["malloc_managed", "malloc_async"])
def test_accepts_memory_of_other_allocators(
    session: fourfold.Session, exporter: Exporter, allocator: str
) -> None:
    expected = session.run(random_image(2))["scores"]
    with cupy.cuda.using_allocator(getattr(cupy.cuda, allocator)):
        inputs, target = cupy.asarray(random_image(2)), cupy.zeros((1, 5), cupy.float32)
        session.run(exporter(inputs), out={"scores": exporter(target)})
        np.testing.assert_array_equal(target.get(), expected)


def wide_array() -> Any:
    """Return an array with twice the columns of the model's image."""
    return cupy.zeros((1, 5, 12, 3), cupy.float32)


INVALID_ARRAYS: dict[str, tuple[Callable[[], Any], str]] = {
    "halves": (lambda: cupy.asarray(random_image(1), cupy.float16), "float16"),
    "doubles": (lambda: cupy.asarray(random_image(1), cupy.float64), "float64"),
    "transposed": (lambda: cupy.zeros((1, 6, 5, 3), cupy.float32).transpose(0, 2, 1, 3), "piece"),
    "every second": (lambda: wide_array()[:, :, ::2], "piece"),
    "backwards": (lambda: cupy.asarray(random_image(1))[:, ::-1], "piece"),
    "a part": (lambda: wide_array()[:, :, :6], "piece"),
    "broadcast": (lambda: cupy.broadcast_to(cupy.ones(3, cupy.float32), (1, 5, 6, 3)), "piece"),
    "Fortran's": (lambda: cupy.asfortranarray(cupy.asarray(random_image(1))), "piece"),
    "smaller": (lambda: cupy.zeros((1, 5, 6, 2), cupy.float32), r"\[1, 5, 6, 2\]"),
}


@pytest.mark.parametrize("name", INVALID_ARRAYS)
def test_rejects_invalid_arrays(session: fourfold.Session, exporter: Exporter, name: str) -> None:
    make, words = INVALID_ARRAYS[name]
    with pytest.raises(InputError, match=words) as caught:
        session.run(exporter(make()))
    assert caught.value.fix


def test_accepts_a_contiguous_copy(session: fourfold.Session, exporter: Exporter) -> None:
    """The error message suggests it; axes of one element may have any stride."""
    expected = session.run(random_image(1))["scores"]
    inputs = cupy.asarray(random_image(1).transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3)
    inputs = cupy.ascontiguousarray(inputs)
    np.testing.assert_array_equal(session.run(exporter(inputs))["scores"], expected)
    first = cupy.concatenate([inputs, inputs])[:1]
    np.testing.assert_array_equal(session.run(exporter(first))["scores"], expected)


def test_rejects_invalid_interfaces(session: fourfold.Session) -> None:
    array = cupy.zeros((1, 5), cupy.float32)
    read_only = InterfaceOnly(array, data=(array.data.ptr, True))
    with pytest.raises(InputError, match="cannot be written to"):
        session.run(random_image(1), out={"scores": read_only})
    inputs = cupy.asarray(random_image(1))
    expected = session.run(random_image(1))["scores"]
    output = session.run(InterfaceOnly(inputs, data=(inputs.data.ptr, True)))["scores"]
    np.testing.assert_array_equal(output, expected)
    for changes, words in (
        ({"mask": array}, "masked"),
        ({"stream": 0}, "stream 0"),
        ({"version": 1}, "version 1"),
        ({"strides": (4, 4)}, "2 strides for 4 axes"),
    ):
        with pytest.raises(InputError, match=words):
            session.run(InterfaceOnly(inputs, **changes))


@pytest.mark.skipif(count_gpus() < 2, reason="there is one GPU")
def test_rejects_memory_of_another_gpu(session: fourfold.Session, exporter: Exporter) -> None:
    with cupy.cuda.Device(1):
        inputs = cupy.asarray(random_image(1))
    with pytest.raises(InputError, match="memory is on cuda:1, the model on cuda:0"):
        session.run(exporter(inputs))


def test_exports_results_as_copies(session: fourfold.Session) -> None:
    expected = session.run(random_image(3))["scores"]
    kept: Any = session.run(random_image(3), keep_on_device=True)["scores"]
    copied = cupy.from_dlpack(kept, copy=True)
    assert copied.data.ptr != kept.handle
    np.testing.assert_array_equal(copied.get(), expected)
    copied[...] = 7
    np.testing.assert_array_equal(kept.numpy(), expected)
    np.testing.assert_array_equal(np.from_dlpack(kept, device="cpu"), expected)


def test_chained_models_stay_on_the_device(session: fourfold.Session) -> None:
    with open_session(session.device, small_model("Neg", {"x": (1, 5)})) as second:
        kept: Any = session.run(cupy.asarray(random_image(3)), keep_on_device=True)["scores"]
        middle = cupy.from_dlpack(kept)
        middle += 1  # CuPy modifies the result in place, and the next model reads it there.
        output = second.run(kept)["y"]
        expected = -(session.run(random_image(3))["scores"] + np.float32(1))
        np.testing.assert_array_equal(output, expected)


def test_sessions_of_other_apis_reject_cupy_arrays() -> None:
    with (
        open_session("interpret") as other,
        pytest.raises(InputError, match=r"memory of a GPU \(CUDA\)") as caught,
    ):
        other.run(cupy.asarray(random_image(1)))
    assert caught.value.fix == "pass x.get()"
