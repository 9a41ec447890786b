"""Whether a device computes right by what OpenCL promises: kernels of each storage, in each way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from fourfold.device import DeviceInfo
from fourfold.errors import BuildError, DeviceError
from fourfold.kernel.opencl import probes
from fourfold.plan import Program
from fourfold.players.opencl import binding as cl
from fourfold.players.opencl.devices import context_of
from fourfold.players.opencl.program import build_text
from fourfold.players.opencl.trials import Facts, Unanswered, succeeds

SIZES = (1, 7, 4096)  # work-items
_LEFT_OVER = {"floats": 4, "halves": 5, "bytes": 5}  # numbers of a work-item, those behind included
_TYPES = {"floats": np.float32, "halves": np.float16, "bytes": np.uint8}
_MOST = 80  # three times it and one more fit into a byte, and are exact as a half
_RUNS = 3


class TrialKernels:
    """The kernels of some trials on one device, by name, and a queue to run them on."""

    def __init__(self, info: DeviceInfo, programs: Mapping[str, Program]) -> None:
        self.context = context_of(info)
        self.queue = cl.Queue(self.context)
        self._programs = programs
        self._all = self._build_all()

    def _build_all(self) -> cl.Program | None:
        """All in one program; None where that does not build."""
        try:
            return build_text(self.context, probes.joined(self._programs.values()))
        except BuildError:
            return None

    def kernel(self, name: str) -> cl.Kernel:
        """One of the kernels; a BuildError where it does not build by itself, either."""
        program = self._all
        if program is None:
            program = build_text(self.context, self._programs[name])
        return cl.Kernel(program, name)

    def launch(self, kernel: cl.Kernel, items: int) -> None:
        self.queue.replay([self.queue.call(kernel, (items,), (1,))])


def open_kernels(info: DeviceInfo, programs: Mapping[str, Program]) -> TrialKernels:
    """Kernels on a device; what goes wrong before any of them runs is no answer."""
    try:
        return TrialKernels(info, programs)
    except (cl.Error, DeviceError) as error:
        raise Unanswered(str(error)) from error


def numbers(storage: str, items: int, seed: int) -> np.ndarray:
    """Some numbers for so many work-items."""
    count = items * _LEFT_OVER[storage]
    return np.random.default_rng(seed).integers(0, _MOST, count).astype(_TYPES[storage])


def changed(array: np.ndarray) -> np.ndarray:
    """What the kernels make of numbers."""
    return (array * 3 + 1).astype(array.dtype)


def try_self_test(info: DeviceInfo, kernels: TrialKernels) -> Facts:
    """Which of the `SELF_TESTS` do not come out right."""
    wrong = [name for name, trial in _trials(info, kernels) if not succeeds(trial)]
    return {"self_test": ", ".join(wrong)}


def _trials(info: DeviceInfo, kernels: TrialKernels) -> Iterator[tuple[str, Callable[[], bool]]]:
    for storage in probes.STORAGES:
        yield storage, lambda storage=storage: _computes(kernels, storage)  # type: ignore[misc]
    if info.is_discrete:
        yield "staging", lambda: _stages(kernels)


def _computes(kernels: TrialKernels, storage: str) -> bool:
    """Whether arrays that the driver copies there and back come out as they should."""
    queue, kernel = kernels.queue, kernels.kernel(storage)
    for items in SIZES:
        array = numbers(storage, items, 0)
        source = cl.Buffer(kernels.context, array.nbytes)
        target = cl.Buffer(kernels.context, array.nbytes)
        set_buffers(kernel, source, target)
        for run in range(_RUNS):
            array, result = numbers(storage, items, run), np.zeros_like(array)
            queue.write(source, array, wait=False)
            kernels.launch(kernel, items)
            queue.read(target, result)
            if not np.array_equal(result, changed(array)):
                return False
    return True


def _stages(kernels: TrialKernels) -> bool:
    """Whether copies from and to mapped host memory, which kernels do not know of, are right."""
    queue, kernel, items = kernels.queue, kernels.kernel("floats"), max(SIZES)
    size = numbers("floats", items, 0).nbytes
    source, target = cl.Buffer(kernels.context, size), cl.Buffer(kernels.context, size)
    pinned = [cl.Buffer(kernels.context, size, host=True) for _ in range(2)]
    memories = [queue.map(buffer, size) for buffer in pinned]
    before, after = (np.frombuffer(memory, np.float32) for memory in memories)
    set_buffers(kernel, source, target)
    right = True
    for run in range(_RUNS):
        before[:] = numbers("floats", items, run)
        queue.write(source, before, wait=False)
        kernels.launch(kernel, items)
        queue.read(target, after, wait=False)
        queue.finish()
        right = right and np.array_equal(after, changed(before))
    for buffer, memory in zip(pinned, memories, strict=True):
        queue.unmap(buffer, memory)
    queue.finish()
    return right


def set_buffers(kernel: cl.Kernel, source: cl.Buffer, target: cl.Buffer) -> None:
    """Let a kernel read and write two buffers from their starts."""
    for position, buffer in ((0, source), (2, target)):
        kernel.set_buffer(position, buffer)
        kernel.set_long(position + 1, 0)
