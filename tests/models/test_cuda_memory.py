"""Memory of CUDA in and out, whoever has it: by DLPack, by its interface for arrays, by address."""

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


def picture(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, (1, 5, 6, 3)).astype(np.float32)


@pytest.fixture(params=["list", "one"])
def session(
    request: pytest.FixtureRequest, cuda: DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> Iterator[fourfold.Session]:
    monkeypatch.setenv("FOURFOLD_LAUNCHES", request.param)
    with open_session(cuda) as made:
        yield made


FORMS: list[type[ForeignArray]] = [Tensor, VersionedTensor, Interface]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("skipped", [0, 4, 16, 256])
def test_memory_of_others_in_and_out(
    session: fourfold.Session, form: type[ForeignArray], skipped: int
) -> None:
    """Kernels use it where it is, or it is copied where they cannot: the result is the same."""
    for seed in range(4):
        x = picture(seed)
        expected, source = session.run(x), form(session.device, x, skipped)
        target = form(session.device, np.full((1, 5), 7, np.float32), skipped)
        np.testing.assert_array_equal(session.run(source)["scores"], expected["scores"])
        found = session.run(source, out={"twice": target})
        assert found["twice"] is target
        np.testing.assert_array_equal(target.numpy(), expected["twice"])
        np.testing.assert_array_equal(found["scores"], expected["scores"])
        np.testing.assert_array_equal(source.numpy(), x)


def test_the_same_memory_again_and_again(
    session: fourfold.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More places than are kept ready, and back to the first."""
    monkeypatch.setattr(BoundMemory, "MAX_REPLAYS", 4)
    sources = [Tensor(session.device, picture(seed)) for seed in range(11)]
    expected = [session.run(picture(seed))["scores"] for seed in range(11)]
    target = Tensor(session.device, np.zeros((1, 5), np.float32))
    for _ in range(3):
        for source, wanted in zip(sources, expected, strict=True):
            for _ in range(2):
                session.run(source, out={"scores": target})
                np.testing.assert_array_equal(target.numpy(), wanted)
    np.testing.assert_array_equal(session.run(picture(3))["scores"], expected[3])


def test_bound_memory(session: fourfold.Session) -> None:
    source = Tensor(session.device, picture(1))
    target = Interface(session.device, np.zeros((1, 5), np.float32))
    session.bind("image", source)
    session.bind("scores", target)
    for seed in range(3):
        source.memory.write(picture(seed))
        results = session.run()
        assert results["scores"] is target
        np.testing.assert_array_equal(target.numpy() * 2, results["twice"])
        assert not np.array_equal(target.numpy(), session.run({"image": picture(9)})["twice"])
    session.bind("image", None)
    session.bind("scores", None)
    expected = session.run(picture(2))
    np.testing.assert_array_equal(results["twice"], expected["twice"])


def test_an_address_is_bound(session: fourfold.Session) -> None:
    source = ForeignArray(session.device, picture(1))
    target = ForeignArray(session.device, np.zeros((1, 64), np.float32))
    session.bind("image", source.address)
    session.bind("scores", target.address)
    results = session.run()
    assert isinstance(results["scores"], DeviceArray)
    np.testing.assert_array_equal(target.numpy()[:, :5] * 2, results["twice"])
    with pytest.raises(InputError, match="is not CUDA memory"):
        session.bind("image", 64)


def test_one_model_after_the_other(cuda: DeviceInfo) -> None:
    """No number of the first one's results crosses the host on its way into the second."""
    with open_session(cuda) as first, open_session(cuda, small_model("Neg", {"x": (1, 5)})) as last:
        expected = -first.run(picture(3))["scores"]
        source = Tensor(cuda, picture(3))
        driver: Any = calls.library()
        for _ in range(3):
            copied = list(getattr(driver, "copied", ()))
            kept = first.run(source, keep_on_device=True)["scores"]
            found = last.run(kept, keep_on_device=True)["y"]
            assert list(getattr(driver, "copied", ())) == copied
            np.testing.assert_array_equal(found.numpy(), expected)
            if hasattr(driver, "copied"):
                assert driver.copied != copied, "what is counted would have been seen"


def test_a_result_where_the_input_is(cuda: DeviceInfo) -> None:
    x = np.random.default_rng(1).normal(size=(64, 64)).astype(np.float32)
    with open_session(cuda, small_model("Transpose", {"x": x.shape})) as session:
        memory = Tensor(cuda, x)
        for wanted in (x.T, x, x.T):
            session.run(memory, out={"y": memory})
            np.testing.assert_array_equal(memory.numpy(), wanted)


def test_states_beside_bound_results(cuda: DeviceInfo) -> None:
    steps = np.random.default_rng(4).normal(size=(4, 2, 7)).astype(np.float32)
    with open_session(cuda, svdf()) as plain, open_session(cuda, svdf()) as bound:
        expected = [plain.run(step)["y"] for step in steps]
        for step, wanted in zip(steps, expected, strict=True):
            found = bound.run(Tensor(cuda, step), keep_on_device=True)["y"]
            np.testing.assert_array_equal(found.numpy(), wanted)


def test_pinned_memory(session: fourfold.Session) -> None:
    """The host's memory that the GPU reaches by itself is no detour."""
    context = context_of(session.device)
    with context:
        pinned = cu.HostBuffer(360)
    given = Tensor(session.device, picture(5))
    given.address = pinned.address
    given.__class__ = type("Pinned", (Tensor,), {"__dlpack_device__": lambda self: (PINNED, 0)})
    stream = stream_of(session.device)
    with context:
        stream.copy(pinned.address, given.memory.address, 360)
        stream.finish()
    found = session.run(given)["scores"]
    np.testing.assert_array_equal(found, session.run(picture(5))["scores"])
    with context:
        pinned.release()


def test_results_for_other_libraries(session: fourfold.Session) -> None:
    kept, expected = session.run(picture(6), keep_on_device=True), session.run(picture(6))
    array = kept["scores"]
    assert array.__dlpack_device__() == (CUDA, session.device.ordinal)
    tensor = device_tensor(array, stream=1)
    assert (tensor.data, tensor.shape, tensor.dtype) == (array.handle, (1, 5), np.float32)
    told = array.__cuda_array_interface__
    assert told["data"] == (array.handle, False)
    assert (told["shape"], told["typestr"], told["version"]) == ((1, 5), "<f4", 3)
    del kept, array
    gc.collect()
    memory = CudaMemory(session.device, tensor.data, 64, tensor)
    again = DeviceArray(memory, (1, 5), np.dtype(np.float32), session.device)
    np.testing.assert_array_equal(again.numpy(), expected["scores"])


def test_the_interface_of_arrays_belongs_to_cuda(cuda: DeviceInfo) -> None:
    model = small_model("Neg", {"x": (1, 5)})
    with open_session("interpret") as other, open_session(cuda, model) as session:
        kept = other.run(picture(1), keep_on_device=True)["scores"]
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
def test_what_does_not_fit(
    session: fourfold.Session, changes: dict[str, Any], words: tuple[str, str, str]
) -> None:
    given = Interface(session.device, picture(1))
    given.changes = changes
    with pytest.raises(InputError) as caught:
        session.run(given)
    told = (caught.value.what, caught.value.why, caught.value.fix)
    assert all(word in part for word, part in zip(words, told, strict=True)), told


def test_memory_that_may_not_be_written(session: fourfold.Session) -> None:
    given = Interface(session.device, np.zeros((1, 5), np.float32))
    given.changes = {"data": (given.address, True)}
    with pytest.raises(InputError, match="cannot be written to"):
        session.run(picture(1), out={"scores": given})
    with pytest.raises(InputError, match="cannot be written to"):
        session.bind("scores", given)


def test_memory_of_another_gpu(session: fourfold.Session) -> None:
    given = Tensor(session.device, picture(1))
    given.ordinal = 1
    with pytest.raises(InputError, match="memory is on cuda:1, the model on cuda:0") as caught:
        session.run(given)
    assert "x.to('cuda:0')" in caught.value.fix
    if not hasattr(calls.library(), "copied"):
        return
    there = Interface(find_device("cuda:1"), picture(1))
    with pytest.raises(InputError, match="memory is on cuda:1, the model on cuda:0"):
        session.run(there)


def test_an_owner_that_keeps_its_memory(session: fourfold.Session) -> None:
    class Needs(Tensor):
        def __dlpack__(self, *, stream: int | None = None) -> Any:
            raise BufferError("it requires a gradient")

        def detach(self) -> Needs:
            return self

    with pytest.raises(InputError, match="it requires a gradient") as caught:
        session.run(Needs(session.device, picture(1)))
    assert caught.value.fix == "pass x.detach()"


def test_sessions_of_other_apis_refuse_it(cuda: DeviceInfo) -> None:
    with open_session("interpret") as other:
        with pytest.raises(InputError, match=r"memory of a GPU \(CUDA\)"):
            other.run(Tensor(cuda, picture(1)))
        target = Interface(cuda, np.zeros((1, 5), np.float32))
        with pytest.raises(InputError, match=r"memory of a GPU \(CUDA\)") as caught:
            other.run(picture(1), out={"scores": target})
    assert caught.value.fix == "pass a NumPy array, or open the session on that GPU"
