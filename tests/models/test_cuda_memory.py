"""CUDA memory of other libraries as input and output: through DLPack, array interface, or
address.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from cuda_arrays import ForeignArray, Interface, Tensor, VersionedTensor
from onnx_writer import small_model
from small_networks import small_onnx
from stateful_models import svdf

import fourfold
from fourfold.backends import find_device
from fourfold.backends.cuda import binding as cu
from fourfold.backends.cuda.binding import calls
from fourfold.backends.cuda.bound_memory import BoundMemory
from fourfold.backends.cuda.devices import context_of, stream_of
from fourfold.backends.cuda.memory import CudaMemory
from fourfold.backends.dlpack import device_tensor
from fourfold.backends.dlpack_devices import CUDA, PINNED
from fourfold.device import DeviceInfo
from fourfold.errors import InputError
from fourfold.runtime.device_array import DeviceArray


def open_session(device: object, model: bytes | None = None, **options: Any) -> fourfold.Session:
    return fourfold.Session(model or small_onnx(), device, cache="memory", **options)


def random_image(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, (1, 5, 6, 3)).astype(np.float32)


@pytest.fixture(params=["list", "one"])
def session(
    request: pytest.FixtureRequest, cuda: DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> Iterator[fourfold.Session]:
    monkeypatch.setenv("FOURFOLD_LAUNCHES", request.param)
    with open_session(cuda) as result:
        yield result


FORMS: list[type[ForeignArray]] = [Tensor, VersionedTensor, Interface]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("skipped", [0, 4, 16, 256])
def test_reads_and_writes_memory_of_other_libraries(
    session: fourfold.Session, form: type[ForeignArray], skipped: int
) -> None:
    """Kernels use the memory in place or through a copy, with the same result."""
    for seed in range(4):
        x = random_image(seed)
        expected, source = session.run(x), form(session.device, x, skipped)
        target = form(session.device, np.full((1, 5), 7, np.float32), skipped)
        np.testing.assert_array_equal(session.run(source)["scores"], expected["scores"])
        outputs = session.run(source, out={"twice": target})
        assert outputs["twice"] is target
        np.testing.assert_array_equal(target.numpy(), expected["twice"])
        np.testing.assert_array_equal(outputs["scores"], expected["scores"])
        np.testing.assert_array_equal(source.numpy(), x)


def test_recurring_memory_uses_cached_replays(
    session: fourfold.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Uses more addresses than are cached, and returns to the first."""
    monkeypatch.setattr(BoundMemory, "MAX_REPLAYS", 4)
    sources = [Tensor(session.device, random_image(seed)) for seed in range(11)]
    expected = [session.run(random_image(seed))["scores"] for seed in range(11)]
    target = Tensor(session.device, np.zeros((1, 5), np.float32))
    for _ in range(3):
        for source, expected_value in zip(sources, expected, strict=True):
            for _ in range(2):
                session.run(source, out={"scores": target})
                np.testing.assert_array_equal(target.numpy(), expected_value)
    np.testing.assert_array_equal(session.run(random_image(3))["scores"], expected[3])


def test_binds_memory(session: fourfold.Session) -> None:
    source = Tensor(session.device, random_image(1))
    target = Interface(session.device, np.zeros((1, 5), np.float32))
    session.bind("image", source)
    session.bind("scores", target)
    for seed in range(3):
        source.memory.write(random_image(seed))
        results = session.run()
        assert results["scores"] is target
        np.testing.assert_array_equal(target.numpy() * 2, results["twice"])
        assert not np.array_equal(target.numpy(), session.run({"image": random_image(9)})["twice"])
    session.bind("image", None)
    session.bind("scores", None)
    expected = session.run(random_image(2))
    np.testing.assert_array_equal(results["twice"], expected["twice"])


def test_binds_an_address(session: fourfold.Session) -> None:
    source = ForeignArray(session.device, random_image(1))
    target = ForeignArray(session.device, np.zeros((1, 64), np.float32))
    session.bind("image", source.address)
    session.bind("scores", target.address)
    results = session.run()
    assert isinstance(results["scores"], DeviceArray)
    np.testing.assert_array_equal(target.numpy()[:, :5] * 2, results["twice"])
    with pytest.raises(InputError, match="is not CUDA memory"):
        session.bind("image", 64)


def test_chained_models_stay_on_the_device(cuda: DeviceInfo) -> None:
    """The first model's results reach the second without a copy through the host."""
    with open_session(cuda) as first, open_session(cuda, small_model("Neg", {"x": (1, 5)})) as last:
        expected = -first.run(random_image(3))["scores"]
        source = Tensor(cuda, random_image(3))
        driver: Any = calls.library()
        for _ in range(3):
            copied = list(getattr(driver, "copied", ()))
            kept = first.run(source, keep_on_device=True)["scores"]
            output = last.run(kept, keep_on_device=True)["y"]
            assert list(getattr(driver, "copied", ())) == copied
            np.testing.assert_array_equal(output.numpy(), expected)
            if hasattr(driver, "copied"):
                assert driver.copied != copied, "the fake driver records no copies"


def test_output_may_share_memory_with_the_input(cuda: DeviceInfo) -> None:
    x = np.random.default_rng(1).normal(size=(64, 64)).astype(np.float32)
    with open_session(cuda, small_model("Transpose", {"x": x.shape})) as session:
        memory = Tensor(cuda, x)
        for expected in (x.T, x, x.T):
            session.run(memory, out={"y": memory})
            np.testing.assert_array_equal(memory.numpy(), expected)


def test_states_persist_with_bound_outputs(cuda: DeviceInfo) -> None:
    steps = np.random.default_rng(4).normal(size=(4, 2, 7)).astype(np.float32)
    with open_session(cuda, svdf()) as plain, open_session(cuda, svdf()) as bound:
        expected = [plain.run(step)["y"] for step in steps]
        for step, expected_value in zip(steps, expected, strict=True):
            output = bound.run(Tensor(cuda, step), keep_on_device=True)["y"]
            np.testing.assert_array_equal(output.numpy(), expected_value)


def test_uses_pinned_memory_in_place(session: fourfold.Session) -> None:
    """Pinned host memory is read by the GPU without a copy."""
    context = context_of(session.device)
    with context:
        pinned = cu.HostBuffer(360)
    inputs = Tensor(session.device, random_image(5))
    inputs.address = pinned.address
    inputs.__class__ = type("Pinned", (Tensor,), {"__dlpack_device__": lambda self: (PINNED, 0)})
    stream = stream_of(session.device)
    with context:
        stream.copy(pinned.address, inputs.memory.address, 360)
        stream.finish()
    output = session.run(inputs)["scores"]
    np.testing.assert_array_equal(output, session.run(random_image(5))["scores"])
    with context:
        pinned.release()


def test_exports_results_to_other_libraries(session: fourfold.Session) -> None:
    kept, expected = session.run(random_image(6), keep_on_device=True), session.run(random_image(6))
    array = kept["scores"]
    assert array.__dlpack_device__() == (CUDA, session.device.ordinal)
    tensor = device_tensor(array, stream=1)
    assert (tensor.data, tensor.shape, tensor.dtype) == (array.handle, (1, 5), np.float32)
    interface = array.__cuda_array_interface__
    assert interface["data"] == (array.handle, False)
    assert (interface["shape"], interface["typestr"], interface["version"]) == ((1, 5), "<f4", 3)
    del kept, array
    gc.collect()
    memory = CudaMemory(session.device, tensor.data, 64, tensor)
    again = DeviceArray(memory, (1, 5), np.dtype(np.float32), session.device)
    np.testing.assert_array_equal(again.numpy(), expected["scores"])


def test_only_cuda_results_have_the_array_interface(cuda: DeviceInfo) -> None:
    model = small_model("Neg", {"x": (1, 5)})
    with open_session("interpret") as other, open_session(cuda, model) as session:
        kept = other.run(random_image(1), keep_on_device=True)["scores"]
        assert not hasattr(kept, "__cuda_array_interface__")
        with pytest.raises(InputError, match=r"the array is on .*, the model on .*CUDA"):
            session.run(kept)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"strides": (4, 4, 4, 4)}, ("not contiguous", "strides", "contiguous")),
        ({"version": 1}, ("version 1", "2 and 3", "DLPack")),
        ({"typestr": "<f2"}, ("float16[1, 5, 6, 3]", "float32[1, 5, 6, 3]", "convert it first")),
        ({"shape": (1, 5, 6, 4)}, ("[1, 5, 6, 4]", "[1, 5, 6, 3]", "convert it first")),
        ({"data": (4096, False)}, ("not CUDA memory", "does not know", "data_ptr")),
        ({"mask": object()}, ("mask", "all elements", "fill")),
    ],
)
def test_rejects_unusable_arrays(
    session: fourfold.Session, changes: dict[str, Any], words: tuple[str, str, str]
) -> None:
    inputs = Interface(session.device, random_image(1))
    inputs.changes = changes
    with pytest.raises(InputError) as caught:
        session.run(inputs)
    parts = (caught.value.what, caught.value.why, caught.value.fix)
    assert all(word in part for word, part in zip(words, parts, strict=True)), parts


def test_rejects_read_only_outputs(session: fourfold.Session) -> None:
    inputs = Interface(session.device, np.zeros((1, 5), np.float32))
    inputs.changes = {"data": (inputs.address, True)}
    with pytest.raises(InputError, match="cannot be written to"):
        session.run(random_image(1), out={"scores": inputs})
    with pytest.raises(InputError, match="cannot be written to"):
        session.bind("scores", inputs)


def test_rejects_memory_of_another_gpu(session: fourfold.Session) -> None:
    inputs = Tensor(session.device, random_image(1))
    inputs.ordinal = 1
    with pytest.raises(InputError, match="memory is on cuda:1, the model on cuda:0") as caught:
        session.run(inputs)
    assert "x.to('cuda:0')" in caught.value.fix
    if not hasattr(calls.library(), "copied"):
        return
    there = Interface(find_device("cuda:1"), random_image(1))
    with pytest.raises(InputError, match="memory is on cuda:1, the model on cuda:0"):
        session.run(there)


def test_reports_why_a_library_does_not_export_memory(session: fourfold.Session) -> None:
    class Needs(Tensor):
        def __dlpack__(self, *, stream: int | None = None) -> Any:
            raise BufferError("it requires a gradient")

        def detach(self) -> Needs:
            return self

    with pytest.raises(InputError, match="it requires a gradient") as caught:
        session.run(Needs(session.device, random_image(1)))
    assert caught.value.fix == "pass x.detach()"


def test_sessions_of_other_apis_reject_cuda_memory(cuda: DeviceInfo) -> None:
    with open_session("interpret") as other:
        with pytest.raises(InputError, match=r"memory of a GPU \(CUDA\)"):
            other.run(Tensor(cuda, random_image(1)))
        target = Interface(cuda, np.zeros((1, 5), np.float32))
        with pytest.raises(InputError, match=r"memory of a GPU \(CUDA\)") as caught:
            other.run(random_image(1), out={"scores": target})
    assert caught.value.fix == "pass a NumPy array, or open the session on that GPU"
