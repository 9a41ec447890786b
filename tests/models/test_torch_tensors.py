"""PyTorch's tensors on a GPU, in and out of sessions by CUDA, on PyTorch's streams."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx_writer import small_model
from small_networks import small_onnx

import fourfold
from fourfold.errors import InputError

torch = pytest.importorskip("torch", reason="the package torch is not installed")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch has no GPU here")


def open_session(device: object, model: bytes | None = None, **options: Any) -> fourfold.Session:
    return fourfold.Session(model or small_onnx(), device, cache="memory", **options)


def picture(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, (1, 5, 6, 3)).astype(np.float32)


def tensor(seed: int) -> Any:
    return torch.from_numpy(picture(seed)).to("cuda:0")


@pytest.fixture
def session(cuda_session: fourfold.Session) -> fourfold.Session:
    return cuda_session


def test_in_and_out(session: fourfold.Session) -> None:
    for seed in range(12):
        expected = session.run(picture(seed))["scores"]
        found = session.run(tensor(seed), keep_on_device=True)["scores"]
        result = torch.from_dlpack(found)
        assert result.is_cuda
        assert result.data_ptr() == found.handle
        del found
        np.testing.assert_array_equal(result.cpu().numpy(), expected)
        kept = session.run(tensor(seed), keep_on_device=True)["scores"]
        same = torch.as_tensor(kept, device="cuda")  # by __cuda_array_interface__
        assert same.data_ptr() == kept.handle
        np.testing.assert_array_equal(same.cpu().numpy(), expected)


def test_into_tensors(session: fourfold.Session) -> None:
    scores = torch.full((1, 5), 7.0, device="cuda:0")
    table = torch.full((4, 1, 5), 7.0, device="cuda:0")
    for seed in range(4):
        expected = session.run(picture(seed))
        session.run(tensor(seed), out={"scores": scores, "twice": table[2]})
        np.testing.assert_array_equal(scores.cpu().numpy(), expected["scores"])
        np.testing.assert_array_equal(table[2].cpu().numpy(), expected["twice"])
    np.testing.assert_array_equal(table[[0, 1, 3]].cpu().numpy(), 7)


@pytest.mark.parametrize("beside", [False, True])
def test_behind_work_that_is_not_done(session: fourfold.Session, beside: bool) -> None:
    """A run begins after what PyTorch has put in, on the default stream or on its current one."""
    expected = session.run(picture(1))["scores"]
    stream = torch.cuda.Stream() if beside else torch.cuda.default_stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            given = torch.zeros((1, 5, 6, 3), device="cuda:0")
            torch.cuda.synchronize()
            torch.cuda._sleep(20_000_000)  # cycles: about ten milliseconds
            given.copy_(torch.from_numpy(picture(1)).pin_memory(), non_blocking=True)
            np.testing.assert_array_equal(session.run(given)["scores"], expected)


def test_bound_behind_the_default_stream(session: fourfold.Session) -> None:
    given, target = torch.zeros((1, 5, 6, 3), device="cuda:0"), torch.zeros((1, 5), device="cuda:0")
    expected = [session.run(picture(seed))["scores"] for seed in range(4)]
    session.bind("image", given)
    session.bind("scores", target)
    for seed, wanted in enumerate(expected):
        new = tensor(seed)
        torch.cuda._sleep(20_000_000)
        given.copy_(new)
        session.run()
        np.testing.assert_array_equal(target.cpu().numpy(), wanted)


def test_on_its_stream(session: fourfold.Session) -> None:
    expected = [session.run(picture(seed))["scores"] for seed in range(4)]
    stream = torch.cuda.Stream()
    with open_session(stream) as own, torch.cuda.stream(stream):
        given = torch.zeros((1, 5, 6, 3), device="cuda:0")
        own.bind("image", given)
        for seed, wanted in enumerate(expected):
            new = tensor(seed)
            torch.cuda._sleep(20_000_000)
            given.copy_(new)
            np.testing.assert_array_equal(own.run()["scores"], wanted)
        frames = [picture(seed) for seed in range(4)]
        own.bind("image", None)
        for wanted, found in zip(expected, own.stream(frames), strict=True):
            np.testing.assert_array_equal(found["scores"], wanted)
    with open_session(torch.cuda.default_stream()) as own:
        np.testing.assert_array_equal(own.run(tensor(1))["scores"], expected[1])


def test_one_model_after_the_other(session: fourfold.Session) -> None:
    with open_session(session.device, small_model("Neg", {"x": (1, 5)})) as second:
        kept = session.run(tensor(3), keep_on_device=True)["scores"]
        middle = torch.from_dlpack(kept)
        middle += 1  # PyTorch works where the result is, and the next model reads it there
        found = second.run(kept)["y"]
        expected = -(session.run(picture(3))["scores"] + np.float32(1))
        np.testing.assert_array_equal(found, expected)


def test_tensors_that_do_not_fit(session: fourfold.Session) -> None:
    for given, words in (
        (tensor(1).half(), "float16"),
        (tensor(1).transpose(1, 2).contiguous().transpose(1, 2), "not contiguous"),
        (tensor(1).requires_grad_(), "gradient|grad"),
        (tensor(1)[..., :2].contiguous(), r"\[1, 5, 6, 2\]"),
        (tensor(1).bfloat16(), "kind 4|bfloat16"),
    ):
        with pytest.raises(InputError, match=words):
            session.run(given)
    np.testing.assert_array_equal(
        session.run(torch.from_numpy(picture(1)))["scores"], session.run(picture(1))["scores"]
    )
    pinned = torch.from_numpy(picture(1)).pin_memory()
    np.testing.assert_array_equal(session.run(pinned)["scores"], session.run(picture(1))["scores"])


def test_sessions_of_other_apis_refuse_them() -> None:
    with (
        open_session("interpret") as other,
        pytest.raises(InputError, match=r"memory of a GPU \(CUDA\)") as caught,
    ):
        other.run(tensor(1))
    assert caught.value.fix == "pass x.cpu()"
