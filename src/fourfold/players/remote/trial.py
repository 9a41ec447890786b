"""A kernel of a trial as a tiny plan, run on another machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from fourfold.device import DeviceInfo
from fourfold.plan import Argument, Buffer, BufferUse, Launch, Plan, Port, Program
from fourfold.players.remote.machine import Machine
from fourfold.players.remote.plan_file import send_plan
from fourfold.players.remote.steps import PlanProcess
from fourfold.types import TensorType

_FIRST = 2  # the number of the first buffer behind arena and constants
_NOTHING = np.zeros(64, np.uint8)


class TrialCall(NamedTuple):
    """A kernel, the arrays that it reads and changes, what it gets behind them, and how it runs."""

    program: Program
    entry: str
    arrays: tuple[np.ndarray, ...]
    more: tuple[Argument, ...]
    grid: tuple[int, ...]
    local: tuple[int, ...]
    constants: np.ndarray = _NOTHING
    image_texels: int = 0  # at most so many, where it reads images


def run_trial(
    machine: Machine, device: DeviceInfo, call: TrialCall, first: Sequence[np.ndarray] = ()
) -> Iterator[list[np.ndarray]]:
    """What the arrays hold after the kernel ran: once, or once for each of those that take the
    place of the `first`, in one process.
    """
    file = send_plan(machine, device, _plan(call))
    limit = ("--image-texels", str(call.image_texels)) if call.image_texels else ()
    arguments = (file, "--device", str(device.ordinal), *limit)
    process = PlanProcess(machine, f"a trial of {call.entry}", call.program.text, *arguments)
    try:
        for array in first or call.arrays[:1]:
            yield _run(machine, process, (array, *call.arrays[1:]))
    finally:
        process.close()
        machine.remove(file)


def _run(machine: Machine, process: PlanProcess, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    for number, array in enumerate(arrays, _FIRST):
        process.ask(f"fill {number} 0 {machine.send(array.reshape(-1).view(np.uint8).data)}")
    process.ask("play")
    file = machine.new_name()
    for number, array in enumerate(arrays, _FIRST):
        process.ask(f"read {number} 0 {array.nbytes} {file}")
    content, start, results = machine.fetch(file), 0, []
    for array in arrays:
        piece = np.frombuffer(content, array.dtype, array.size, start)
        results.append(piece.reshape(array.shape))
        start += array.nbytes
    return results


def _plan(call: TrialCall) -> Plan:
    buffers = [
        Buffer("arena", "arena", 64),
        Buffer("constants", "constants", call.constants.nbytes),
    ]
    ports = []
    for number, array in enumerate(call.arrays, _FIRST):
        buffers.append(Buffer(f"array{number}", "output", array.nbytes))
        ports.append(Port(f"array{number}", TensorType.of(array), number))
    uses = [BufferUse(number, 0) for number in range(_FIRST, _FIRST + len(call.arrays))]
    arguments = (*uses, *call.more)
    return Plan(
        name=call.entry,
        program=call.program,
        buffers=tuple(buffers),
        launches=(Launch(call.entry, arguments, call.grid, call.local, call.entry, "trial"),),
        inputs=(),
        outputs=tuple(ports),
        constants=call.constants,
        precision="fp32",
    )
