"""What is known of every GPU API: a back end lists devices and makes players, a player plays."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from fourfold.device import DeviceInfo, Fact
from fourfold.plan import Plan, Port, Program
from fourfold.types import DType

if TYPE_CHECKING:
    from fourfold.trace import Trace

BuiltProgram = object  # a program as one API holds it; only its back end looks inside

Into = Sequence[np.ndarray | None]  # for each output where it goes; None: nobody wants it
Outputs = list[Any]  # arrays, with None where nobody wants one


# Says of what memory was imported from whether it is still that memory, in less time than importing
# it takes; None where nothing does.
SameMemory = Callable[[Any], bool]


class DeviceMemory(Protocol):
    """Some memory of a device. `shape` and `dtype` are known where its owner told them."""

    size: int
    shape: tuple[int, ...] | None
    dtype: np.dtype | None

    host: np.ndarray | None  # its bytes, where the host sees them at all times
    read_only: bool  # whether its owner lets nobody write there
    dlpack_device: tuple[int, int]  # what DLPack calls the device, and its number
    is_same: SameMemory | None

    @property
    def handle(self) -> int:
        """What the API knows it by: a cl_mem, an address."""

    @property
    def place(self) -> tuple[int, int]:
        """The handle of the memory that it is a part of, and the byte of that where it begins."""

    def read(self, array: np.ndarray) -> None:
        """Copy its beginning to the host."""

    def write(self, array: np.ndarray) -> None:
        """Copy an array into its beginning."""


def overlap(first: DeviceMemory, first_size: int, second: DeviceMemory, second_size: int) -> bool:
    """Whether the first bytes of one memory are among the first bytes of another."""
    (one, start), (other, second_start) = first.place, second.place
    apart = start + first_size <= second_start or second_start + second_size <= start
    return one == other and not apart


def is_read(port: Port, target: DeviceMemory, sources: Sequence[tuple[Port, DeviceMemory]]) -> bool:
    """Whether an output would be written to memory that kernels still read inputs from."""
    sizes = ((memory, source.type.bytes) for source, memory in sources)
    return any(overlap(target, port.type.bytes, *one) for one in sizes)


class Slot(Protocol):
    """One run in flight. `inputs` and `outputs` are the host's memory of what goes in and out, in
    the order of the plan's ports; nobody touches them from `begin` until `end`.
    """

    @property
    def inputs(self) -> Sequence[np.ndarray]: ...

    @property
    def outputs(self) -> Sequence[np.ndarray]: ...

    def begin(self, arrays: Sequence[np.ndarray | None], spin: bool = False) -> None:
        """Put in a run with copies of these inputs; for None it is what `inputs` has. Who will
        `spin` until it ends says so: then the driver need not watch it.
        """

    @property
    def done(self) -> bool:
        """Whether the run has ended, without waiting for it."""

    def end(self, spin: bool = False) -> Sequence[np.ndarray]:
        """Wait for the run; gives `outputs`. Who alone waits may `spin`, which is soonest."""

    def close(self) -> None:
        """Let go of it, after the run has ended."""


class BoundRun(Protocol):
    """A run from memory of the device to memory of the device, none of which it holds: who plays it
    knows that it is still there.
    """

    def play(self) -> bool:
        """Play it and wait for it; False where the player has to be asked for it anew."""


class Player(Protocol):
    """A plan made ready on one device. Not for two threads at once; the session sees to that."""

    @property
    def plan(self) -> Plan: ...

    @property
    def timings(self) -> dict[str, float]:
        """Seconds that 'build' and 'upload' took."""

    def run(self, arrays: Sequence[np.ndarray], into: Into | None = None) -> Outputs:
        """The outputs for these inputs, in the order of the plan's ports: as new arrays, or `into`
        those that are given; what is None there is left where it is, and None in the result.
        """

    def run_bound(self, arrays: Sequence[Any], into: Sequence[Any] | None = None) -> Outputs:
        """As `run`, with `DeviceMemory` among the inputs, or among what is written into."""

    def bound_run(self, arrays: Sequence[Any], into: Sequence[Any]) -> BoundRun | None:
        """What `run_bound` would play with `DeviceMemory` alone, to be played again; None where
        that is no shorter.
        """

    def open_slot(self, staged: bool = True) -> Slot | None:
        """Memory for one more run in flight; None where a player has one run at a time.

        What is `staged` is brought to the device while other runs are still played; else the first
        kernel may fetch it from the host's memory by itself, which is soonest there.
        """

    def replay(self) -> None:
        """Run every launch once more on what the device already holds, and wait for it."""

    def replay_seconds(self, runs: int) -> list[float]:
        """How long `replay` takes, so many times, by the clock of the device's own machine."""

    def run_seconds(self, arrays: Sequence[np.ndarray], runs: int) -> list[float]:
        """The same of `run`, from arrays of that machine to arrays of it."""

    def reset(self) -> None:
        """Set the model's variables back to what they began with."""

    def profile(self, arrays: Sequence[Any], runs: int) -> list[float]:
        """The shortest time of each launch in seconds, by the device's own clock. Inputs may be
        memory of the device.
        """

    def binary(self) -> bytes:
        """The program's binary; a DeviceError where the driver gives none."""

    def poison(self) -> None:
        """Fill arena and outputs with NaN, so that a value nobody wrote is seen in the result."""

    def close(self) -> None:
        """Give the device's memory back."""


class ClockedPlayer(Player, Protocol):
    """A player of a plan whose stages note their times; see `plan.stage_clocks`."""

    def read_clocks(self) -> np.ndarray:
        """What each group noted in the last run, as rows of 64-bit numbers."""


class LaunchOutput(NamedTuple):
    """Launches of a plan, and the part of the arena that they write."""

    launches: range
    offset: int
    dtype: DType
    elements: int


class OutputDifference(NamedTuple):
    """How far numbers are from those that are expected: whether what is no number differs, the
    largest difference of the others, and the largest of what is expected.
    """

    in_nans: bool
    largest: float
    scale: float


class LaunchTimer(Protocol):
    """A plan whose launches are run one by one, for tuning. Buffer 0 is the arena."""

    def fill(self, values: np.ndarray) -> None:
        """Put these bytes into the arena."""

    def blank(self, offset: int, size: int) -> None:
        """Make a part of the arena NaN, so that what is not written shows."""

    def read(self, offset: int, dtype: np.dtype, count: int) -> np.ndarray:
        """Elements of the arena."""

    def seconds(self, launches: range, runs: int) -> float:
        """The shortest time of these launches; a DeviceError where one of them cannot run."""

    def seconds_of_all(self, all_launches: Sequence[range], runs: int) -> list[float]:
        """The same for many at once."""

    def differences(self, all_written: Sequence[LaunchOutput]) -> list[OutputDifference | None]:
        """How far what each of these writes is from what the first one does; None where launches
        cannot run, and a DeviceError where those of the first cannot.
        """

    def close(self) -> None:
        """Give the device's memory back."""


class Backend(Protocol):
    """One GPU API: its devices with their facts, and programs and players on them. A back end is a
    class of this one, and leaves out what its API has nothing of: the answer is None then, or what
    stands here.
    """

    name: str
    # Whether its devices are offered where no back end that is listed has any.
    last_resort: bool = False
    has_binaries: bool = True  # whether programs have any: else a kept plan is played by its text
    # Whether players build programs for a quick first run; `build_binary` takes longer, and what it
    # gives runs faster.
    quick_builds: bool = False
    platforms: tuple[str, ...] = ()  # by which its devices can be asked for, too: 'vulkan:0'

    @property
    def listed(self) -> bool:
        """Whether its devices are offered to those who did not ask for it by name."""

    def devices(self) -> Sequence[DeviceInfo]:
        """Its devices as drivers describe them; none, or a DeviceError, where the API is absent."""

    def reach(self, name: str) -> DeviceInfo | None:
        """A device of another machine, by what that is called: a serial number, a host; None where
        the API has devices of this machine alone.
        """
        return None

    def find_board(self, name: str, units: int | None) -> DeviceInfo | None:
        """A device that need not be there, for those who only prepare: 'sm_87', with so many units;
        None where the name is none of such a board.
        """
        return None

    def with_threads(self, device: DeviceInfo, threads: int) -> DeviceInfo | None:
        """A processor of which no more than so many cores are used; None where the driver takes all
        of them.
        """
        return None

    def context_handle(self, device: DeviceInfo) -> int:
        """The context of all sessions on a device, as the API knows it; 0 where there is none."""
        return 0

    def shared_device(self, given: object) -> DeviceInfo | None:
        """The device of a context, queue or stream of the caller's, on which sessions share it;
        None where it is nothing of this API.
        """
        return None

    def probe(self, device: DeviceInfo, names: Collection[str]) -> Mapping[str, Fact]:
        """What trials tell of these probed facts, and of others that go with them. One that a trial
        did not answer, because it hung or died, is left out: it is no fact.
        """

    def begin_probe(self, device: DeviceInfo, names: Collection[str]) -> None:
        """Let trials of these facts begin that run beside this process, if there are such."""
        return

    def start_compiler(self, device: DeviceInfo) -> None:
        """Let a compiler that is slow to begin do so, while a plan is made; a DeviceError where
        kernels need one beside the driver, and there is none for the device.
        """
        return

    def live_program(self, device: DeviceInfo, program: Program) -> BuiltProgram | None:
        """The program as another player of this process holds it."""
        return None

    def load_program(
        self, device: DeviceInfo, program: Program, binary: bytes
    ) -> BuiltProgram | None:
        """The program from its binary, without the compiler; None where the driver refuses it."""
        return None

    def binaries_are_cheap(self, device: DeviceInfo) -> bool:
        """Whether the driver has a program's binary at hand once it is built."""
        return False

    def is_quick_build(self, binary: bytes) -> bool:
        """Whether a player built this, for a quick first run."""
        return False

    def build_binary(self, device: DeviceInfo, program: Program) -> bytes:
        """What `load_program` takes, by the compiler alone: the device need not be there; nothing
        where programs have no binary.
        """

    def make_player(
        self, device: DeviceInfo, plan: Plan, program: BuiltProgram | None = None
    ) -> Player:
        """A player of the plan; builds the program where none is given."""

    def make_clocked_player(self, device: DeviceInfo, plan: Plan) -> Player | None:
        """A `ClockedPlayer` of a plan with clocks; None where the API has none."""
        return None

    def make_traced_player(self, device: DeviceInfo, plan: Plan, trace: Trace) -> Player | None:
        """A `TracedPlayer` of the plan; None where the API has none."""
        return None

    def make_memory(self, device: DeviceInfo, size: int) -> DeviceMemory:
        """So many bytes of a device's memory."""

    def import_memory(self, device: DeviceInfo, given: Any) -> DeviceMemory | None:
        """The device's memory behind what a caller has; None where that is nothing of the kind."""
        return None

    def make_timer(self, device: DeviceInfo, plan: Plan) -> LaunchTimer:
        """The plan, to be timed launch by launch."""
