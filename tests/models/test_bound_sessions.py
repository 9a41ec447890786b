"""Memory that stays bound: shared by sessions, let go by its owner, too small after a resize."""

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
def place(request: pytest.FixtureRequest, device: fourfold.DeviceInfo) -> object:
    return {"driver": device, "interpreted": "interpret", "cpu": "cpu"}[request.param]


def picture(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, (1, 5, 6, 3)).astype(np.float32)


def in_a_buffer(queue: Any, array: np.ndarray, room: int = 0) -> Any:
    memory = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, array.nbytes + room)
    cl.enqueue_copy(queue, memory, array, is_blocking=True)
    return memory


def fetched(queue: Any, memory: Any, like: np.ndarray) -> np.ndarray:
    array = np.empty_like(like)
    cl.enqueue_copy(queue, array, memory, is_blocking=True)
    return array


def test_a_result_where_the_input_is(place: object) -> None:
    """Whoever reads a number must find what was there before the run."""
    x = np.random.default_rng(1).normal(size=(64, 64)).astype(np.float32)
    with open_session(place, small_model("Transpose", {"x": x.shape})) as session:
        memory = fresh_array(session.device, session.inputs[0])
        for wanted in (x.T, x, x.T):
            memory.memory.write(np.ascontiguousarray(wanted.T))
            assert session.run(memory, out={"y": memory})["y"] is memory
            np.testing.assert_array_equal(memory.numpy(), wanted)
        session.bind("x", memory)
        session.bind("y", memory)
        for wanted in (x, x.T):
            session.run()
            np.testing.assert_array_equal(memory.numpy(), wanted)


@pytest.mark.parametrize("start", [0, 4096, 8192, 16384])
def test_parts_of_one_buffer(device: fourfold.DeviceInfo, queue: Any, start: int) -> None:
    """The same memory under two handles, or neighbours in it."""
    x = np.random.default_rng(1).normal(size=(64, 64)).astype(np.float32)  # 16384 bytes
    whole = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, 1 << 16)
    source, target = (whole.get_sub_region(one, x.nbytes) for one in (0, start))
    cl.enqueue_copy(queue, source, x, is_blocking=True)
    with open_session(device, small_model("Transpose", {"x": x.shape})) as session:
        session.run(source, out={"y": target})
    np.testing.assert_array_equal(fetched(queue, target, x), x.T)


def test_two_results_in_one_place(place: object) -> None:
    with open_session(place) as session:
        memory = fresh_array(session.device, session.outputs[0])
        with pytest.raises(InputError, match=r"(?s)'scores' and 'twice' share memory.*two buffers"):
            session.run(picture(1), out={"scores": memory, "twice": memory})
        session.bind("scores", memory)
        with pytest.raises(InputError, match="'scores' and 'twice' share memory"):
            session.run(picture(1), out={"twice": memory})
        session.run(picture(1), outputs="scores")
        expected = open_session(place).run(picture(1))["scores"]
        np.testing.assert_array_equal(memory.numpy(), expected)


def test_rows_of_one_array(gpu: fourfold.Session, queue: Any) -> None:
    """Results lie beside each other, and none of them touches its neighbours."""
    both = cl_array.to_device(queue, np.full((4, 1, 5), 7, np.float32))
    queue.finish()
    expected = gpu.run(picture(2))
    gpu.run(picture(2), out={"scores": both[2], "twice": both[1]})
    found = both.get()
    np.testing.assert_array_equal(found[2], expected["scores"])
    np.testing.assert_array_equal(found[1], expected["twice"])
    np.testing.assert_array_equal(found[[0, 3]], 7)


@pytest.mark.parametrize("form", ["buffer", "number", "array"])
def test_memory_that_its_owner_lets_go(gpu: fourfold.Session, queue: Any, form: str) -> None:
    """What is bound is held: nobody else gets that memory before it is bound no longer."""
    x = picture(3)
    memory = in_a_buffer(queue, x, 64)
    array = cl_array.Array(queue, x.shape, x.dtype, data=memory)
    gpu.bind("image", {"buffer": memory, "number": memory.int_ptr, "array": array}[form])
    memory.release()
    del memory, array
    gc.collect()
    others = [in_a_buffer(queue, np.full_like(x, 9), 64) for _ in range(8)]
    expected = gpu.run({"image": x})
    for _ in range(2):
        found = gpu.run()
        np.testing.assert_array_equal(found["scores"], expected["scores"])
    assert len(others) == 8


def test_sessions_that_share_a_buffer(gpu: fourfold.Session, queue: Any) -> None:
    """One writes what another reads, whichever is closed first."""
    between = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, 64)
    second = open_session(gpu.device, small_model("Neg", {"x": (1, 5)}))
    third = open_session(gpu.device, small_model("Abs", {"x": (1, 5)}))
    gpu.bind("scores", between)
    for reader in (second, third):
        reader.bind("x", between)
    for seed in range(3):
        scores = gpu.run(picture(seed))["twice"] / 2
        np.testing.assert_array_equal(second.run()["y"], -scores)
        np.testing.assert_array_equal(third.run()["y"], np.abs(scores))
    gpu.close()
    second.close()
    np.testing.assert_array_equal(third.run()["y"], np.abs(scores))
    third.close()


def test_states_beside_bound_results(place: object) -> None:
    """What a model keeps from run to run is its own, wherever its results go."""
    steps = np.random.default_rng(4).normal(size=(4, 2, 7)).astype(np.float32)
    with open_session(place, svdf()) as plain, open_session(place, svdf()) as bound:
        target = fresh_array(bound.device, bound.outputs[0])
        bound.bind("y", target)
        expected = [plain.run(step)["y"] for step in steps]
        for step, wanted in zip(steps, expected, strict=True):
            assert bound.run(step)["y"] is target
            np.testing.assert_array_equal(target.numpy(), wanted)
        assert not np.array_equal(expected[0], expected[1])
        bound.reset()
        bound.bind("y", None)
        np.testing.assert_array_equal(bound.run(steps[0])["y"], expected[0])


def test_quantised_bytes(device: fourfold.DeviceInfo, queue: Any) -> None:
    tensors = [Tensor(name, (1, 7), "int8", scale=[0.5], zero_point=[1]) for name in "xy"]
    content = write(tensors, [Operator("RELU", ["x"], ["y"])], ["x"], ["y"])
    x = np.array([[-128, 0, 1, 127, -1, 2, 3]], np.int8)
    source, target = in_a_buffer(queue, x), in_a_buffer(queue, np.zeros_like(x))
    with open_session(device, content) as session:
        session.bind("x", source)
        session.bind("y", target)
        session.run()
    np.testing.assert_array_equal(fetched(queue, target, x), np.maximum(x, 1))


def test_bytes_of_a_picture(device: fourfold.DeviceInfo, queue: Any) -> None:
    frame = np.random.default_rng(5).integers(0, 256, (1, 5, 6, 3), np.uint8)
    with open_session(device, pixels=fourfold.Pixels(mean=127.5, std=127.5)) as session:
        expected = session.run(frame)["scores"]
        session.bind("image", in_a_buffer(queue, frame))
        np.testing.assert_array_equal(session.run()["scores"], expected)
        with pytest.raises(InputError, match=r"float32\[1, 5, 6, 3\]"):
            session.bind("image", cl_array.to_device(queue, frame.astype(np.float32)))


def test_a_resize_while_an_input_is_bound(device: fourfold.DeviceInfo, queue: Any) -> None:
    """Memory is measured against the shapes of each run; where it has room, it stays of use."""
    with open_session(device, small_model("Neg", {"x": ("n", 5)})) as session:
        session.bind("x", in_a_buffer(queue, ROWS))
        for rows in (1, 3, 2):
            session.resize((rows, 5))
            np.testing.assert_array_equal(session.run()["y"], -ROWS[:rows])
        session.resize((4, 5))
        with pytest.raises(InputError, match=r"(?s)60 bytes, not 80.*a buffer of 80 bytes or more"):
            session.run()
        session.bind("x", None)
        np.testing.assert_array_equal(session.run(np.ones((4, 5), np.float32))["y"], -1)


def test_a_resize_while_an_array_is_bound(place: object) -> None:
    """An array has a shape, and is not taken for one of another."""
    with open_session(place, small_model("Neg", {"x": ("n", 5)})) as session:
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


def test_other_shapes_while_a_result_is_bound(device: fourfold.DeviceInfo, queue: Any) -> None:
    """An array of another shape changes the model, and what is bound has to have room for it."""
    target = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, 40)
    with open_session(device, small_model("Neg", {"x": ("n", 5)})) as session:
        session.bind("y", target.int_ptr)
        for rows in (1, 2):
            found = session.run(ROWS[:rows])["y"]
            assert found.shape == (rows, 5)
            np.testing.assert_array_equal(found.numpy(), -ROWS[:rows])
        with pytest.raises(InputError, match="40 bytes, not 60"):
            session.run(ROWS)
        np.testing.assert_array_equal(session.run(ROWS[:1])["y"].numpy(), -ROWS[:1])
