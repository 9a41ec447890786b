"""Sessions read and write device memory: bound, kept, and passed from model to model."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from onnx_writer import small_model
from small_networks import small_onnx

import fourfold
from fourfold.backends import with_known_facts
from fourfold.backends.opencl import ports
from fourfold.backends.opencl.binding.queue import Queue
from fourfold.errors import DeviceError, InputError
from fourfold.runtime.device_array import DeviceArray

DLPACK = {"opencl": 4, "cuda": 2, "webgpu": 15}  # DLPack device types
cl = pytest.importorskip("pyopencl")
cl_array = pytest.importorskip("pyopencl.array")


def open_session(device: object, model: bytes | None = None, **options: Any) -> fourfold.Session:
    return fourfold.Session(model or small_onnx(), device, cache="memory", **options)


@pytest.fixture(params=["driver", "cuda", "interpreted", "cpu"])
def session(request: pytest.FixtureRequest, device: fourfold.DeviceInfo) -> Iterator[Any]:
    targets = {"driver": device, "interpreted": "interpret", "cpu": "cpu"}
    if request.param == "cuda":
        targets["cuda"] = request.getfixturevalue("cuda")
    with open_session(targets[request.param]) as result:
        yield result


def random_image(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, (1, 5, 6, 3)).astype(np.float32)


def test_results_stay_on_the_device(session: fourfold.Session) -> None:
    x = random_image(1)
    expected, kept = session.run(x), session.run(x, keep_on_device=True)
    other = session.run(random_image(2), keep_on_device=True)  # has its own memory
    assert kept.keys() == expected.keys()
    for name, array in kept.items():
        assert isinstance(array, DeviceArray)
        assert (array.shape, array.dtype) == (expected[name].shape, expected[name].dtype)
        assert (array.ndim, array.size, array.nbytes, len(array)) == (2, 5, 20, 1)
        np.testing.assert_array_equal(array.numpy(), expected[name])
        np.testing.assert_array_equal(np.asarray(array, np.float64), expected[name])
        assert not np.array_equal(other[name].numpy(), expected[name])
        assert "float32[1, 5]" in repr(array)
    into = np.empty((5, 1), np.float32).T
    assert kept["scores"].numpy(into) is into
    np.testing.assert_array_equal(into, expected["scores"])
    with pytest.raises(ValueError, match="copy"):
        kept["scores"].__array__(copy=False)


def test_selected_results_stay_on_the_device(session: fourfold.Session) -> None:
    x, inputs = random_image(1), np.empty((1, 5), np.float32)
    outputs = session.run(x, out={"twice": inputs}, keep_on_device=True)
    assert outputs["twice"] is inputs
    assert isinstance(outputs["scores"], DeviceArray)
    np.testing.assert_array_equal(inputs, session.run(x)["twice"])
    only = session.run(x, outputs="scores", keep_on_device=True)
    assert list(only) == ["scores"]
    np.testing.assert_array_equal(only["scores"].numpy() * 2, inputs)


def test_chained_models_stay_on_the_device(
    device: fourfold.DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first model's results reach the second without a copy through the host."""
    first, second = open_session(device), open_session(device, small_model("Neg", {"x": (1, 5)}))
    x, copied = random_image(3), []
    expected = -first.run(x)["scores"]

    def note(name: str) -> None:
        plain = getattr(Queue, name)

        def noted(
            queue: Queue, buffer: object, array: np.ndarray, *others: Any, **options: Any
        ) -> Any:
            copied.append((name, array.nbytes))
            return plain(queue, buffer, array, *others, **options)

        monkeypatch.setattr(Queue, name, noted)

    first.run(x, keep_on_device=True)
    note("read")
    note("write")
    monkeypatch.setattr(ports, "copied", lambda *given: copied.append(("copy", 0)))
    kept = first.run(x, keep_on_device=True)["scores"]
    output = second.run(kept, keep_on_device=True)["y"]
    assert [one for one in copied if one != ("write", x.nbytes)] == []
    monkeypatch.undo()
    np.testing.assert_array_equal(output.numpy(), expected)
    del kept
    gc.collect()
    np.testing.assert_array_equal(second.run({"x": first.run(x)["scores"]})["y"], expected)


def test_binds_buffers(gpu: fourfold.Session, queue: Any) -> None:
    x, flags = random_image(4), cl.mem_flags.READ_WRITE
    source, target = (
        cl.Buffer(queue.context, flags, 1024),
        cl_array.zeros(queue, (1, 5), np.float32),
    )
    queue.finish()
    gpu.bind("image", source)
    gpu.bind("twice", target)
    for seed in range(3):
        x = random_image(seed)
        cl.enqueue_copy(queue, source, x, is_blocking=True)
        results = gpu.run()
        assert results["twice"] is target
        np.testing.assert_array_equal(target.get(), results["scores"] * 2)
    np.testing.assert_array_equal(results["scores"], gpu.run({"image": x})["scores"])
    gpu.bind("image", None)
    np.testing.assert_array_equal(gpu.run(random_image(0))["twice"].get(), target.get())
    gpu.bind("twice", None)
    before = target.get()
    assert isinstance(gpu.run(x)["twice"], np.ndarray)
    np.testing.assert_array_equal(target.get(), before)


def test_binds_a_handle(gpu: fourfold.Session, queue: Any) -> None:
    target = cl_array.zeros(queue, (1, 64), np.float32)
    gpu.bind("scores", target.base_data.int_ptr)
    results = gpu.run(random_image(5))
    assert isinstance(results["scores"], DeviceArray)
    np.testing.assert_array_equal(target.get()[0, :5] * 2, results["twice"][0])


def test_rejects_invalid_memory(gpu: fourfold.Session, queue: Any) -> None:
    short = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, 64)
    with pytest.raises(InputError, match=r"64 bytes, not 360"):
        gpu.bind("image", short)
    with pytest.raises(InputError, match=r"float32\[1, 7\]"):
        gpu.bind("scores", cl_array.zeros(queue, (1, 7), np.float32))
    with pytest.raises(InputError, match="cannot be bound to a ndarray"):
        gpu.bind("scores", np.zeros((1, 5), np.float32))
    with pytest.raises(InputError, match="scoress"):
        gpu.bind("scoress", short)
    gpu.bind("image", cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, 512))
    with pytest.raises(InputError, match="in flight"):
        gpu.run_async()
    with pytest.raises(InputError, match="0 inputs"):
        gpu.run([random_image(1), random_image(2)])


def test_exports_results_through_dlpack(gpu: fourfold.Session) -> None:
    kept, x = gpu.run(random_image(6), keep_on_device=True), random_image(6)
    kind = kept["scores"].__dlpack_device__()[0]
    if kind == 1:  # a CPU, whose memory NumPy reads where it is
        view = np.from_dlpack(kept["scores"])
        np.testing.assert_array_equal(view, gpu.run(x)["scores"])
    else:
        assert kind == DLPACK[gpu.device.api]
        capsule = kept["scores"].__dlpack__()
        assert "dltensor" in repr(capsule)
    with open_session(gpu.device, small_model("Neg", {"x": (1, 5)})) as second:
        output = second.run(kept["twice"])["y"]
    np.testing.assert_array_equal(output, -gpu.run(x)["twice"])


def test_cpu_device_results_are_visible_to_numpy(device: fourfold.DeviceInfo) -> None:
    """Persistently mapped memory of a CPU device is exported as host memory."""
    with open_session(device.address) as session:
        kept = session.run(random_image(6), keep_on_device=True)["scores"]
        info = with_known_facts(session.device)
        visible = info.is_cpu and info.persistent_mapping
        assert kept.__dlpack_device__()[0] == (1 if visible else DLPACK[info.api])
        if visible:
            np.testing.assert_array_equal(
                np.from_dlpack(kept), session.run(random_image(6))["scores"]
            )


def test_runs_on_the_callers_queue(
    device: fourfold.DeviceInfo, gpu: fourfold.Session, queue: Any
) -> None:
    context = cl.Context([queue.device])  # not all drivers keep it alive for a queue
    own = cl.CommandQueue(context)
    x = random_image(7)
    with open_session(own) as session:
        assert session.context_handle == own.context.int_ptr
        inputs, doubled = cl_array.to_device(own, x), 2 * x
        # The copy does not block: it precedes the run in the same queue.
        cl.enqueue_copy(own, inputs.base_data, doubled, is_blocking=False)
        outputs = session.run(inputs)
        np.testing.assert_array_equal(outputs["scores"], gpu.run(2 * x)["scores"])
        with pytest.raises(InputError, match="different OpenCL contexts"):
            gpu.run(inputs)
    with open_session(own.context) as session:
        np.testing.assert_array_equal(session.run(x)["scores"], gpu.run(x)["scores"])
    unordered = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
    try:
        wild = cl.CommandQueue(own.context, properties=unordered)
    except cl.Error:
        pytest.skip("the driver has no out-of-order queues")
    with pytest.raises(DeviceError, match="out of order"):
        open_session(wild)


def test_rejects_objects_that_are_no_devices() -> None:
    with pytest.raises(DeviceError, match="a dict is not a device"):
        open_session({})
