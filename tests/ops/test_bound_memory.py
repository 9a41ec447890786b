"""Inputs and outputs in device memory that the caller owns, in every form a caller can pass it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from random_graphs import build
from small_networks import small_network

from fourfold.backends import Player, backend_of, make_player
from fourfold.backends.dlpack_devices import OPENCL
from fourfold.backends.dlpack_export import make_capsule
from fourfold.backends.opencl.devices import context_of
from fourfold.backends.opencl.import_memory import import_memory
from fourfold.codegen.context import KernelOptions
from fourfold.compiler.lower import make_plan
from fourfold.compiler.rewrite import rewrite
from fourfold.device import DeviceInfo
from fourfold.errors import InputError

pytestmark = pytest.mark.devices(takes=lambda device: device.api == "opencl")
cl = pytest.importorskip("pyopencl")
cl_array = pytest.importorskip("pyopencl.array")


@pytest.fixture
def queue(device: DeviceInfo) -> Any:
    pointer = context_of(device).pointer
    return cl.CommandQueue(cl.Context.from_int_ptr(pointer.value))


def player_of(device: DeviceInfo, graph: object, form: str = "auto") -> Player:
    return make_player(device, make_plan(rewrite(graph), device, KernelOptions(form=form)))


class OnOpenCL:
    """A tensor of a package that supports DLPack."""

    def __init__(self, buffer: Any, shape: tuple[int, ...], dtype: np.dtype) -> None:
        self.buffer, self.shape, self.dtype = buffer, shape, dtype

    def __dlpack_device__(self) -> tuple[int, int]:
        return (OPENCL, 0)

    def __dlpack__(self) -> Any:
        device = self.__dlpack_device__()
        return make_capsule(self, self.buffer.int_ptr, device, self.shape, self.dtype)


def in_a_buffer(queue: Any, array: np.ndarray, room: int = 0, start: int = 0) -> Any:
    memory = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, start + array.nbytes + room)
    if array.nbytes:
        cl.enqueue_copy(queue, memory, array, dst_offset=start, is_blocking=True)
    return memory


def exact(queue: Any, array: np.ndarray) -> Any:
    return in_a_buffer(queue, array)


def with_room(queue: Any, array: np.ndarray) -> Any:
    return in_a_buffer(queue, array, 64)


def as_number(queue: Any, array: np.ndarray) -> Any:
    memory = in_a_buffer(queue, array, 64)
    KEPT.append(memory)
    return memory.int_ptr


def as_array(queue: Any, array: np.ndarray) -> Any:
    return cl_array.to_device(queue, array)


def behind_a_start(start: int) -> Callable[[Any, np.ndarray], Any]:
    def make(queue: Any, array: np.ndarray) -> Any:
        memory = in_a_buffer(queue, array, 64, start)
        return cl_array.Array(queue, array.shape, array.dtype, data=memory, offset=start)

    return make


def by_dlpack(queue: Any, array: np.ndarray) -> Any:
    return OnOpenCL(in_a_buffer(queue, array, 64), array.shape, array.dtype)


KEPT: list[Any] = []
FORMS = {
    "a buffer": exact,
    "a longer buffer": with_room,
    "a number": as_number,
    "an array": as_array,
    "an array behind 16": behind_a_start(16),
    "an array behind 4": behind_a_start(4),
    "an array behind a page": behind_a_start(4096),
    "DLPack": by_dlpack,
}


@pytest.mark.parametrize("launches", ["list", "one"])
@pytest.mark.parametrize("made", FORMS)
def test_inputs_and_outputs(device: DeviceInfo, queue: Any, made: str, launches: str) -> None:
    player = player_of(device, small_network(), launches)
    random = np.random.default_rng(17)
    for turn in range(3):
        x = random.uniform(-1, 1, player.plan.inputs[0].type.shape).astype(np.float32)
        scores, twice = player.run([x])
        blank = np.full_like(scores, np.nan)
        source = import_memory(device, FORMS[made](queue, x))
        target = import_memory(device, FORMS[made](queue, blank))
        player.poison()
        own, bound = player.run_bound([source], [np.empty_like(twice), target])
        assert bound is target
        found = np.full_like(blank, turn)
        target.read(found)
        np.testing.assert_array_equal(own, scores)
        np.testing.assert_array_equal(found, twice)
        again = player.run([-x])  # uses the player's own memory again
        assert not np.array_equal(again[0], scores)
        np.testing.assert_array_equal(player.run([x])[1], twice)
    player.close()


def test_images(device: DeviceInfo, queue: Any) -> None:
    player = player_of(device, build("input x: f32[1,5,7,4]\ny = relu(x)\noutput y\n"))
    x = np.random.default_rng(1).uniform(-1, 1, (1, 5, 7, 4)).astype(np.float32)
    form = cl.ImageFormat(cl.channel_order.RGBA, cl.channel_type.FLOAT)
    flags = cl.mem_flags.READ_WRITE
    source, target = (cl.create_image(queue.context, flags, form, (7, 5)) for _ in range(2))
    cl.enqueue_copy(queue, source, x, origin=(0, 0), region=(7, 5), is_blocking=True)
    memory = import_memory(device, target)
    player.run_bound([import_memory(device, source)], [memory])
    found = np.empty_like(x)
    memory.read(found)
    np.testing.assert_array_equal(found, np.maximum(x, 0))
    memory.write(x)
    memory.read(found)
    np.testing.assert_array_equal(found, x)


def test_an_input_that_is_an_output(device: DeviceInfo, queue: Any) -> None:
    player = player_of(device, build("input x: f32[3,5]\ny = relu(x)\noutput x, y\n"))
    x = np.random.default_rng(1).uniform(-1, 1, (3, 5)).astype(np.float32)
    target = import_memory(device, with_room(queue, np.zeros_like(x)))
    same, y = player.run_bound(
        [import_memory(device, with_room(queue, x))], [target, np.empty_like(x)]
    )
    found = np.empty_like(x)
    same.read(found)
    np.testing.assert_array_equal(found, x)
    np.testing.assert_array_equal(y, np.maximum(x, 0))


def test_memory_of_another_context(device: DeviceInfo, queue: Any) -> None:
    context = cl.Context([queue.device])  # not every driver keeps it alive for a queue
    other = cl.CommandQueue(context)
    with pytest.raises(InputError, match=r"(?s)different OpenCL contexts.*device=queue"):
        import_memory(device, in_a_buffer(other, np.zeros(7, np.float32)))


def test_rejects_objects_without_device_memory(device: DeviceInfo, queue: Any) -> None:
    assert import_memory(device, np.zeros(3)) is None
    assert import_memory(device, object()) is None
    strided = cl_array.to_device(queue, np.zeros((4, 6), np.float32))[:, ::2]
    with pytest.raises(InputError, match="not contiguous"):
        import_memory(device, strided)


@pytest.mark.parametrize("launches", ["list", "one"])
@pytest.mark.parametrize("made", ["a longer buffer", "an array behind 16", "a buffer"])
def test_output_may_share_memory_with_an_input(
    device: DeviceInfo, queue: Any, made: str, launches: str
) -> None:
    """All inputs are read before a result is written; later runs use separate memory."""
    text = "input x: f32[32,32]\ny = transpose(x; permutation=(1,0))\noutput y\n"
    player = player_of(device, build(text), launches)
    x = np.random.default_rng(1).uniform(-1, 1, (32, 32)).astype(np.float32)
    memory = import_memory(device, FORMS[made](queue, x))
    other = import_memory(device, FORMS[made](queue, np.zeros_like(x)))
    found = np.empty_like(x)
    for target, wanted in ((memory, x.T), (other, x), (memory, x)):
        player.run_bound([memory], [target])
        target.read(found)
        np.testing.assert_array_equal(found, wanted)
    player.close()


def test_mapped_memory_is_visible_to_host_and_kernels(device: DeviceInfo) -> None:
    """Results reach the host, kernels and any reader.

    Drivers differ in what a command does to a mapped buffer.
    """
    player = player_of(device, build("input x: f32[3,5]\ny = negate(x)\noutput y\n"))
    for turn in range(50):
        x = np.full((3, 5), turn, np.float32)
        memory, target = (backend_of(device).make_memory(device, x.nbytes) for _ in range(2))
        memory.write(x)
        if memory.host is not None:
            np.testing.assert_array_equal(memory.host[: x.nbytes].view(np.float32), turn)
        player.run_bound([memory], [target])
        for one, wanted in ((memory, x), (target, -x)):
            found = np.full_like(x, np.nan)
            one.read(found)
            np.testing.assert_array_equal(found, wanted)
    player.close()
