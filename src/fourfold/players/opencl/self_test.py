"""Self-test of an OpenCL device: kernels for each storage type, and one with many branches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from fourfold.device import DeviceInfo
from fourfold.errors import BuildError, DeviceError
from fourfold.kernel.opencl import probes
from fourfold.log import Log
from fourfold.plan import Program
from fourfold.players.opencl import binding as cl
from fourfold.players.opencl.devices import context_of
from fourfold.players.opencl.program import build_text
from fourfold.players.opencl.trials import Facts, Unanswered, succeeds
from fourfold.players.trial_answers import SELF_TEST_SIZES, changed, numbers

log = Log("players.opencl")
_RUNS = 3


class TrialKernels:
    """Probe kernels on one device, by name, and a queue to run them on."""

    def __init__(self, info: DeviceInfo, programs: Mapping[str, Program]) -> None:
        self.context = context_of(info)
        self.queue = cl.Queue(self.context)
        self._programs = programs
        self._all = self._build_all()

    def _build_all(self) -> cl.Program | None:
        """Build all kernels in one program; None if that fails."""
        try:
            return build_text(self.context, probes.joined(self._programs.values()))
        except BuildError as error:  # then build each by itself
            log.debug("probe kernels are built one by one: %s: %s", error.what, error.why)
            return None

    def kernel(self, name: str) -> cl.Kernel:
        """Return one of the kernels; raises a BuildError if it does not build by itself either."""
        program = self._all
        if program is None:
            program = build_text(self.context, self._programs[name])
        return cl.Kernel(program, name)

    def launch(self, kernel: cl.Kernel, items: int) -> None:
        self.queue.replay([self.queue.call(kernel, (items,), (1,))])


def open_kernels(info: DeviceInfo, programs: Mapping[str, Program]) -> TrialKernels:
    """Build probe kernels; errors before any of them runs are not an answer."""
    try:
        return TrialKernels(info, programs)
    except (cl.Error, DeviceError) as error:
        raise Unanswered(str(error)) from error


def try_self_test(info: DeviceInfo, kernels: TrialKernels) -> Facts:
    """Return which of the `SELF_TESTS` fail."""
    wrong = [name for name, trial in _trials(info, kernels) if not succeeds(trial)]
    return {"self_test": ", ".join(wrong)}


def _trials(info: DeviceInfo, kernels: TrialKernels) -> Iterator[tuple[str, Callable[[], bool]]]:
    for name in probes.SELF_TEST:
        yield name, lambda name=name: _computes(kernels, name)  # type: ignore[misc]
    if info.is_discrete:
        yield "staging", lambda: _stages(kernels)


def _computes(kernels: TrialKernels, name: str) -> bool:
    """Return True if arrays copied by the driver have the right results."""
    queue, kernel = kernels.queue, kernels.kernel(name)
    for items in SELF_TEST_SIZES[name]:
        array = numbers(name, items, 0)
        source = cl.Buffer(kernels.context, array.nbytes)
        target = cl.Buffer(kernels.context, array.nbytes)
        set_buffers(kernel, source, target)
        for run in range(_RUNS):
            array, result = numbers(name, items, run), np.zeros_like(array)
            queue.write(source, array, wait=False)
            kernels.launch(kernel, items)
            queue.read(target, result)
            if not np.array_equal(result, changed(array)):
                return False
    return True


def _stages(kernels: TrialKernels) -> bool:
    """Return True if copies from and to mapped host memory are right."""
    queue, kernel, items = kernels.queue, kernels.kernel("floats"), max(SELF_TEST_SIZES["floats"])
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
