"""Inputs and outputs of an interpreter stay in device memory."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
from docs.tiny_model import tiny_detector, tiny_model
from onnx_writer import small_model
from runtimes import INSTALLED, RUNTIMES, interpreter
from split_models import split_model
from tflite_writer import Operator, Tensor, constant, write

from fourfold.errors import InputError
from fourfold.litert import GpuDelegate
from fourfold.runtime.device_array import DeviceArray
from fourfold.session import Session

pytestmark = [
    pytest.mark.needs_device,
    pytest.mark.skipif(not INSTALLED, reason="no TFLite runtime is installed"),
]
LITERT = next(iter(INSTALLED), "")
IMAGE = np.random.default_rng(0).uniform(-1, 1, (1, 32, 32, 3)).astype(np.float32)
ROW = np.arange(5, dtype=np.float32)[None] + 1


def opened(
    content: bytes, name: str = LITERT, shape: tuple[int, ...] = (), **options: Any
) -> tuple[GpuDelegate, Any]:
    """Return a delegate and an interpreter that uses it and is ready to run."""
    delegate = GpuDelegate(content, **options)
    made = interpreter(name, content, delegate)
    if shape:
        made.resize_tensor_input(made.get_input_details()[0]["index"], shape)
    made.allocate_tensors()
    return delegate, made


def fill(made: Any, array: np.ndarray) -> None:
    made.set_tensor(made.get_input_details()[0]["index"], array)


def expected(content: bytes, array: np.ndarray) -> list[np.ndarray]:
    """Return the delegate's results without bound device memory; they must be bit-equal."""
    _, made = opened(content, shape=array.shape, max_delegated_partitions=4)
    fill(made, array)
    made.invoke()
    return [made.get_tensor(item["index"]).copy() for item in made.get_output_details()]


def parts_model() -> bytes:
    """Return sum = x + 1 and y = diagonal(sum) * 2, both outputs; diagonal runs on the CPU."""
    return split_model(["sum", "y"])


def shared_input_model() -> bytes:
    """Return x + 1, which runs on the GPU, and diagonal(x), which runs on the CPU."""
    tensors = [
        Tensor("x", (1, 5)),
        constant("one", [1.0], "float32"),
        Tensor("sum", (1, 5)),
        Tensor("matrix", (1, 5, 5)),
    ]
    operators = [
        Operator("ADD", ["x", "one"], ["sum"], "AddOptions"),
        Operator("MATRIX_DIAG", ["x"], ["matrix"]),
    ]
    return write(tensors, operators, ["x"], ["sum", "matrix"])


@pytest.mark.parametrize("name", RUNTIMES)
def test_outputs_stay_on_the_device_until_requested(name: str) -> None:
    delegate, made = opened(tiny_detector(), name, allow_buffer_handle_output=True)
    places = {item["name"]: item["index"] for item in made.get_output_details()}
    fill(made, IMAGE)
    before = [made.get_tensor(index).copy() for index in places.values()]
    made.invoke()
    for old, index in zip(before, places.values(), strict=True):
        np.testing.assert_array_equal(made.get_tensor(index), old)
    wanted = expected(tiny_detector(), IMAGE)
    for (output, index), values in zip(places.items(), wanted, strict=True):
        array = delegate.output(output)
        assert isinstance(array, DeviceArray)
        assert delegate.output(index) is array
        np.testing.assert_array_equal(array.numpy(), values)
    first, second = places.values()
    delegate.ensure_readable(first)
    np.testing.assert_array_equal(made.get_tensor(first), wanted[0])
    np.testing.assert_array_equal(made.get_tensor(second), before[1])
    delegate.ensure_readable("boxes")
    np.testing.assert_array_equal(made.get_tensor(second), wanted[1])


def test_each_run_has_its_own_memory() -> None:
    delegate, made = opened(tiny_model(), allow_buffer_handle_output=True)
    kept = []
    for image in (IMAGE, -IMAGE):
        fill(made, image)
        made.invoke()
        kept.append(delegate.output("scores"))
    for image, array in zip((IMAGE, -IMAGE), kept, strict=True):
        np.testing.assert_array_equal(array.numpy(), expected(tiny_model(), image)[0])


def test_outputs_are_downloaded_only_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: list[DeviceArray] = []
    plain = DeviceArray.numpy

    def spy(self: DeviceArray, out: np.ndarray | None = None) -> np.ndarray:
        fetched.append(self)
        return plain(self, out)

    monkeypatch.setattr(DeviceArray, "numpy", spy)
    delegate, made = opened(tiny_model(), allow_buffer_handle_output=True)
    made.invoke()
    made.get_tensor(made.get_output_details()[0]["index"])
    assert fetched == []
    delegate.ensure_readable("scores")
    assert fetched == [delegate.output("scores")]


def test_a_result_goes_into_another_model() -> None:
    delegate, made = opened(tiny_model(), allow_buffer_handle_output=True)
    fill(made, IMAGE)
    made.invoke()
    with Session(small_model("Neg", {"x": (1, 10)}), delegate.device, cache="memory") as second:
        found = second.run(delegate.output("scores"))["y"]
    np.testing.assert_array_equal(found, -expected(tiny_model(), IMAGE)[0])


@pytest.mark.parametrize("name", RUNTIMES)
def test_cpu_operators_read_outputs_that_stay_on_the_device(name: str) -> None:
    """An output of a partition that the interpreter also reads is in device and host memory."""
    options = {"allow_buffer_handle_output": True, "max_delegated_partitions": 2}
    delegate, made = opened(parts_model(), name, **options)
    first, last = (item["index"] for item in made.get_output_details())
    for row in (ROW, -ROW):
        fill(made, row)
        before = made.get_tensor(last).copy()
        made.invoke()
        np.testing.assert_array_equal(made.get_tensor(first), row + 1)
        np.testing.assert_array_equal(delegate.output("sum").numpy(), row + 1)
        np.testing.assert_array_equal(made.get_tensor(last), before)
        delegate.ensure_readable("y")
        np.testing.assert_array_equal(made.get_tensor(last), np.diag(row[0] + 1)[None] * 2)


def test_outputs_that_the_interpreter_computes_are_refused() -> None:
    delegate, made = opened(shared_input_model(), allow_buffer_handle_output=True)
    fill(made, ROW)
    made.invoke()
    matrix = made.get_output_details()[1]["index"]
    delegate.ensure_readable("matrix")
    np.testing.assert_array_equal(made.get_tensor(matrix), np.diag(ROW[0])[None])
    np.testing.assert_array_equal(delegate.output("sum").numpy(), ROW + 1)
    with pytest.raises(InputError, match="the interpreter computes it itself"):
        delegate.output("matrix")
    with pytest.raises(InputError, match="the interpreter computes it itself"):
        delegate.bind_buffer_to_output(matrix, delegate.output("sum"))


def test_an_input_that_the_interpreter_reads_is_not_bound() -> None:
    delegate, _ = opened(shared_input_model())
    memory = on_device(delegate, ROW)
    with pytest.raises(InputError, match=r"(?s)MATRIX_DIAG.* reads it, too.*set_tensor"):
        delegate.bind_buffer_to_input("x", memory)


def on_device(delegate: GpuDelegate, array: np.ndarray) -> DeviceArray:
    """Return an array in device memory, as the result of another session."""
    model = small_model("Neg", {"x": array.shape})
    with Session(model, delegate.device, cache="memory") as session:
        made = session.run(-array, keep_on_device=True)["y"]
    assert isinstance(made, DeviceArray)
    return made


@pytest.mark.parametrize("name", RUNTIMES)
def test_a_bound_input_is_read_instead_of_the_tensor(name: str) -> None:
    delegate, made = opened(tiny_model(), name)
    scores = made.get_output_details()[0]["index"]
    fill(made, np.full_like(IMAGE, np.nan))
    delegate.bind_buffer_to_input("image", on_device(delegate, IMAGE))
    made.invoke()
    np.testing.assert_array_equal(made.get_tensor(scores), expected(tiny_model(), IMAGE)[0])
    fill(made, -IMAGE)
    delegate.bind_buffer_to_input(made.get_input_details()[0]["index"], None)
    made.invoke()
    np.testing.assert_array_equal(made.get_tensor(scores), expected(tiny_model(), -IMAGE)[0])


@pytest.mark.parametrize("allowed", [False, True])
def test_a_bound_output(allowed: bool) -> None:
    """The interpreter gets a copy, as in TFLite, unless outputs may stay on the device."""
    delegate, made = opened(tiny_model(), allow_buffer_handle_output=allowed)
    scores = made.get_output_details()[0]["index"]
    target = on_device(delegate, np.zeros((1, 10), np.float32))
    delegate.bind_buffer_to_output("scores", target)
    fill(made, IMAGE)
    before, values = made.get_tensor(scores).copy(), expected(tiny_model(), IMAGE)[0]
    made.invoke()
    np.testing.assert_array_equal(target.numpy(), values)
    assert delegate.output(scores).handle == target.handle
    np.testing.assert_array_equal(made.get_tensor(scores), before if allowed else values)
    delegate.ensure_readable(scores)
    np.testing.assert_array_equal(made.get_tensor(scores), values)


def test_memory_of_pyopencl() -> None:
    cl = pytest.importorskip("pyopencl")
    delegate, made = opened(tiny_model(), allow_buffer_handle_output=True)
    queue = cl.CommandQueue(cl.Context.from_int_ptr(delegate.context_handle))
    source = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, IMAGE.nbytes)
    target = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, 64)
    delegate.bind_buffer_to_input("image", source)
    delegate.bind_buffer_to_output("scores", target.int_ptr)
    for image in (IMAGE, -IMAGE):
        cl.enqueue_copy(queue, source, image, is_blocking=True)
        made.invoke()
        found = np.empty((1, 10), np.float32)
        cl.enqueue_copy(queue, found, target, is_blocking=True)
        np.testing.assert_array_equal(found, expected(tiny_model(), image)[0])


def test_both_partitions_read_bound_memory() -> None:
    tensors = [
        Tensor("x", (1, 5)),
        Tensor("a", (1, 5)),
        Tensor("matrix", (1, 5, 5)),
        Tensor("y", (1, 5, 5)),
    ]
    operators = [
        Operator("ABS", ["x"], ["a"]),
        Operator("MATRIX_DIAG", ["a"], ["matrix"]),
        Operator("ADD", ["matrix", "x"], ["y"], "AddOptions"),
    ]
    content = write(tensors, operators, ["x"], ["y"])
    delegate, made = opened(content, max_delegated_partitions=2)
    delegate.bind_buffer_to_input("x", on_device(delegate, -ROW))
    made.invoke()
    found = made.get_tensor(made.get_output_details()[0]["index"])
    np.testing.assert_array_equal(found, (np.diag(ROW[0]) - ROW)[None])


@pytest.mark.parametrize("plain", [True, False])
def test_other_shapes(plain: bool) -> None:
    """Bound memory stays bound if the interpreter delegates again, and is refused if it is too
    small.
    """
    content, node = tiny_model(), {"first_delegate_node": 0, "last_delegate_node": 2}
    delegate = GpuDelegate(content, **({} if plain else node))
    made = interpreter(LITERT, content, delegate, plain=plain)
    made.allocate_tensors()
    delegate.bind_buffer_to_input("image", on_device(delegate, IMAGE))
    made.invoke()
    place, scores = made.get_input_details()[0]["index"], made.get_output_details()[0]["index"]
    alone = made.get_tensor(scores).copy()
    two = np.concatenate([IMAGE, -IMAGE])
    made.resize_tensor_input(place, two.shape)
    made.allocate_tensors()
    with pytest.raises(RuntimeError, match=r"(?s)float32\[1, 32, 32, 3\].*float32\[2, 32, 32, 3\]"):
        made.invoke()
    delegate.bind_buffer_to_input("image", on_device(delegate, two))
    made.invoke()
    np.testing.assert_allclose(made.get_tensor(scores)[:1], alone, atol=1e-6)
    assert not np.array_equal(made.get_tensor(scores)[1:], alone)


def test_results_are_dropped_when_tensors_are_reallocated() -> None:
    delegate, made = opened(tiny_model(), allow_buffer_handle_output=True)
    made.invoke()
    kept = delegate.output("scores")
    made.resize_tensor_input(made.get_input_details()[0]["index"], (2, 32, 32, 3))
    made.allocate_tensors()
    with pytest.raises(InputError, match=r"(?s)has no value yet.*call invoke\(\) first"):
        delegate.output("scores")
    with pytest.raises(InputError, match="has no value yet"):
        delegate.ensure_readable("scores")
    made.invoke()
    assert delegate.output("scores").shape == (2, 10)
    assert kept.numpy().shape == (1, 10)


def test_a_failed_run_leaves_no_results(monkeypatch: pytest.MonkeyPatch) -> None:
    delegate, made = opened(tiny_model(), allow_buffer_handle_output=True)
    made.invoke()
    monkeypatch.setattr(Session, "run", lambda *_, **__: 1 / 0)
    with pytest.raises(RuntimeError, match="division by zero"):
        made.invoke()
    with pytest.raises(InputError, match="the last run failed"):
        delegate.output("scores")


def test_quantised_values_stay_as_they_are() -> None:
    tensors = [
        Tensor("x", (1, 4), "int8", scale=[0.5], zero_point=[1]),
        Tensor("y", (1, 4), "int8", scale=[0.5], zero_point=[1]),
    ]
    content = write(tensors, [Operator("RELU", ["x"], ["y"])], ["x"], ["y"])
    delegate, made = opened(content, allow_buffer_handle_output=True)
    fill(made, np.array([[-128, 0, 1, 127]], np.int8))
    made.invoke()
    assert delegate.output("y").dtype == np.int8
    delegate.bind_buffer_to_input("x", delegate.output("y"))
    made.invoke()
    np.testing.assert_array_equal(delegate.output("y").numpy(), [[1, 1, 1, 127]])


def test_calls_before_the_first_run_are_refused() -> None:
    delegate = GpuDelegate(tiny_model())
    with pytest.raises(InputError, match="pass the delegate to an Interpreter"):
        delegate.output("scores")
    made = interpreter(LITERT, tiny_model(), delegate)
    for ask in (delegate.output, delegate.ensure_readable):
        with pytest.raises(InputError, match=r"call allocate_tensors\(\) first"):
            ask("scores")
    with pytest.raises(InputError, match=r"call allocate_tensors\(\) first"):
        delegate.bind_buffer_to_input("image", on_device(delegate, IMAGE))
    made.allocate_tensors()
    with pytest.raises(InputError, match=r"call invoke\(\) first"):
        delegate.output("scores")
    made.invoke()
    with pytest.raises(InputError, match="allow_buffer_handle_output=True"):
        delegate.output("scores")
    delegate.ensure_readable("scores")


def test_invalid_bindings_are_refused() -> None:
    delegate, made = opened(tiny_model(), allow_buffer_handle_output=True)
    made.invoke()
    with pytest.raises(InputError, match=r"(?s)no output 'score'.*with index.*'scores'"):
        delegate.output("score")
    with pytest.raises(InputError, match="no output 99"):
        delegate.ensure_readable(99)
    with pytest.raises(InputError, match=r"(?s)no input 'scores'.*'image' with index 0"):
        delegate.bind_buffer_to_input("scores", None)
    with pytest.raises(InputError, match="cannot be bound to a ndarray"):
        delegate.bind_buffer_to_input("image", IMAGE)
    with pytest.raises(InputError, match=r"float32\[1, 10\].*\n.*float32\[1, 32, 32, 3\]"):
        delegate.bind_buffer_to_input("image", delegate.output("scores"))
    made.invoke()  # refused memory is not bound


def test_which_interpreter_is_meant() -> None:
    delegate, first = opened(tiny_model(), allow_buffer_handle_output=True)
    second = interpreter(LITERT, tiny_model(), delegate)
    second.allocate_tensors()
    first.invoke()
    with pytest.raises(
        InputError, match=r"(?s)several interpreters.*one GpuDelegate per interpreter"
    ):
        delegate.output("scores")
    del second
    gc.collect()
    assert delegate.output("scores").shape == (1, 10)


def test_everything_is_freed() -> None:
    delegate, made = opened(tiny_model(), allow_buffer_handle_output=True)
    fill(made, IMAGE)
    made.invoke()
    kept, place = delegate.output("scores"), made.get_output_details()[0]["index"]
    (kernel,) = delegate._native._kernels.values()
    assert kernel.result(place) is kept
    del made
    gc.collect()
    assert kernel.result(place) is None
    # A result that the caller holds stays readable.
    np.testing.assert_array_equal(kept.numpy(), expected(tiny_model(), IMAGE)[0])
