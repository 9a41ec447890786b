"""Launches of a plan with their bindings, and their submission for a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from fourfold.backends.cleanup import cleanup_on_error
from fourfold.backends.webgpu import binding as wg
from fourfold.backends.webgpu.program import BuiltModule
from fourfold.plan import BufferUse, Launch, Plan

_WORDS_ALIGNED = 256  # bytes; alignment of the uniforms of a launch that every device supports
_WORDS_SIZE = 16  # bytes; their size is a multiple of this


class Words:
    """The uniforms of all launches in one buffer: one word per argument, which for a buffer is the
    number of elements to skip.
    """

    def __init__(self, device: wg.Device, launches: Sequence[Launch]) -> None:
        blocks = [
            np.array([_word(one) for one in launch.arguments], np.int64) for launch in launches
        ]
        self._ranges: list[tuple[int, int]] = []
        at = 0
        for block in blocks:
            size = max(1, -(-4 * block.size // _WORDS_SIZE)) * _WORDS_SIZE
            self._ranges.append((at, size))
            at += -(-size // _WORDS_ALIGNED) * _WORDS_ALIGNED
        data = np.zeros(max(at, _WORDS_ALIGNED) // 4, np.int32)
        for block, (start, _) in zip(blocks, self._ranges, strict=True):
            data[start // 4 : start // 4 + block.size] = block.astype(np.int32)
        self._buffer = wg.Buffer(device, data.nbytes, wg.UNIFORM | wg.COPY_TARGET)
        assert self._buffer.pointer is not None
        device.write(self._buffer.pointer, 0, data)

    def bound(self, number: int) -> wg.Bound:
        return wg.Bound(self._buffer, *self._ranges[number])

    def release(self) -> None:
        self._buffer.release()


def _word(argument: BufferUse | int) -> int:
    return argument.offset if isinstance(argument, BufferUse) else argument


class Launches:
    """Every launch of a plan, bound to the buffers of one run in flight.

    Launches that use none of its own buffers share the bind group of the `first` run.
    """

    def __init__(
        self,
        plan: Plan,
        modules: dict[str, BuiltModule],
        words: Words,
        buffers: Sequence[wg.Buffer],
        first: Launches | None = None,
    ) -> None:
        self._plan, self._modules, self._words, self._buffers = plan, modules, words, buffers
        self._own: list[wg.BindGroup] = []
        self._all_launches: wg.Recording | None = None  # set once all pipelines are ready
        with cleanup_on_error(self.release):
            self.groups = [self._group(number, first) for number in range(len(plan.launches))]

    def _group(self, number: int, first: Launches | None) -> wg.BindGroup:
        launch = self._plan.launches[number]
        module = self._modules[launch.entry]
        uses = [launch.arguments[bind.argument] for bind in module.module.binds]
        assert all(isinstance(use, BufferUse) for use in uses), launch
        numbers = [use.buffer for use in uses if isinstance(use, BufferUse)]
        if first is not None and all(self._buffers[n] is first._buffers[n] for n in numbers):
            return first.groups[number]
        buffers = [self._buffers[n] for n in numbers]
        bound = [self._words.bound(number), *(wg.Bound(one, 0, one.size) for one in buffers)]
        self._own.append(wg.BindGroup(module.device, module.layout, bound))
        return self._own[-1]

    def recorded(self, launches: Sequence[int]) -> wg.Recording:
        """Record some launches, by number; waits for their pipelines."""
        recording = wg.Recording()
        for number in launches:
            launch = self._plan.launches[number]
            padding = [1] * (3 - len(launch.grid))
            sizes = zip(launch.grid, launch.local, strict=True)
            groups = [*(size // by for size, by in sizes), *padding]
            recording.add(self._modules[launch.entry].pipeline(), self.groups[number], groups)
        return recording

    def put(self, device: wg.Device, commands: wg.Commands) -> wg.Commands:
        """Submit all launches. If a pipeline is not ready yet, the launches before it start
        meanwhile.

        Returns the commands that subsequent work is added to.
        """
        if self._all_launches is None:
            for part in self._parts():
                commands.launch(self.recorded(part))
                if part[-1] + 1 < len(self._plan.launches):
                    commands.submit()
                    commands = wg.Commands(device)
            self._all_launches = self.recorded(range(len(self._plan.launches)))
        else:
            commands.launch(self._all_launches)
        return commands

    def _parts(self) -> Iterator[range]:
        """Yield ranges of launches whose pipelines are ready, waiting for the first of each."""
        entries = [self._modules[launch.entry] for launch in self._plan.launches]
        start = 0
        while start < len(entries):
            entries[start].pipeline()
            end = start + 1
            while end < len(entries) and entries[end].ready:
                end += 1
            yield range(start, end)
            start = end

    def release(self) -> None:
        for group in self._own:
            group.release()
        self._own, self._all_launches = [], None
