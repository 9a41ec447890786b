"""Plays plans on any OpenCL 1.2 device: arguments bound once, a flat list replayed, one wait."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import pyopencl as cl

from fourfold.device import DeviceInfo
from fourfold.errors import BuildError, DeviceError, nearest
from fourfold.plan import Buffer, BufferUse, Launch, Plan, Program
from fourfold.players._ports import Ports
from fourfold.players._program import build_text, fetch_binary, load_binary

_KINDS = {cl.device_type.GPU: "gpu", cl.device_type.CPU: "cpu", cl.device_type.ACCELERATOR: "other"}
_ORDER = {"gpu": 0, "other": 1, "cpu": 2}
_INSTALL = (
    "install the GPU's OpenCL driver, or 'pip install fourfold[cpu]' to run on the CPU by PoCL"
)
# All that kernels in half precision use: vectors, comparisons, conversions, functions. Some drivers
# take sums and products of halves, and nothing else.
_PROBE = """
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
__kernel void probe(__global float *out)
{
    const half4 a = convert_half4((float4)(out[0]));
    const half4 b = a * a + (half4)((half)1.0f);
    const half4 c = convert_short4(convert_int4(a < b)) ? b : a;
    out[0] = convert_float4(c + exp(a) - exp(a)).x;
}
"""


@cache
def _found() -> tuple[tuple[DeviceInfo, Any], ...]:
    """Every OpenCL device with its facts, GPUs first."""
    try:
        platforms = cl.get_platforms()
    except cl.Error as error:
        raise DeviceError("no OpenCL platform was found", _reason(error), _INSTALL) from error
    found: list[tuple[DeviceInfo, Any]] = []
    for platform in platforms:
        try:
            found += [(_facts(platform, device), device) for device in platform.get_devices()]
        except cl.Error:
            continue  # a platform without devices answers with an error
    found.sort(key=lambda item: _ORDER[item[0].kind])
    return tuple((_numbered(info, index), device) for index, (info, device) in enumerate(found))


def _numbered(info: DeviceInfo, index: int) -> DeviceInfo:
    return DeviceInfo(**{**info.__dict__, "index": index})


def _facts(platform: Any, device: Any) -> DeviceInfo:
    extensions = device.extensions.split()
    kind = next((name for flag, name in _KINDS.items() if device.type & flag), "other")
    return DeviceInfo(
        name=device.name.strip(),
        vendor=device.vendor.strip(),
        platform=platform.name.strip(),
        driver=device.driver_version.strip(),
        version=device.version.strip(),
        kind=kind,
        compute_units=device.max_compute_units,
        memory=device.global_mem_size,
        max_allocation=device.max_mem_alloc_size,
        max_work_group=device.max_work_group_size,
        local_memory=device.local_mem_size,
        alignment=max(1, device.mem_base_addr_align // 8),
        half_arithmetic="cl_khr_fp16" in extensions,
        subgroups=any(
            name.startswith(("cl_khr_subgroups", "cl_intel_subgroups")) for name in extensions
        ),
        unified_memory=bool(device.host_unified_memory),
    )


def devices() -> tuple[DeviceInfo, ...]:
    """The facts of every OpenCL device on this machine, GPUs first."""
    return tuple(info for info, _ in _found())


def find_device(wanted: str | int | DeviceInfo = "auto") -> DeviceInfo:
    """The device of this number, or with this in its name, vendor or platform; 'auto' the first."""
    known = devices()
    if isinstance(wanted, DeviceInfo):
        return wanted
    if not known:
        raise DeviceError("no OpenCL device was found", "the platforms have no devices", _INSTALL)
    text = str(wanted).strip().lower()
    if text == "auto":
        return known[0]
    if text.isdigit() and int(text) < len(known):
        return known[int(text)]
    for info in known:
        if text == info.kind or any(
            text in field.lower() for field in (info.name, info.platform, info.vendor)
        ):
            return info
    names = [f"{info.index}: {info.name}" for info in known]
    raise DeviceError(
        f"there is no device {wanted!r}",
        f"this machine has {', '.join(names)}",
        nearest(str(wanted), [info.name for info in known]) + " or see 'fourfold devices'",
    )


@cache
def _context(info: DeviceInfo) -> Any:
    """One context for each device, shared by all sessions on it."""
    handle = next((device for known, device in _found() if known == info), None)
    if handle is None:
        raise DeviceError(f"{info} is gone", "it was found before and is no longer there", _INSTALL)
    return cl.Context([handle])


@cache
def has_half_arithmetic(info: DeviceInfo) -> bool:
    """Whether the device really computes in half: told by building and running a tiny kernel."""
    context = _context(info)
    try:
        program = build_text(context, Program(_PROBE, ""))
        with cl.CommandQueue(context) as queue:
            value = np.array([3.0], np.float32)
            buffer = cl.Buffer(context, cl.mem_flags.COPY_HOST_PTR, hostbuf=value)
            cl.Kernel(program, "probe")(queue, (1,), (1,), buffer)
            cl.enqueue_copy(queue, value, buffer)
    except (cl.Error, BuildError):
        return False
    return bool(value[0] == 10.0)


def load_program(info: DeviceInfo, program: Program, binary: bytes) -> Any | None:
    """A program from its binary, without the compiler; None where the driver refuses it."""
    return load_binary(_context(info), binary, program.options)


# Programs that some player holds: the same text is built once, for whatever sizes it runs.
_live: WeakValueDictionary[tuple[DeviceInfo, Program], Any] = WeakValueDictionary()


def live_program(info: DeviceInfo, program: Program) -> Any | None:
    """The program as another player of this process has it; None where none does."""
    return _live.get((info, program))


@cache
def _turns(info: DeviceInfo) -> threading.Lock:
    return threading.Lock()


def turn_of(info: DeviceInfo, plan: Plan) -> AbstractContextManager[object]:
    """What a run must hold. Groups of a persistent kernel wait for each other, so all of them must
    be on the GPU at once: two such kernels could each hold half of it and wait for ever.
    """
    waits = not info.is_cpu and any(launch.stages > 1 for launch in plan.launches)
    return _turns(info) if waits else nullcontext()


class Player:
    """A plan made ready on one device. Not for two threads at once; the session sees to that."""

    def __init__(self, info: DeviceInfo, plan: Plan, program: Any | None = None) -> None:
        self.info, self.plan = info, plan
        self.timings: dict[str, float] = {}
        self._context = _context(info)
        self._queue = cl.CommandQueue(self._context)
        self._turn = turn_of(info, plan)
        started = time.perf_counter()
        program = live_program(info, plan.program) if program is None else program
        self._program = build_text(self._context, plan.program) if program is None else program
        _live[info, plan.program] = self._program
        self.timings["build"] = time.perf_counter() - started
        started = time.perf_counter()
        self._guard("uploading the weights", self._upload)
        self._guard("setting host memory aside", self._stage)
        self._replay = [self._bind(launch) for launch in plan.launches]
        self.timings["upload"] = time.perf_counter() - started

    def _upload(self) -> None:
        flags = cl.mem_flags
        self._buffers = []
        for buffer in self.plan.buffers:
            if buffer.bytes > self.info.max_allocation:
                raise DeviceError(
                    f"buffer '{buffer.name}' needs {buffer.bytes} bytes at once",
                    f"{self.info.name} allows {self.info.max_allocation}",
                    "use precision='mixed', a smaller input shape, or another device",
                )
            if buffer.kind == "constants":
                mode = flags.READ_ONLY | flags.COPY_HOST_PTR
                self._buffers.append(cl.Buffer(self._context, mode, hostbuf=self.plan.constants))
            elif buffer.kind in ("variable", "state"):
                zeros = np.zeros(buffer.bytes, np.uint8)
                mode = flags.READ_WRITE | flags.COPY_HOST_PTR
                self._buffers.append(cl.Buffer(self._context, mode, hostbuf=zeros))
            else:
                size = max(buffer.bytes, 64)
                self._buffers.append(cl.Buffer(self._context, flags.READ_WRITE, size))

    def _stage(self) -> None:
        """Host memory for what goes in and out: see Ports."""
        self._ports = Ports(self._queue, self.info, self.plan, self._buffers)

    def _bind(self, launch: Launch) -> tuple[Any, tuple[int, ...], tuple[int, ...]]:
        """A kernel object of its own for each launch, with every argument set once and for all."""
        kernel = cl.Kernel(self._program, launch.entry)
        position = 0
        for argument in launch.arguments:
            if isinstance(argument, BufferUse):
                kernel.set_arg(position, self._buffers[argument.buffer])
                kernel.set_arg(position + 1, np.int64(argument.offset))
                position += 2
            else:
                kernel.set_arg(position, np.int32(argument))
                position += 1
        return kernel, launch.grid, launch.local

    def run(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The outputs for these inputs, in the order of the plan's ports."""
        results: list[np.ndarray] = self._guard("running the model", lambda: self._run(arrays))
        return results

    def _run(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        queue = self._queue
        with self._turn:
            self._ports.put(arrays)
            for kernel, grid, local in self._replay:
                cl.enqueue_nd_range_kernel(queue, kernel, grid, local)
            return self._ports.take()

    def replay(self) -> None:
        """Run every launch once more on what the device already holds, and wait for it."""
        with self._turn:
            for kernel, grid, local in self._replay:
                cl.enqueue_nd_range_kernel(self._queue, kernel, grid, local)
            self._queue.finish()

    def reset(self) -> None:
        """Set the model's variables back to zero."""
        self._guard("forgetting the state", self._reset)

    def _reset(self) -> None:
        for buffer, handle in self._variables():
            cl.enqueue_fill_buffer(self._queue, handle, np.uint8(0), 0, buffer.bytes)
        self._queue.finish()

    def _variables(self) -> list[tuple[Buffer, Any]]:
        pairs = zip(self.plan.buffers, self._buffers, strict=True)
        return [(buffer, handle) for buffer, handle in pairs if buffer.kind == "variable"]

    @contextmanager
    def _unchanged(self) -> Iterator[None]:
        """Puts variables back to what they were before."""
        saved = [np.empty(buffer.bytes, np.uint8) for buffer, _ in self._variables()]
        for array, (_, handle) in zip(saved, self._variables(), strict=True):
            cl.enqueue_copy(self._queue, array, handle)
        yield
        for array, (_, handle) in zip(saved, self._variables(), strict=True):
            cl.enqueue_copy(self._queue, handle, array)

    def profile(self, arrays: Sequence[np.ndarray], runs: int) -> list[float]:
        """The shortest time of each launch in seconds, by the device's own clock."""
        mode = cl.command_queue_properties.PROFILING_ENABLE
        best = [float("inf")] * len(self._replay)
        properties = {"properties": mode}
        with self._turn, self._unchanged(), cl.CommandQueue(self._context, **properties) as queue:
            for port, array in zip(self.plan.inputs, arrays, strict=True):
                cl.enqueue_copy(queue, self._buffers[port.buffer], array)
            for _ in range(runs):
                events = [cl.enqueue_nd_range_kernel(queue, *item) for item in self._replay]
                queue.finish()
                times = [(event.profile.end - event.profile.start) * 1e-9 for event in events]
                best = [min(pair) for pair in zip(best, times, strict=True)]
        return best

    def binary(self) -> bytes:
        """The program's binary, best asked for after a run: PoCL compiles kernels when they run."""
        return fetch_binary(self._program)

    def poison(self) -> None:
        """Fill arena and outputs with NaN, so that a value nobody wrote is seen in the result."""
        for buffer, handle in zip(self.plan.buffers, self._buffers, strict=True):
            if buffer.kind in ("arena", "output"):
                size = max(buffer.bytes, 64) // 4 * 4
                cl.enqueue_fill_buffer(self._queue, handle, np.uint32(0x7FC07FC0), 0, size)
        self._queue.finish()

    def close(self) -> None:
        """Give the device's memory back."""
        self._replay = []
        self._program = None
        self._ports.close()
        for buffer in self._buffers:
            buffer.release()
        self._buffers = []

    def _guard(self, doing: str, action: Callable[[], Any]) -> Any:
        try:
            return action()
        except (cl.MemoryError, MemoryError) as error:
            needed = sum(buffer.bytes for buffer in self.plan.buffers)
            raise DeviceError(
                f"out of memory while {doing}",
                f"the plan needs {needed} bytes; {self.info.name} has {self.info.memory}",
                "use precision='mixed', a smaller batch, or close other sessions",
            ) from error
        except cl.Error as error:
            fix = "try again; if it stays, try another device or driver"
            raise DeviceError(f"the device failed while {doing}", _reason(error), fix) from error


def _reason(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
