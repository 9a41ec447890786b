"""Run WGSL plans with wgpu in the simplest form, following docs/internals/wgsl.md only."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from fourfold.backends.null import NULL_GPU
from fourfold.plan import BufferUse, Launch, Plan

try:
    import wgpu
except ImportError:
    wgpu = None

# A device with the default limits of WebGPU, and one with fp16 arithmetic.
LEAST = replace(
    NULL_GPU,
    language="wgsl",
    language_version="1.0",
    local_memory=16384,
    max_allocation=128 << 20,
    alignment=256,
    half_arithmetic=False,
)
HALVES = replace(LEAST, half_arithmetic=True)
_FEATURE = "shader-f16"
# remainders of negative numbers are undefined there; our backend does not use it
_NOT_PLAYED = "OpenGL"


@cache
def find_device() -> Any:
    """Return a device with default limits, and fp16 if supported; None if there is none."""
    every = [] if wgpu is None else wgpu.gpu.enumerate_adapters_sync()
    adapter = next((one for one in every if one.info["backend_type"] != _NOT_PLAYED), None)
    if adapter is None:
        return None
    features = [_FEATURE] if _FEATURE in adapter.features else []
    return adapter.request_device_sync(required_features=features)


def computes_halves() -> bool:
    return _FEATURE in find_device().features


def modules(plan: Plan) -> dict[str, tuple[str, list[str]]]:
    """Return the text and the bindings of each entry point."""
    results = {}
    for text in plan.program.text.split("//# ")[1:]:
        entry, *bindings = text.partition("\n")[0].split()
        results[entry] = (f"//# {text}", bindings)
    return results


class WgpuRun:
    """One run of a plan."""

    def __init__(self, plan: Plan) -> None:
        self._plan, self._device = plan, find_device()
        self._buffers = [self._buffer(number) for number in range(len(plan.buffers))]
        self._modules = modules(plan)
        self._pipelines: dict[str, Any] = {}

    def _buffer(self, number: int) -> Any:
        buffer, usage = self._plan.buffers[number], wgpu.BufferUsage
        size = -(-buffer.allocated // 16) * 16
        memory = np.full(size, 0xFF, np.uint8)
        if buffer.kind == "constants":
            memory[: buffer.bytes] = self._plan.constants_in(buffer)
        elif buffer.kind == "variable":
            memory[: buffer.bytes] = self._plan.start_of(buffer)
        expected = usage.STORAGE | usage.COPY_SRC | usage.COPY_DST
        result = self._device.create_buffer(size=size, usage=expected)
        self._device.queue.write_buffer(result, 0, memory)
        return result

    def play(self, inputs: list[np.ndarray]) -> list[np.ndarray]:
        queue = self._device.queue
        for port, array in zip(self._plan.inputs, inputs, strict=True):
            data = np.ascontiguousarray(array).tobytes()
            queue.write_buffer(self._buffers[port.buffer], 0, data + bytes(-len(data) % 4))
        encoder = self._device.create_command_encoder()
        work = encoder.begin_compute_pass()
        for launch in self._plan.launches:
            self._launch(work, launch)
        work.end()
        queue.submit([encoder.finish()])
        return [self._result(number) for number in range(len(self._plan.outputs))]

    def _result(self, number: int) -> np.ndarray:
        port = self._plan.outputs[number]
        data = self._device.queue.read_buffer(self._buffers[port.buffer])
        flat = np.frombuffer(data, np.uint8)[: port.type.bytes]
        return flat.view(port.type.dtype.numpy).reshape(port.type.shape)

    def _pipeline(self, entry: str) -> Any:
        if entry not in self._pipelines:
            module = self._device.create_shader_module(code=self._modules[entry][0])
            stage = {"module": module, "entry_point": entry}
            result = self._device.create_compute_pipeline(layout=self._layout(entry), compute=stage)
            self._pipelines[entry] = result
        return self._pipelines[entry]

    def _layout(self, entry: str) -> Any:
        types = {"r": "read-only-storage", "w": "storage"}
        kinds = ["uniform", *(types[mark[0]] for mark in self._modules[entry][1])]
        entries = [
            {"binding": number, "visibility": wgpu.ShaderStage.COMPUTE, "buffer": {"type": kind}}
            for number, kind in enumerate(kinds)
        ]
        group = self._device.create_bind_group_layout(entries=entries)
        return self._device.create_pipeline_layout(bind_group_layouts=[group])

    def _launch(self, work: Any, launch: Launch) -> None:
        pipeline = self._pipeline(launch.entry)
        words = [one.offset if isinstance(one, BufferUse) else one for one in launch.arguments]
        usage = wgpu.BufferUsage.UNIFORM | wgpu.BufferUsage.COPY_DST
        sizes = self._device.create_buffer(size=max(16, 4 * len(words)), usage=usage)
        self._device.queue.write_buffer(sizes, 0, np.array(words, np.int32))
        bound = [sizes]
        for mark in self._modules[launch.entry][1]:
            use = launch.arguments[int(mark[1:])]
            assert isinstance(use, BufferUse)
            bound.append(self._buffers[use.buffer])
        entries = [
            {"binding": number, "resource": {"buffer": buffer, "offset": 0, "size": buffer.size}}
            for number, buffer in enumerate(bound)
        ]
        layout = pipeline.get_bind_group_layout(0)
        work.set_pipeline(pipeline)
        work.set_bind_group(0, self._device.create_bind_group(layout=layout, entries=entries))
        pairs = zip(launch.grid, launch.local, strict=True)
        work.dispatch_workgroups(*(count // size for count, size in pairs))


def play_on_wgpu(plan: Plan, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """Return the plan's outputs for these inputs. Unwritten elements are NaN."""
    return WgpuRun(plan).play(inputs)
