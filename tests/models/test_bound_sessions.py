"""Bound memory: shared by sessions, released by its owner, or too small after a resize."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
from onnx_writer import small_model
from small_networks import small_onnx
from stateful_models import svdf
from tflite_writer import Operator, Tensor, write

import fourfold
from fourfold.errors import InputError
from fourfold.runtime.device_memory import fresh_array

cl = pytest.importorskip("pyopencl")
cl_array = pytest.importorskip("pyopencl.array")
ROWS = np.arange(15, dtype=np.float32).reshape(3, 5)


def open_session(device: object, model: bytes | None = None, **options: Any) -> fourfold.Session:
    return fourfold.Session(model or small_onnx(), device, cache="memory", **options)


@pytest.fixture(params=["driver", "interpreted", "cpu"])
def target_device(request: pytest.FixtureRequest, device: fourfold.DeviceInfo) -> object:
    return {"driver": device, "interpreted": "interpret", "cpu": "cpu"}[request.param]


def random_image(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, (1, 5, 6, 3)).astype(np.float32)


def make_buffer(queue: Any, array: np.ndarray, room: int = 0) -> Any:
    memory = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, array.nbytes + room)
    cl.enqueue_copy(queue, memory, array, is_blocking=True)
    return memory


def read_buffer(queue: Any, memory: Any, like: np.ndarray) -> np.ndarray:
    array = np.empty_like(like)
    cl.enqueue_copy(queue, array, memory, is_blocking=True)
    return array


def test_output_may_share_memory_with_the_input(target_device: object) -> None:
    """Kernels must read the values from before the run."""
    x = np.random.default_rng(1).normal(size=(64, 64)).astype(np.float32)
    with open_session(target_device, small_model("Transpose", {"x": x.shape})) as session:
        memory = fresh_array(session.device, session.inputs[0])
        for expected in (x.T, x, x.T):
            memory.memory.write(np.ascontiguousarray(expected.T))
            assert session.run(memory, out={"y": memory})["y"] is memory
            np.testing.assert_array_equal(memory.numpy(), expected)
        session.bind("x", memory)
        session.bind("y", memory)
        for expected in (x, x.T):
            session.run()
            np.testing.assert_array_equal(memory.numpy(), expected)


@pytest.mark.parametrize("start", [0, 4096, 8192, 16384])
def test_sub_buffers_of_one_buffer(device: fourfold.DeviceInfo, queue: Any, start: int) -> None:
    """Input and output are the same memory under two handles, or neighbors."""
    x = np.random.default_rng(1).normal(size=(64, 64)).astype(np.float32)  # 16384 bytes
    parent = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, 1 << 16)
    source, target = (parent.get_sub_region(one, x.nbytes) for one in (0, start))
    cl.enqueue_copy(queue, source, x, is_blocking=True)
    with open_session(device, small_model("Transpose", {"x": x.shape})) as session:
        session.run(source, out={"y": target})
    np.testing.assert_array_equal(read_buffer(queue, target, x), x.T)


def test_rejects_two_outputs_in_one_buffer(target_device: object) -> None:
    with open_session(target_device) as session:
        memory = fresh_array(session.device, session.outputs[0])
        with pytest.raises(
            InputError, match=r"(?s)'scores' and 'twice' share device memory.*two buffers"
        ):
            session.run(random_image(1), out={"scores": memory, "twice": memory})
        session.bind("scores", memory)
        with pytest.raises(InputError, match="'scores' and 'twice' share device memory"):
            session.run(random_image(1), out={"twice": memory})
        session.run(random_image(1), outputs="scores")
        expected = open_session(target_device).run(random_image(1))["scores"]
        np.testing.assert_array_equal(memory.numpy(), expected)


def test_outputs_may_be_adjacent_rows_of_one_array(gpu: fourfold.Session, queue: Any) -> None:
    """Adjacent results do not overwrite each other."""
    both = cl_array.to_device(queue, np.full((4, 1, 5), 7, np.float32))
    queue.finish()
    expected = gpu.run(random_image(2))
    gpu.run(random_image(2), out={"scores": both[2], "twice": both[1]})
    result = both.get()
    np.testing.assert_array_equal(result[2], expected["scores"])
    np.testing.assert_array_equal(result[1], expected["twice"])
    np.testing.assert_array_equal(result[[0, 3]], 7)


@pytest.mark.parametrize("form", ["buffer", "number", "array"])
def test_bound_memory_stays_alive(gpu: fourfold.Session, queue: Any, form: str) -> None:
    """Bound memory is not freed before it is unbound, even if its owner drops it."""
    x = random_image(3)
    memory = make_buffer(queue, x, 64)
    array = cl_array.Array(queue, x.shape, x.dtype, data=memory)
    gpu.bind("image", {"buffer": memory, "number": memory.int_ptr, "array": array}[form])
    memory.release()
    del memory, array
    gc.collect()
    others = [make_buffer(queue, np.full_like(x, 9), 64) for _ in range(8)]
    expected = gpu.run({"image": x})
    for _ in range(2):
        outputs = gpu.run()
        np.testing.assert_array_equal(outputs["scores"], expected["scores"])
    assert len(others) == 8


def test_sessions_share_a_buffer(gpu: fourfold.Session, queue: Any) -> None:
    """One session writes what another reads, in any order of closing."""
    between = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, 64)
    second = open_session(gpu.device, small_model("Neg", {"x": (1, 5)}))
    third = open_session(gpu.device, small_model("Abs", {"x": (1, 5)}))
    gpu.bind("scores", between)
    for reader in (second, third):
        reader.bind("x", between)
    for seed in range(3):
        scores = gpu.run(random_image(seed))["twice"] / 2
        np.testing.assert_array_equal(second.run()["y"], -scores)
        np.testing.assert_array_equal(third.run()["y"], np.abs(scores))
    gpu.close()
    second.close()
    np.testing.assert_array_equal(third.run()["y"], np.abs(scores))
    third.close()


def test_states_persist_with_bound_outputs(target_device: object) -> None:
    """States belong to the session, no matter where its results are written."""
    steps = np.random.default_rng(4).normal(size=(4, 2, 7)).astype(np.float32)
    with open_session(target_device, svdf()) as plain, open_session(target_device, svdf()) as bound:
        target = fresh_array(bound.device, bound.outputs[0])
        bound.bind("y", target)
        expected = [plain.run(step)["y"] for step in steps]
        for step, expected_value in zip(steps, expected, strict=True):
            assert bound.run(step)["y"] is target
            np.testing.assert_array_equal(target.numpy(), expected_value)
        assert not np.array_equal(expected[0], expected[1])
        bound.reset()
        bound.bind("y", None)
        np.testing.assert_array_equal(bound.run(steps[0])["y"], expected[0])


def test_binds_quantized_tensors(device: fourfold.DeviceInfo, queue: Any) -> None:
    tensors = [Tensor(name, (1, 7), "int8", scale=[0.5], zero_point=[1]) for name in "xy"]
    content = write(tensors, [Operator("RELU", ["x"], ["y"])], ["x"], ["y"])
    x = np.array([[-128, 0, 1, 127, -1, 2, 3]], np.int8)
    source, target = make_buffer(queue, x), make_buffer(queue, np.zeros_like(x))
    with open_session(device, content) as session:
        session.bind("x", source)
        session.bind("y", target)
        session.run()
    np.testing.assert_array_equal(read_buffer(queue, target, x), np.maximum(x, 1))


def test_binds_image_bytes(device: fourfold.DeviceInfo, queue: Any) -> None:
    frame = np.random.default_rng(5).integers(0, 256, (1, 5, 6, 3), np.uint8)
    with open_session(device, pixels=fourfold.Pixels(mean=127.5, std=127.5)) as session:
        expected = session.run(frame)["scores"]
        session.bind("image", make_buffer(queue, frame))
        np.testing.assert_array_equal(session.run()["scores"], expected)
        with pytest.raises(InputError, match=r"float32\[1, 5, 6, 3\]"):
            session.bind("image", cl_array.to_device(queue, frame.astype(np.float32)))


def test_resize_with_a_bound_buffer(device: fourfold.DeviceInfo, queue: Any) -> None:
    """Buffers are checked against the shapes of each run and stay bound while large enough."""
    with open_session(device, small_model("Neg", {"x": ("n", 5)})) as session:
        session.bind("x", make_buffer(queue, ROWS))
        for rows in (1, 3, 2):
            session.resize((rows, 5))
            np.testing.assert_array_equal(session.run()["y"], -ROWS[:rows])
        session.resize((4, 5))
        with pytest.raises(InputError, match=r"(?s)60 bytes, not 80.*a buffer of 80 bytes or more"):
            session.run()
        session.bind("x", None)
        np.testing.assert_array_equal(session.run(np.ones((4, 5), np.float32))["y"], -1)


def test_resize_with_a_bound_array(target_device: object) -> None:
    """A bound array is rejected for runs of another shape."""
    with open_session(target_device, small_model("Neg", {"x": ("n", 5)})) as session:
        session.resize((3, 5))
        memory = fresh_array(session.device, session.inputs[0])
        memory.memory.write(ROWS)
        session.bind("x", memory)
        np.testing.assert_array_equal(session.run()["y"], -ROWS)
        session.resize((2, 5))
        with pytest.raises(InputError, match=r"(?s)float32\[3, 5\].*float32\[2, 5\]"):
            session.run()
        session.resize((3, 5))
        np.testing.assert_array_equal(session.run()["y"], -ROWS)


def test_open_sizes_with_a_bound_output(device: fourfold.DeviceInfo, queue: Any) -> None:
    """The array's shape changes the model, and the bound memory must be large enough."""
    target = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, 40)
    with open_session(device, small_model("Neg", {"x": ("n", 5)})) as session:
        session.bind("y", target.int_ptr)
        for rows in (1, 2):
            output = session.run(ROWS[:rows])["y"]
            assert output.shape == (rows, 5)
            np.testing.assert_array_equal(output.numpy(), -ROWS[:rows])
        with pytest.raises(InputError, match="40 bytes, not 60"):
            session.run(ROWS)
        np.testing.assert_array_equal(session.run(ROWS[:1])["y"].numpy(), -ROWS[:1])
