"""The ctypes binding of OpenCL: buffers, kernels, error messages, and use next to pyopencl."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from tiny_matrix import matrix

from fourfold.backends.opencl import binding as cl
from fourfold.backends.opencl.binding import objects
from fourfold.backends.opencl.devices import context_of
from fourfold.backends.opencl.program import warm_compiler
from fourfold.device import DeviceInfo

POINTER = objects._POINTER
TEXT = """
__kernel void scale(__global float *values, long from, int by)
{
    values[from + get_global_id(0)] *= by;
}
"""


def random(count: int) -> np.ndarray:
    return np.random.default_rng(3).uniform(-1, 1, count).astype(np.float32)


@pytest.fixture
def context(device: DeviceInfo) -> cl.Context:
    return context_of(device)


@pytest.fixture
def kernel(context: cl.Context) -> cl.Kernel:
    program = cl.Program.of_text(context, TEXT)
    program.build("")
    return cl.Kernel(program, "scale")


def test_kernel_reads_its_arguments(context: cl.Context, kernel: cl.Kernel) -> None:
    values = random(37)
    queue, buffer = cl.Queue(context), cl.Buffer.of(context, values, writable=True)
    kernel.set_buffer(0, buffer)
    kernel.set_long(1, 5)
    kernel.set_int(2, -2)
    queue.replay([queue.call(kernel, (11,), (1,))] * 2)
    result = np.full_like(values, np.nan)
    queue.read(buffer, result)
    expected = values.copy()
    expected[5:16] *= 4
    assert np.array_equal(result, expected)


def test_buffer_arguments_have_the_size_of_a_host_pointer(
    context: cl.Context, kernel: cl.Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A buffer argument is a host pointer, whatever the pointer size of the device."""
    sizes: list[int] = []
    monkeypatch.setattr(kernel, "_set", lambda *call: sizes.append(call[2].value))
    monkeypatch.setattr(objects, "_POINTER", 4)
    kernel.set_buffer(0, cl.Buffer(context, 64))
    kernel.set_buffer(0, None)
    kernel.set_long(1, 5)
    kernel.set_int(2, -2)
    assert sizes == [4, 4, 8, 4]
    assert ctypes.sizeof(ctypes.c_void_p) == POINTER


def test_compiled_programs_can_be_linked(context: cl.Context) -> None:
    part = cl.Program.of_text(context, TEXT)
    part.compile("")
    assert cl.Kernel(cl.Program.of_part(context, part), "scale").pointer is not None


def test_compiler_can_be_warmed_up_in_threads(context: cl.Context) -> None:
    threads = [threading.Thread(target=warm_compiler, args=(context,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    program = cl.Program.of_text(context, TEXT.replace("*=", "+="))
    program.build("")
    for thread in threads:
        thread.join()
    assert cl.Kernel(program, "scale").pointer is not None


def test_writes_fills_maps_and_reads_buffers(context: cl.Context) -> None:
    values = random(29)
    queue, buffer = cl.Queue(context), cl.Buffer(context, values.nbytes)
    queue.write(buffer, values)
    queue.fill(buffer, np.float32(1).tobytes(), 8, 12)
    memory = queue.map(buffer, values.nbytes)
    result = np.frombuffer(memory, np.float32).copy()
    queue.unmap(buffer, memory)
    values[2:5] = 1.0
    assert np.array_equal(result, values)
    part = np.full(7, np.nan, np.float32)
    queue.read(buffer, part, offset=16)
    assert np.array_equal(part, values[4:11])


def test_rejects_non_contiguous_arrays(context: cl.Context) -> None:
    with pytest.raises(ValueError, match="contiguous"):
        cl.Queue(context).write(cl.Buffer(context, 64), random(14)[::2])


def test_profiling_events_have_a_duration(context: cl.Context, kernel: cl.Kernel) -> None:
    queue, buffer = cl.Queue(context, profiling=True), cl.Buffer(context, 4096)
    kernel.set_buffer(0, buffer)
    kernel.set_long(1, 0)
    kernel.set_int(2, 1)
    event = queue.timed(queue.call(kernel, (1024,), (1,)))
    queue.finish()
    assert event.seconds > 0


def test_loads_binaries(context: cl.Context) -> None:
    program = cl.Program.of_text(context, TEXT)
    program.build("")
    again = cl.Program.of_binary(context, program.binary)
    again.build("")
    assert cl.Kernel(again, "scale").pointer


def test_errors_name_the_function(context: cl.Context) -> None:
    program = cl.Program.of_text(context, TEXT)
    program.build("")
    with pytest.raises(cl.Error, match="clCreateKernel failed: invalid kernel name"):
        cl.Kernel(program, "nothing")
    assert cl.Error("clCreateBuffer", -4).out_of_memory
    assert str(cl.Error("clFinish", -77)) == "clFinish failed: error (-77)"


def test_build_log_contains_compiler_errors(context: cl.Context) -> None:
    program = cl.Program.of_text(context, "__kernel void f() { nonsense }")
    with pytest.raises(cl.Error):
        program.build("")
    assert "nonsense" in program.log


def test_handles_are_released_once(context: cl.Context) -> None:
    buffer = cl.Buffer(context, 64)
    buffer.release()
    assert buffer.pointer is None
    buffer.release()


PYOPENCL_SCRIPT = """
import sys, fourfold
session = fourfold.Session(sys.argv[1], device=f"opencl:{sys.argv[2]}", cache=None)
assert "pyopencl" not in sys.modules, "fourfold imports pyopencl"
shape = session.inputs[0].shape
import numpy as np, pyopencl as cl
found = [one for platform in cl.get_platforms() for one in platform.get_devices()]
context = cl.Context([found[int(sys.argv[2])]])
with cl.CommandQueue(context) as queue:
    buffer = cl.Buffer(context, cl.mem_flags.COPY_HOST_PTR, hostbuf=np.arange(7, dtype=np.float32))
    back = np.empty(7, np.float32)
    cl.enqueue_copy(queue, back, buffer)
assert back.tolist() == [0, 1, 2, 3, 4, 5, 6]
session.run(np.ones(shape, np.float32))
"""


def test_works_next_to_pyopencl(device: DeviceInfo, tmp_path: Path) -> None:
    pytest.importorskip("pyopencl")
    model = tmp_path / "tiny.tflite"
    model.write_bytes(matrix())
    words = [sys.executable, "-c", PYOPENCL_SCRIPT, str(model), str(device.ordinal)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
