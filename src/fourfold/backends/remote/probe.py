"""Probes of a device on another machine, each in a separate process there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from fourfold.backends.connections import ConnectionLost
from fourfold.backends.probe_data import (
    CHUNKS,
    GROUP_SHAPES,
    ITEMS,
    SELF_TEST_SIZES,
    STAGES,
    adds_right,
    chain,
    changed,
    exchanges_right,
    multiplies_right,
    numbers,
    texels,
)
from fourfold.backends.remote.answers import array_in
from fourfold.backends.remote.devices import machine_of
from fourfold.backends.remote.machine import Machine
from fourfold.backends.remote.steps import PlanProcess, StepFailed, send_plan
from fourfold.codegen.c_style.grid_barrier import STATE_WORDS
from fourfold.codegen.opencl import probes
from fourfold.codegen.opencl.claiming import GROUPS_EACH
from fourfold.device import IMAGES, WAITING, DeviceInfo, Fact
from fourfold.errors import BuildError, DeviceError
from fourfold.plan import (
    CONSTANT_ALIGNMENT,
    CONSTANTS,
    Argument,
    Buffer,
    BufferUse,
    Launch,
    Plan,
    Port,
    Program,
)
from fourfold.support.log import Log
from fourfold.types import TensorType

_FIRST = 2  # number of the first buffer after arena and constants
_NOTHING = np.zeros(64, np.uint8)
log = Log("backends.remote")
Facts = Mapping[str, Fact]
_RUNS = 3
_ALIGNMENT = 256  # bytes; alignment of arrays


class KernelCall(NamedTuple):
    """A kernel, its grid, its start in each array in bytes, and additional arguments."""

    entry: str
    grid: tuple[int, ...]
    local: tuple[int, ...]
    starts: tuple[int, ...] = (0,)
    more: tuple[Argument, ...] = ()


class ProbeCall(NamedTuple):
    """Kernels of a program, and the arrays that they read and change."""

    program: Program
    kernels: tuple[KernelCall, ...]
    arrays: tuple[np.ndarray, ...]
    constants: np.ndarray = _NOTHING
    image_texels: int = 0  # maximum, if images are read


def run_probe_plan(
    machine: Machine, device: DeviceInfo, call: ProbeCall, first: Sequence[np.ndarray] = ()
) -> Generator[list[np.ndarray], None, None]:
    """Yield what the arrays hold after the kernels ran: once, or once for each replacement in
    `first` of the first array, in one process.
    """
    limited = device.with_facts({"image_texels": call.image_texels} if call.image_texels else {})
    file = machine.new_name(".fourfold")
    send_plan(machine, file, limited, _plan(call))
    process = PlanProcess(
        machine,
        f"a probe of {call.kernels[0].entry}",
        call.program.text,
        file,
        "--device",
        str(device.ordinal),
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
        piece = array_in(content, array.dtype, array.size, start, machine.link.name)
        results.append(piece.reshape(array.shape))
        start += array.nbytes
    return results


def _plan(call: ProbeCall) -> Plan:
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
    return Launch(call.entry, arguments, call.grid, call.local, call.entry, "probe")


class Unanswered(Exception):
    """A probe could not run: nothing is known from it."""


@dataclass(frozen=True)
class DeviceProbes:
    """The probes of a device, on its machine."""

    machine: Machine
    device: DeviceInfo

    def half(self) -> Facts:
        def computes() -> bool:
            result = self._probe(probes.HALF, np.array([3.0], np.float32), 1)
            return bool(result[0] == 10.0)

        return {"half_arithmetic": succeeds(computes)}

    def dot_products(self) -> Facts:
        """Probe dot products of int8: the claimed instruction, and on a GPU also the extension."""
        claim = str(self.device.claims.get("dot_products", ""))
        names = (claim,) if self.device.is_cpu else (claim, "khr")
        candidates = dict.fromkeys(names) if claim else ()
        return {"dot_products": next((name for name in candidates if self._adds(name)), "")}

    def _adds(self, name: str) -> bool:
        packs, nothing = name == "x86", np.zeros(8, np.float32)
        return succeeds(
            lambda: adds_right(self._probe(probes.dots(name, packs), nothing, 1), packs)
        )

    def subgroups(self) -> Facts:
        claim = str(self.device.claims.get("subgroups", ""))
        return {"subgroups": claim if claim and succeeds(lambda: self._exchanges(claim)) else ""}

    def _exchanges(self, name: str) -> bool:
        program, nothing = probes.exchange(name), np.zeros((ITEMS, 2), np.float32)
        return all(
            exchanges_right(self._probe(program, nothing, *shape), shape[0])
            for shape in GROUP_SHAPES
        )

    def matrix_units(self) -> Facts:
        def multiplies() -> bool:
            return multiplies_right(self._probe(probes.MATRIX, np.zeros(32, np.float32), 32))

        claimed = bool(self.device.claims.get("matrix_units"))
        return {"matrix_units": claimed and succeeds(multiplies)}

    def self_test(self) -> Facts:
        """Return which kernels fail: all in one program, and if that fails each by itself."""
        names = tuple(probes.SELF_TEST)
        if succeeds(lambda: self._changes(names)):
            return {"self_test": ""}
        wrong = [name for name in names if not succeeds(partial(self._changes, (name,)))]
        return {"self_test": ", ".join(wrong)}

    def _changes(self, names: tuple[str, ...]) -> bool:
        """Return True if arrays copied there and back have the right results."""
        parts = [(name, items) for name in names for items in SELF_TEST_SIZES[name]]
        runs = [[numbers(*part, run) for part in parts] for run in range(_RUNS)]
        starts = _offsets(runs[0])
        kernels = tuple(
            KernelCall(name, (items,), (1,), (start, start))
            for (name, items), start in zip(parts, starts, strict=True)
        )
        inputs = [_joined(arrays, starts) for arrays in runs]
        program = probes.joined(probes.SELF_TEST[name] for name in names)
        call = ProbeCall(program, kernels, (inputs[0], np.zeros_like(inputs[0])))
        with closing(run_probe_plan(self.machine, self.device, call, inputs)) as all_results:
            return all(
                np.array_equal(results[1], _joined([changed(one) for one in arrays], starts))
                for arrays, results in zip(runs, all_results, strict=True)
            )

    def forward_progress(self) -> Facts:
        """Probe whether groups that wait for chunks claimed by others finish."""

        def makes_progress() -> bool:
            expected = chain()
            values = np.zeros_like(expected)
            values[0] = expected[0]
            arrays = (np.zeros(2 * STAGES, np.int32), values)
            groups = self.device.compute_units * GROUPS_EACH
            program = probes.CLAIMS["claims"]
            kernel = KernelCall("claims", (groups,), (1,), (0, 0), (STAGES, CHUNKS))
            call = ProbeCall(program, (kernel,), arrays)
            return all(np.array_equal(self._run(call)[1], expected) for _ in range(_RUNS))

        return {"forward_progress": self.device.is_cpu and succeeds(makes_progress)}

    def waiting(self) -> Facts:
        """Probe whether one group per unit is resident. Memory of this host cannot be accessed."""

        def is_resident() -> bool:
            groups = self.device.compute_units
            arrays = (np.zeros(max(STATE_WORDS, 64), np.int32), np.full(groups, -1, np.int32))
            kernel = KernelCall("rounds", (groups * ITEMS,), (ITEMS,), (0, 0))
            result = self._run(ProbeCall(probes.ROUNDS, (kernel,), arrays))[1]
            return np.array_equal(result, np.arange(groups))

        resident = bool(self.device.claims.get("matrix_units")) and succeeds(is_resident)
        return {"resident": resident, "reaches_host": False}

    def images(self) -> Facts:
        """Probe images of buffers, and of windows into them."""
        claimed = int(self.device.claims.get("image_texels", 0))
        works = claimed > 0 and succeeds(lambda: self._reads_images(claimed))
        small_limit = ITEMS + self.device.alignment // 8  # too few to reach the data from the start
        return {
            "image_texels": claimed if works else 0,
            "image_windows": works and succeeds(lambda: self._reads_images(small_limit)),
            "prefers_images": works and bool(self.device.claims.get("prefers_images")),
        }

    def _reads_images(self, limit: int) -> bool:
        floats, halves = texels()
        start = CONSTANT_ALIGNMENT + 4 * self.device.alignment
        pieces = (np.zeros(start, np.uint8), floats.reshape(-1), halves.reshape(-1))
        block = np.concatenate([piece.view(np.uint8) for piece in pieces])
        uses = (
            BufferUse(CONSTANTS, start // 4, TensorType.of(floats)),
            BufferUse(CONSTANTS, (start + floats.nbytes) // 2, TensorType.of(halves)),
        )
        out = np.full((2, ITEMS, 4), np.nan, np.float32)
        kernel = KernelCall("images", (ITEMS,), (1,), more=uses)
        call = ProbeCall(probes.IMAGES, (kernel,), (out,), block, limit)
        result = self._run(call)[0]
        return np.array_equal(result[0], floats) and np.array_equal(result[1], halves)

    def _probe(self, program: Program, values: np.ndarray, *local: int) -> np.ndarray:
        """Run the kernel 'probe' on some values with one work-group."""
        return self._run(ProbeCall(program, (KernelCall("probe", local, local),), (values,)))[0]

    def _run(self, call: ProbeCall) -> list[np.ndarray]:
        with closing(run_probe_plan(self.machine, self.device, call)) as results:
            return next(results)


PROBES: dict[tuple[str, ...], Callable[[DeviceProbes], Facts]] = {
    ("half_arithmetic",): DeviceProbes.half,
    ("dot_products",): DeviceProbes.dot_products,
    ("subgroups",): DeviceProbes.subgroups,
    ("matrix_units",): DeviceProbes.matrix_units,
    ("self_test",): DeviceProbes.self_test,
    ("forward_progress",): DeviceProbes.forward_progress,
    WAITING: DeviceProbes.waiting,
    IMAGES: DeviceProbes.images,
}


def _offsets(arrays: list[np.ndarray]) -> list[int]:
    """Return the offsets of arrays that are stored in one buffer, aligned for any device."""
    starts = [0]
    for array in arrays:
        starts.append(starts[-1] + -(-array.nbytes // _ALIGNMENT) * _ALIGNMENT)
    return starts[:-1]


def _joined(arrays: list[np.ndarray], starts: list[int]) -> np.ndarray:
    joined = np.zeros(starts[-1] + arrays[-1].nbytes, np.uint8)
    for array, start in zip(arrays, starts, strict=True):
        joined[start : start + array.nbytes] = array.view(np.uint8)
    return joined


def probe(device: DeviceInfo, names: Collection[str]) -> dict[str, Fact]:
    """Probe these facts, and related ones. Facts whose probe did not answer are left out, as are
    facts that only a local player uses.
    """
    facts: dict[str, Fact] = {}
    with machine_of(device) as machine:
        device_probes = DeviceProbes(machine, device)
        for fact_names, determine in _requested(names):
            try:
                facts |= determine(device_probes)
            except Unanswered as error:
                log.warn_once(
                    f"a probe of {', '.join(fact_names)} on {device.name} did not answer: {error}"
                )
    return facts


def _requested(
    names: Collection[str],
) -> Iterator[tuple[tuple[str, ...], Callable[[DeviceProbes], Facts]]]:
    return (item for item in PROBES.items() if not set(item[0]).isdisjoint(names))


def succeeds(passes: Callable[[], bool]) -> bool:
    """Return True if a probe passes. A driver that crashes has failed: it is another process."""
    try:
        return passes()
    except BuildError:
        return False
    except StepFailed as error:
        if error.out_of_memory:
            raise Unanswered(str(error)) from error
        return False
    except ConnectionLost:
        raise
    except DeviceError as error:
        raise Unanswered(str(error)) from error
