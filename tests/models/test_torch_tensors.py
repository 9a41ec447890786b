"""PyTorch tensors on a GPU as inputs and outputs of CUDA sessions, on PyTorch streams."""

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


def random_image(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, (1, 5, 6, 3)).astype(np.float32)


def cuda_tensor(seed: int) -> Any:
    return torch.from_numpy(random_image(seed)).to("cuda:0")


@pytest.fixture
def session(cuda_session: fourfold.Session) -> fourfold.Session:
    return cuda_session


def test_accepts_tensors_and_exports_results(session: fourfold.Session) -> None:
    for seed in range(12):
        expected = session.run(random_image(seed))["scores"]
        output = session.run(cuda_tensor(seed), keep_on_device=True)["scores"]
        result = torch.from_dlpack(output)
        assert result.is_cuda
        assert result.data_ptr() == output.handle
        del output
        np.testing.assert_array_equal(result.cpu().numpy(), expected)
        kept = session.run(cuda_tensor(seed), keep_on_device=True)["scores"]
        same = torch.as_tensor(kept, device="cuda")  # through __cuda_array_interface__
        assert same.data_ptr() == kept.handle
        np.testing.assert_array_equal(same.cpu().numpy(), expected)


def test_writes_results_into_tensors(session: fourfold.Session) -> None:
    scores = torch.full((1, 5), 7.0, device="cuda:0")
    table = torch.full((4, 1, 5), 7.0, device="cuda:0")
    for seed in range(4):
        expected = session.run(random_image(seed))
        session.run(cuda_tensor(seed), out={"scores": scores, "twice": table[2]})
        np.testing.assert_array_equal(scores.cpu().numpy(), expected["scores"])
        np.testing.assert_array_equal(table[2].cpu().numpy(), expected["twice"])
    np.testing.assert_array_equal(table[[0, 1, 3]].cpu().numpy(), 7)


@pytest.mark.parametrize("beside", [False, True])
def test_runs_after_pending_work(session: fourfold.Session, beside: bool) -> None:
    """A run starts after work that PyTorch enqueued on the default or its current stream."""
    expected = session.run(random_image(1))["scores"]
    stream = torch.cuda.Stream() if beside else torch.cuda.default_stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            inputs = torch.zeros((1, 5, 6, 3), device="cuda:0")
            torch.cuda.synchronize()
            torch.cuda._sleep(20_000_000)  # cycles, about ten milliseconds
            inputs.copy_(torch.from_numpy(random_image(1)).pin_memory(), non_blocking=True)
            np.testing.assert_array_equal(session.run(inputs)["scores"], expected)


def test_bound_tensors_follow_the_default_stream(session: fourfold.Session) -> None:
    inputs, target = (
        torch.zeros((1, 5, 6, 3), device="cuda:0"),
        torch.zeros((1, 5), device="cuda:0"),
    )
    expected = [session.run(random_image(seed))["scores"] for seed in range(4)]
    session.bind("image", inputs)
    session.bind("scores", target)
    for seed, expected_value in enumerate(expected):
        new = cuda_tensor(seed)
        torch.cuda._sleep(20_000_000)
        inputs.copy_(new)
        session.run()
        np.testing.assert_array_equal(target.cpu().numpy(), expected_value)


def test_runs_on_a_torch_stream(session: fourfold.Session) -> None:
    expected = [session.run(random_image(seed))["scores"] for seed in range(4)]
    stream = torch.cuda.Stream()
    with open_session(stream) as own, torch.cuda.stream(stream):
        inputs = torch.zeros((1, 5, 6, 3), device="cuda:0")
        own.bind("image", inputs)
        for seed, expected_value in enumerate(expected):
            new = cuda_tensor(seed)
            torch.cuda._sleep(20_000_000)
            inputs.copy_(new)
            np.testing.assert_array_equal(own.run()["scores"], expected_value)
        frames = [random_image(seed) for seed in range(4)]
        own.bind("image", None)
        for expected_value, result in zip(expected, own.stream(frames), strict=True):
            np.testing.assert_array_equal(result["scores"], expected_value)
    with open_session(torch.cuda.default_stream()) as own:
        np.testing.assert_array_equal(own.run(cuda_tensor(1))["scores"], expected[1])


def test_chained_models_stay_on_the_device(session: fourfold.Session) -> None:
    with open_session(session.device, small_model("Neg", {"x": (1, 5)})) as second:
        kept = session.run(cuda_tensor(3), keep_on_device=True)["scores"]
        middle = torch.from_dlpack(kept)
        middle += 1  # PyTorch modifies the result in place, and the next model reads it there.
        output = second.run(kept)["y"]
        expected = -(session.run(random_image(3))["scores"] + np.float32(1))
        np.testing.assert_array_equal(output, expected)


def test_rejects_invalid_tensors(session: fourfold.Session) -> None:
    for value, words in (
        (cuda_tensor(1).half(), "float16"),
        (cuda_tensor(1).transpose(1, 2).contiguous().transpose(1, 2), "not contiguous"),
        (cuda_tensor(1).requires_grad_(), "gradient|grad"),
        (cuda_tensor(1)[..., :2].contiguous(), r"\[1, 5, 6, 2\]"),
        (cuda_tensor(1).bfloat16(), "kind 4|bfloat16"),
    ):
        with pytest.raises(InputError, match=words):
            session.run(value)
    np.testing.assert_array_equal(
        session.run(torch.from_numpy(random_image(1)))["scores"],
        session.run(random_image(1))["scores"],
    )
    pinned = torch.from_numpy(random_image(1)).pin_memory()
    np.testing.assert_array_equal(
        session.run(pinned)["scores"], session.run(random_image(1))["scores"]
    )


def test_sessions_of_other_apis_reject_cuda_tensors() -> None:
    with (
        open_session("interpret") as other,
        pytest.raises(InputError, match=r"memory of a GPU \(CUDA\)") as caught,
    ):
        other.run(cuda_tensor(1))
    assert caught.value.fix == "pass x.cpu()"
