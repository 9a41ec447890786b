"""The launches of a plan with all that they have bound, and how they are put in for a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from fourfold.plan import BufferUse, Launch, Plan
from fourfold.players.cleanup import cleanup_on_error
from fourfold.players.webgpu import binding as wg
from fourfold.players.webgpu.program import BuiltModule

_WORDS_ALIGNED = 256  # bytes at which the words of a launch may begin, on every device
_WORDS_SIZE = 16  # bytes that they are a multiple of


class Words:
    """The uniform words of all launches in one buffer: for each argument a number, which of a
    buffer is the elements to skip in it.
    """

    def __init__(self, device: wg.Device, launches: Sequence[Launch]) -> None:
        blocks = [
            np.array([_word(one) for one in launch.arguments], np.int64) for launch in launches
        ]
        self._places: list[tuple[int, int]] = []
        at = 0
        for block in blocks:
            size = max(1, -(-4 * block.size // _WORDS_SIZE)) * _WORDS_SIZE
            self._places.append((at, size))
            at += -(-size // _WORDS_ALIGNED) * _WORDS_ALIGNED
        data = np.zeros(max(at, _WORDS_ALIGNED) // 4, np.int32)
        for block, (start, _) in zip(blocks, self._places, strict=True):
            data[start // 4 : start // 4 + block.size] = block.astype(np.int32)
        self._buffer = wg.Buffer(device, data.nbytes, wg.UNIFORM | wg.COPY_TARGET)
        assert self._buffer.pointer is not None
        device.write(self._buffer.pointer, 0, data)

    def bound(self, number: int) -> wg.Bound:
        return wg.Bound(self._buffer, *self._places[number])

    def release(self) -> None:
        self._buffer.release()


def _word(argument: BufferUse | int) -> int:
    return argument.offset if isinstance(argument, BufferUse) else argument


class Launches:
    """Every launch of a plan, bound to the buffers of one run in flight.

    What is bound to none of its own buffers is that of the `first` run.
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
        self._whole: wg.Recording | None = None  # as soon as all pipelines are there
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
        """Some launches, by their numbers; waits for their pipelines."""
        made = wg.Recording()
        for number in launches:
            launch = self._plan.launches[number]
            rest = [1] * (3 - len(launch.grid))
            sizes = zip(launch.grid, launch.local, strict=True)
            groups = [*(size // by for size, by in sizes), *rest]
            made.add(self._modules[launch.entry].pipeline(), self.groups[number], groups)
        return made

    def put(self, device: wg.Device, commands: wg.Commands) -> wg.Commands:
        """All launches. Where a pipeline is not there yet, what comes before it begins meanwhile;
        gives the commands that what follows belongs to.
        """
        if self._whole is None:
            for part in self._parts():
                commands.launch(self.recorded(part))
                if part[-1] + 1 < len(self._plan.launches):
                    commands.submit()
                    commands = wg.Commands(device)
            self._whole = self.recorded(range(len(self._plan.launches)))
        else:
            commands.launch(self._whole)
        return commands

    def _parts(self) -> Iterator[range]:
        """The launches cut where the next pipeline is awaited: each part begins with that."""
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
        self._own, self._whole = [], None
