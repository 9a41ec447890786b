"""The data of a report: plain records, written to JSON with a version number, and read again."""

from __future__ import annotations

from dataclasses import dataclass

VERSION = 1


@dataclass(frozen=True)
class RunSubject:
    """What was run, on what, by whom, when."""

    model: str
    model_bytes: int | None
    fourfold: str
    made: str  # date and time, ISO 8601
    device: str
    device_kind: str  # as people call it: 'GPU', 'CPU under OpenCL', 'CPU'
    driver: str
    api: str
    precision: str
    placement: str  # what was asked for
    origin: str  # where the plan came from: 'file', 'store' or 'model'
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    data: str  # what the inputs held, in words


@dataclass(frozen=True)
class RunTimes:
    """Seconds of whole runs, arrays to arrays, and the parts of the shortest where these are
    known.
    """

    median: float
    shortest: float
    p90: float
    runs: int
    upload: float | None = None
    kernels: float | None = None
    download: float | None = None
    host: float | None = None


@dataclass(frozen=True)
class RunPart:
    """Neighbouring operators in one place; seconds are estimates."""

    target: str
    operators: int
    seconds: float
    transfer: float


@dataclass(frozen=True)
class RunOperator:
    """An operator of the model's file that a node stands for, and where it runs and why."""

    name: str
    op: str
    target: str
    reason: str
    seconds: float  # an estimate


@dataclass(frozen=True)
class RunTensor:
    """A value that a node reads or writes: a constant, or one that another node made."""

    name: str
    type: str
    constant: bool = False


@dataclass(frozen=True)
class TimedCandidate:
    """One way to run a node, and how long that took when it was timed alone."""

    way: str
    seconds: float


@dataclass(frozen=True)
class NodeTuning:
    """How a node is run and what is known of other ways: how many tuning looked at, the time it
    kept, and the candidates that were timed for this report.
    """

    way: str
    tuned: bool
    looked_at: int | None = None
    kept_seconds: float | None = None
    candidates: tuple[TimedCandidate, ...] = ()


@dataclass(frozen=True)
class ValueAccuracy:
    """How far a node's result is from the reference's, relative to its range."""

    largest: float | None  # None where it is infinite or not a number
    mean: float | None
    allowed: float
    verdict: str
    agrees: bool


@dataclass(frozen=True)
class RunNode:
    """A node of the graph as it ran, where the page draws it, and what is known of it.

    `flops` are operations as the model defines them; `seconds` are measured, and None where
    nobody measured them.
    """

    name: str
    op: str
    text: str
    target: str
    part: int
    x: float
    y: float
    width: float
    attributes: tuple[tuple[str, str], ...] = ()
    reads: tuple[RunTensor, ...] = ()
    writes: tuple[RunTensor, ...] = ()
    operators: tuple[RunOperator, ...] = ()
    kernels: tuple[int, ...] = ()  # their numbers
    seconds: float | None = None
    flops: float = 0.0
    bytes: int = 0
    tuning: NodeTuning | None = None
    accuracy: ValueAccuracy | None = None


@dataclass(frozen=True)
class RunEdge:
    """A value on its way from a node to another, by the points through which it is drawn."""

    source: int
    target: int
    value: str
    type: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class RunKernel:
    """A launch, or a stage of the only one, in the order in which they run."""

    entry: str
    node: int
    grid: tuple[int, ...]
    local: tuple[int, ...]
    bytes_read: int
    bytes_written: int
    text: str  # its name among the texts
    seconds: float | None = None
    waiting: float | None = None  # of a stage: how long groups waited for others, on average


@dataclass(frozen=True)
class DeviceCeilings:
    """What the device can do at most in a second, as a short probe measured it."""

    flops: float
    bytes: float  # of memory that is too large for caches
    cached_bytes: float  # of memory that is not


@dataclass(frozen=True)
class RunSpan:
    """Where a value lies in the arena, and from which step to which."""

    name: str
    offset: int
    bytes: int
    first: int
    last: int


@dataclass(frozen=True)
class RunArena:
    """The memory that values of one part share over a run."""

    part: int
    bytes: int
    steps: int
    spans: tuple[RunSpan, ...]


@dataclass(frozen=True)
class RunMemory:
    """Bytes on the device by what they are for, and the arenas as far as they are known."""

    weights: int
    arena: int
    inputs: int
    outputs: int
    states: int
    arenas: tuple[RunArena, ...]
    note: str = ""


@dataclass(frozen=True)
class AdviceItem:
    """One thing that could be better, and about what it costs in a run."""

    kind: str
    nodes: tuple[str, ...]
    seconds: float
    text: str


@dataclass(frozen=True)
class AccuracySummary:
    """What the values were compared with, and how that went."""

    engine: str
    agrees: bool
    first: tuple[str, str, str] | None  # to differ: its op, its name, its verdict
    layers: int
    agreeing: int
    outputs: tuple[tuple[str, ValueAccuracy], ...]


@dataclass(frozen=True)
class RunRecord:
    """All that a report shows of one run. `texts` are kernel texts by name; `notes` say what could
    not be told, and why.
    """

    version: int
    subject: RunSubject
    times: RunTimes
    start: tuple[tuple[str, float], ...]
    summary: str
    parts: tuple[RunPart, ...]
    nodes: tuple[RunNode, ...]
    edges: tuple[RunEdge, ...]
    kernels: tuple[RunKernel, ...]
    texts: dict[str, str]
    launches: int
    form: str  # what was timed: 'launches', 'stages' of one, or a 'list' made for the purpose
    ceilings: DeviceCeilings | None
    memory: RunMemory
    advice: tuple[AdviceItem, ...]
    accuracy: AccuracySummary | None
    notes: tuple[str, ...]
