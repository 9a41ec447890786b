"""Run probe kernels as a small plan on another machine.

Its files are small, and are removed with their folder.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import NamedTuple

import numpy as np

from fourfold.device import DeviceInfo
from fourfold.plan import Argument, Buffer, BufferUse, Launch, Plan, Port, Program
from fourfold.players.remote.machine import Machine
from fourfold.players.remote.plan_file import send_plan
from fourfold.players.remote.steps import PlanProcess
from fourfold.types import TensorType

_FIRST = 2  # number of the first buffer after arena and constants
_NOTHING = np.zeros(64, np.uint8)


class KernelCall(NamedTuple):
    """A kernel, its grid, its start in each array in bytes, and additional arguments."""

    entry: str
    grid: tuple[int, ...]
    local: tuple[int, ...]
    starts: tuple[int, ...] = (0,)
    more: tuple[Argument, ...] = ()


class TrialCall(NamedTuple):
    """Kernels of a program, and the arrays that they read and change."""

    program: Program
    kernels: tuple[KernelCall, ...]
    arrays: tuple[np.ndarray, ...]
    constants: np.ndarray = _NOTHING
    image_texels: int = 0  # maximum, if images are read


def run_trial(
    machine: Machine, device: DeviceInfo, call: TrialCall, first: Sequence[np.ndarray] = ()
) -> Generator[list[np.ndarray], None, None]:
    """Yield what the arrays hold after the kernels ran: once, or once for each replacement in
    `first` of the first array, in one process.
    """
    limited = device.with_facts({"image_texels": call.image_texels} if call.image_texels else {})
    file = machine.new_name(".fourfold")
    send_plan(machine, file, limited, _plan(call))
    arguments = (file, "--device", str(device.ordinal))
    process = PlanProcess(
        machine, f"a probe of {call.kernels[0].entry}", call.program.text, *arguments
    )
    try:
        for array in first or call.arrays[:1]:
            yield _run(machine, process, (array, *call.arrays[1:]))
    finally:
        process.close()


def _run(machine: Machine, process: PlanProcess, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    for number, array in enumerate(arrays, _FIRST):
        sent = machine.send(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        process.ask(f"fill {number} 0 {sent}")
    process.ask("replay 1")
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
    launches = tuple(_launch(kernel) for kernel in call.kernels)
    return Plan(
        name=call.kernels[0].entry,
        program=call.program,
        buffers=tuple(buffers),
        launches=launches,
        inputs=(),
        outputs=tuple(ports),
        constants=call.constants,
        precision="fp32",
    )


def _launch(call: KernelCall) -> Launch:
    uses = [BufferUse(number, start) for number, start in enumerate(call.starts, _FIRST)]
    arguments = (*uses, *call.more)
    return Launch(call.entry, arguments, call.grid, call.local, call.entry, "trial")
