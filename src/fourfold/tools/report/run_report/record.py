"""Records of the data of a report, which are written to JSON with a version number."""

from __future__ import annotations

from dataclasses import dataclass

VERSION = 1


@dataclass(frozen=True)
class RunSubject:
    """The model, the device, the options and the time of a run."""

    model: str
    model_bytes: int | None
    fourfold: str
    made: str  # date and time, ISO 8601
    device: str
    device_kind: str  # for people, such as 'GPU by CUDA' or 'CPU'
    driver: str
    api: str
    precision: str
    placement: str  # as requested
    origin: str  # where the plan came from: 'file', 'store' or 'model'
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    data: str  # description of the inputs


@dataclass(frozen=True)
class RunTimes:
    """Seconds of runs, from arrays to arrays, and the parts of the shortest if they are known."""

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
    """A part of the model: neighbouring operators on one target. Seconds are estimates."""

    target: str
    operators: int
    seconds: float
    transfer: float


@dataclass(frozen=True)
class RunOperator:
    """An operator of the model's file that a node replaces, where it runs, and why."""

    name: str
    op: str
    target: str
    reason: str
    seconds: float  # an estimate


@dataclass(frozen=True)
class RunTensor:
    """A value that a node reads or writes: a constant, or the result of a node."""

    name: str
    type: str
    constant: bool = False


@dataclass(frozen=True)
class TimedCandidate:
    """A kernel variant of a node, and its time when it was timed alone."""

    way: str
    seconds: float


@dataclass(frozen=True)
class NodeTuning:
    """The kernel variant of a node, how many variants tuning tried, the time it stored, and the
    candidates that were timed for this report.
    """

    way: str
    tuned: bool
    looked_at: int | None = None
    kept_seconds: float | None = None
    candidates: tuple[TimedCandidate, ...] = ()


@dataclass(frozen=True)
class ValueAccuracy:
    """Difference of a node's result from the reference, relative to its range."""

    largest: float | None  # None if it is infinite or NaN
    mean: float | None
    allowed: float
    verdict: str
    agrees: bool


@dataclass(frozen=True)
class RunNode:
    """A node of the graph as it ran, its position on the page, and its measurements.

    `flops` are operations as the model defines them. `seconds` is None if it was not measured.
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
    """An edge from a node to another for one value, with the points that it is drawn through."""

    source: int
    target: int
    value: str
    type: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class RunKernel:
    """A launch, or a stage of one launch, in the order of execution."""

    entry: str
    node: int
    grid: tuple[int, ...]
    local: tuple[int, ...]
    bytes_read: int
    bytes_written: int
    text: str  # its name among the texts
    seconds: float | None = None
    waiting: float | None = None  # mean waiting time of work-groups in a stage


@dataclass(frozen=True)
class DeviceCeilings:
    """Limits of the device per second, measured with a short probe."""

    flops: float
    bytes: float  # bytes of memory, for arrays larger than the caches
    cached_bytes: float  # bytes of memory, for arrays that fit into caches


@dataclass(frozen=True)
class RunSpan:
    """Position of a value in the arena, and the steps during which it lives."""

    name: str
    offset: int
    bytes: int
    first: int
    last: int


@dataclass(frozen=True)
class RunArena:
    """Memory that the values of one part share during a run."""

    part: int
    bytes: int
    steps: int
    spans: tuple[RunSpan, ...]


@dataclass(frozen=True)
class RunMemory:
    """Device memory in bytes by purpose, and the arenas if they are known."""

    weights: int
    arena: int
    inputs: int
    outputs: int
    states: int
    arenas: tuple[RunArena, ...]
    note: str = ""


@dataclass(frozen=True)
class AdviceItem:
    """An improvement of the model, and about how many seconds it would save per run."""

    kind: str
    nodes: tuple[str, ...]
    seconds: float
    text: str


@dataclass(frozen=True)
class AccuracySummary:
    """The CPU runtime that values were compared with, and the result."""

    engine: str
    agrees: bool
    first: tuple[str, str, str] | None  # first differing layer: op, name, verdict
    layers: int
    agreeing: int
    outputs: tuple[tuple[str, ValueAccuracy], ...]


@dataclass(frozen=True)
class RunRecord:
    """All data of a report on one run. `texts` are kernel texts by name; `notes` say which data are
    missing, and why.
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
    form: str  # 'launches', 'stages' of one launch, or a 'list' compiled for timing
    ceilings: DeviceCeilings | None
    memory: RunMemory
    advice: tuple[AdviceItem, ...]
    accuracy: AccuracySummary | None
    notes: tuple[str, ...]
