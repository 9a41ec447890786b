"""Interfaces of all GPU backends: a backend lists devices and creates players, which run plans."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from fourfold.device import DeviceInfo, Fact
from fourfold.plan import Plan, Port, Program
from fourfold.types import DType

if TYPE_CHECKING:
    from fourfold.support.trace import Trace

BuiltProgram = object  # a program of one API; only its backend looks inside

Into = Sequence[np.ndarray | None]  # where each output goes; None: not requested
Outputs = list[Any]  # arrays, with None for outputs that were not requested


# Checks whether an imported object still has the same memory, faster than importing it again; None
# if there is no such check.
SameMemory = Callable[[Any], bool]


class DeviceMemory(Protocol):
    """Memory of a device. `shape` and `dtype` are set if its owner reported them."""

    size: int
    shape: tuple[int, ...] | None
    dtype: np.dtype | None

    host: np.ndarray | None  # its bytes, if the host can access them at all times
    read_only: bool  # whether its owner forbids writing
    dlpack_device: tuple[int, int]  # DLPack's device type, and the device's number
    is_same: SameMemory | None

    @property
    def handle(self) -> int:
        """Handle of the API: a cl_mem, an address."""

    @property
    def place(self) -> tuple[int, int]:
        """Handle of the allocation that it is a part of, and its offset there in bytes."""

    def read(self, array: np.ndarray) -> None:
        """Copy its beginning to the host."""

    def write(self, array: np.ndarray) -> None:
        """Copy an array into its beginning."""


def overlap(first: DeviceMemory, first_size: int, second: DeviceMemory, second_size: int) -> bool:
    """Return True if the first bytes of one memory overlap the first bytes of another."""
    (one, start), (other, second_start) = first.place, second.place
    apart = start + first_size <= second_start or second_start + second_size <= start
    return one == other and not apart


def overwrites_input(
    port: Port, target: DeviceMemory, sources: Sequence[tuple[Port, DeviceMemory]]
) -> bool:
    """Return True if an output would overwrite memory that kernels still read inputs from."""
    sizes = ((memory, source.type.bytes) for source, memory in sources)
    return any(overlap(target, port.type.bytes, *one) for one in sizes)


class Slot(Protocol):
    """One run in flight. `inputs` and `outputs` are host memory in the order of the plan's ports;
    they must not be touched between `begin` and `end`.
    """

    @property
    def inputs(self) -> Sequence[np.ndarray]: ...

    @property
    def outputs(self) -> Sequence[np.ndarray]: ...

    def begin(self, arrays: Sequence[np.ndarray | None], spin: bool = False) -> None:
        """Submit a run with copies of these inputs; None uses the content of `inputs`.

        Pass `spin` if `end` will be called with it: the driver then need not watch the run.
        """

    @property
    def done(self) -> bool:
        """Return True if the run has ended, without waiting."""

    def end(self, spin: bool = False) -> Sequence[np.ndarray]:
        """Wait for the run and return `outputs`. A sole waiter may `spin`, which has the lowest
        latency.
        """

    def close(self) -> None:
        """Release it after the run has ended."""


class BoundRun(Protocol):
    """A run between device memory that the caller owns: the caller guarantees that it
    still exists.
    """

    def play(self) -> bool:
        """Run and wait; False if the player must create the bound run again."""


class Player(Protocol):
    """A plan ready to run on one device. Not thread-safe; the session serializes calls."""

    @property
    def plan(self) -> Plan: ...

    @property
    def timings(self) -> dict[str, float]:
        """Seconds spent in 'build' and 'upload'."""

    def run(self, arrays: Sequence[np.ndarray], into: Into | None = None) -> Outputs:
        """Return the outputs for these inputs, in the order of the plan's ports.

        They are new arrays, or the arrays in `into`; an output that is None there is not downloaded
        and is None in the result.
        """

    def run_bound(self, arrays: Sequence[Any], into: Sequence[Any] | None = None) -> Outputs:
        """Like `run`, but inputs and targets may be `DeviceMemory`."""

    def bound_run(self, arrays: Sequence[Any], into: Sequence[Any]) -> BoundRun | None:
        """Return a reusable form of `run_bound` for `DeviceMemory` only; None if it would not be
        faster.
        """

    def open_slot(self, staged: bool = True) -> Slot | None:
        """Allocate memory for one more run in flight; None if a player supports only one run at a
        time.

        `staged` inputs are uploaded while other runs execute; otherwise the first kernel may read
        them from host memory itself, which has the lowest latency.
        """

    def replay(self) -> None:
        """Run all launches again on the data already on the device, and wait."""

    def replay_seconds(self, runs: int) -> list[float]:
        """Return the seconds of each of several replays, measured on the device's machine."""

    def run_seconds(self, arrays: Sequence[np.ndarray], runs: int) -> list[float]:
        """Return the seconds of each of several runs, from and to arrays on the
        device's machine.
        """

    def reset(self) -> None:
        """Reset the model's variables to their initial values."""

    def profile(self, arrays: Sequence[Any], runs: int) -> list[float]:
        """Return the shortest time of each launch in seconds, by the device's clock. Inputs may be
        device memory.
        """

    def binary(self) -> bytes:
        """Return the program's binary; a DeviceError if the driver provides none."""

    def poison(self) -> None:
        """Fill arena and outputs with NaN, so that unwritten values show up in the result."""

    def close(self) -> None:
        """Free the device's memory."""


class ClockedPlayer(Player, Protocol):
    """A player of a plan whose stages record their times; see `plan.stage_clocks`."""

    def read_clocks(self) -> np.ndarray:
        """Return what each work-group recorded in the last run, as rows of 64-bit numbers."""


class LaunchOutput(NamedTuple):
    """Launches of a plan, and the part of the arena that they write."""

    launches: range
    offset: int
    dtype: DType
    elements: int


class OutputDifference(NamedTuple):
    """Difference between an output and its expected values: whether non-finite values differ, the
    largest difference of the finite ones, and the largest expected value.
    """

    in_nans: bool
    largest: float
    scale: float


class LaunchTimer(Protocol):
    """Runs the launches of a plan one by one, for tuning. Buffer 0 is the arena."""

    def fill(self, values: np.ndarray) -> None:
        """Copy these bytes into the arena."""

    def blank(self, offset: int, size: int) -> None:
        """Fill a part of the arena with NaN, so that unwritten values show up."""

    def read(self, offset: int, dtype: np.dtype, count: int) -> np.ndarray:
        """Return elements of the arena."""

    def seconds(self, launches: range, runs: int) -> float:
        """Return the shortest time of these launches; raises a DeviceError if one cannot run."""

    def seconds_of_all(self, all_launches: Sequence[range], runs: int) -> list[float]:
        """Return the shortest time of each of many ranges of launches."""

    def differences(self, all_written: Sequence[LaunchOutput]) -> list[OutputDifference | None]:
        """Compare what each of these launches writes with what the first one writes; None for
        launches that cannot run. Raises a DeviceError if the first one cannot run.
        """

    def close(self) -> None:
        """Free the device's memory."""


class Backend(Protocol):
    """One GPU API: its devices, and programs and players on them.

    A backend is a subclass that overrides what its API supports; the defaults mean 'not supported'.
    """

    name: str
    # Whether its devices are used only if no listed backend has any.
    last_resort: bool = False
    # Whether programs have binaries; otherwise a cached plan is built from its text.
    has_binaries: bool = True
    # Whether players build programs quickly for the first run; `build_binary` then takes longer,
    # and its result runs faster.
    quick_builds: bool = False
    platforms: tuple[str, ...] = ()  # names that also select its devices: 'vulkan:0'

    @property
    def listed(self) -> bool:
        """Whether its devices are listed without asking for the API by name."""

    def devices(self) -> Sequence[DeviceInfo]:
        """Return the devices as described by drivers; empty, or a DeviceError, if the API is
        unavailable.
        """

    def reach(self, name: str) -> DeviceInfo | None:
        """Return a device of another machine, by serial number or host name; None if the API only
        has local devices.
        """
        return None

    def find_board(self, name: str, units: int | None) -> DeviceInfo | None:
        """Return a device to compile for that need not be attached, such as 'sm_87', with this many
        compute units; None if the name is not such a board.
        """
        return None

    def with_threads(self, device: DeviceInfo, threads: int) -> DeviceInfo | None:
        """Return the CPU limited to this many cores; None if the driver always uses all of them."""
        return None

    def context_handle(self, device: DeviceInfo) -> int:
        """Return the API's handle of the context that all sessions on a device share; 0 if none."""
        return 0

    def shared_device(self, given: object) -> DeviceInfo | None:
        """Return the device of a caller's context, queue or stream, which sessions share; None if
        it does not belong to this API.
        """
        return None

    def probe(self, device: DeviceInfo, names: Collection[str]) -> Mapping[str, Fact]:
        """Probe these facts, and related ones. Facts whose probe hung or crashed are left out: they
        remain unknown.
        """

    def begin_probe(self, device: DeviceInfo, names: Collection[str]) -> None:
        """Start probes of these facts that run in another process, if there are any."""
        return

    def start_compiler(self, device: DeviceInfo) -> None:
        """Start a slow compiler in the background while a plan is compiled. Raises a DeviceError if
        kernels need a compiler outside the driver and none supports the device.
        """
        return

    def live_program(self, device: DeviceInfo, program: Program) -> BuiltProgram | None:
        """Return the program if another player of this process has it loaded."""
        return None

    def load_program(
        self, device: DeviceInfo, program: Program, binary: bytes
    ) -> BuiltProgram | None:
        """Load a program from its binary, without the compiler; None if the driver rejects it."""
        return None

    def binaries_are_cheap(self, device: DeviceInfo) -> bool:
        """Return True if getting a program's binary after a build costs no time."""
        return False

    def is_quick_build(self, binary: bytes) -> bool:
        """Return True if the binary was built quickly for a first run."""
        return False

    def build_binary(self, device: DeviceInfo, program: Program) -> bytes:
        """Return a binary for `load_program`, built by the compiler alone: the device need not be
        attached. Empty if programs have no binary.
        """

    def make_player(
        self, device: DeviceInfo, plan: Plan, program: BuiltProgram | None = None
    ) -> Player:
        """Create a player of the plan; builds the program if none is given."""

    def make_clocked_player(self, device: DeviceInfo, plan: Plan) -> Player | None:
        """Create a `ClockedPlayer` of a plan with clocks; None if the API does not support it."""
        return None

    def make_traced_player(self, device: DeviceInfo, plan: Plan, trace: Trace) -> Player | None:
        """Create a `TracedPlayer` of the plan; None if the API does not support it."""
        return None

    def make_memory(self, device: DeviceInfo, size: int) -> DeviceMemory:
        """Allocate device memory of this many bytes."""

    def import_memory(self, device: DeviceInfo, given: Any) -> DeviceMemory | None:
        """Return the device memory behind an object of the caller; None if it has none."""
        return None

    def make_timer(self, device: DeviceInfo, plan: Plan) -> LaunchTimer:
        """Create a timer for the plan's launches."""
