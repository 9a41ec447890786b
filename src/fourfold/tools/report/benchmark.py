"""benchmark: how long runs of a model take, compared with CPU runtimes."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from fourfold.config import Config, count
from fourfold.errors import InputError, ModelError
from fourfold.options import SessionOptions
from fourfold.runtime.inputs import Inputs, match_inputs
from fourfold.runtime.opening import Model, find_store, model_reader, model_title, path_or_bytes
from fourfold.runtime.profile import Profile
from fourfold.runtime.random_inputs import random_inputs
from fourfold.runtime.tensor_info import TensorInfo
from fourfold.session import Session, require_compiled
from fourfold.store.prepared import is_prepared
from fourfold.support.display import html_table, shown, time_text
from fourfold.support.lazy import lazy_import
from fourfold.support.progress import Progress, followed
from fourfold.tools.report.run_parts import RunParts, measure_parts
from fourfold.tools.report.timing import Call, Times, take_turns, take_turns_in_streams, warm_up

if TYPE_CHECKING:
    from fourfold.compiler import compile as compiler
    from fourfold.tools.report import rival as rivals
else:  # a benchmark of a prepared file needs neither
    compiler, rivals = (
        lazy_import("fourfold.compiler.compile"),
        lazy_import("fourfold.tools.report.rival"),
    )

OURS = "fourfold"
DEFAULT_RUNS = 200  # in one stream
MAX_PART_RUNS = 50  # runs of each of the six variants that measure the parts of a run
VARIANTS = 6
TRACED_RUNS = 5
REMOTE_WARM_UP_RUNS = 10
Arrays = dict[str, np.ndarray]
MakeInputs = Callable[[Sequence[TensorInfo]], Inputs]


@dataclass(frozen=True)
class BenchmarkReport:
    """Run times of a model, by contestant: 'fourfold', and CPU runtimes such as 'LiteRT CPU'."""

    model: str  # path, or a name for a model in memory
    title: str
    device: str
    precision: str
    streams: int
    frames: int  # frames per run: the batch of a picture input, else 1
    launches: int
    arena: int  # bytes of device memory for values between kernels
    start: Mapping[str, float]  # seconds of opening the model, in total and by stage
    times: Mapping[str, Times]
    parts: RunParts | None = None  # parts of the shortest run
    kernels: Profile = field(default_factory=lambda: Profile(()))
    notes: tuple[str, ...] = ()  # why a runtime was not measured

    @property
    def throughput(self) -> dict[str, float]:
        """Frames per second, by contestant."""
        return {name: found.rate * self.frames for name, found in self.times.items()}

    @property
    def ratios(self) -> dict[str, float]:
        """Time of fourfold divided by that of each CPU runtime; below 1, fourfold is faster."""
        ours, others = self.times[OURS], {k: v for k, v in self.times.items() if k != OURS}
        if self.streams > 1:
            return {name: found.rate / ours.rate for name, found in others.items()}
        return {name: ours.median / found.median for name, found in others.items()}

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain data."""
        plain = ("model", "title", "device", "precision", "streams", "frames", "launches", "arena")
        ratios = self.ratios
        first = [{"rival": name, "ratio": ratio} for name, ratio in ratios.items()][:1]
        timed = {"form": self.kernels.form, "clock": self.kernels.clock or None}
        cost = {"clock_cost": self.kernels.clock_cost, "launch": self.kernels.launch_seconds}
        by_time = sorted(self.kernels, key=lambda one: -one.seconds)
        return {
            **{name: getattr(self, name) for name in plain},
            "start": dict(self.start),
            "seconds": {name: found.as_data() for name, found in self.times.items()},
            "throughput": self.throughput,
            "compared": bool(ratios),
            "ratios": ratios,
            **(first[0] if first else {}),
            "parts": None if self.parts is None else asdict(self.parts),
            "kernels": [asdict(one) for one in by_time],
            "timed": timed | cost,
            "notes": list(self.notes),
        }

    @shown
    def __str__(self) -> str:
        form = "  {}: median {}, min {}, p90 {}, {} runs, {} frames/s"
        lines = [self._head(), *(form.format(*row) for row in self._rows())]
        lines += [f"  {OURS} takes {by:.2f}× the time of {it}" for it, by in self.ratios.items()]
        return "\n".join([*lines, *(f"  {note}" for note in self.notes)])

    @shown
    def __repr__(self) -> str:
        return f"<BenchmarkReport: {self._head()}, median {time_text(self.times[OURS].median)}>"

    def _repr_html_(self) -> str:
        columns = ("", ">median", ">min", ">p90", ">runs", ">frames/s")
        return html_table(f"Benchmark: {self._head()}", columns, self._rows())

    def _head(self) -> str:
        streams = f", {self.streams} streams" if self.streams > 1 else ""
        return f"{self.title} on {self.device}, {self.precision}{streams}"

    def _rows(self) -> list[tuple[str, ...]]:
        return [
            (
                name,
                *(time_text(seconds) for seconds in (found.median, found.min, found.p90)),
                str(found.runs),
                f"{self.throughput[name]:.4g}",
            )
            for name, found in self.times.items()
        ]


def benchmark(
    source: Model,
    inputs: Inputs | MakeInputs = None,
    *,
    seconds: float = 10.0,
    runs: int | None = None,
    streams: int = 1,
    compare: bool | str | Sequence[str] = True,
    profile: bool = False,
    trace: str | os.PathLike[str] | None = None,
    seed: int = 0,
    **options: Any,
) -> BenchmarkReport:
    """Measure the time of runs, from NumPy arrays to NumPy arrays, next to CPU runtimes.

    Runs are repeated until their times settle, and then measured. Runs of fourfold and of the CPU
    runtimes are interleaved.

    Args:
        source: The model, as `Session` takes it.
        inputs: Inputs, as `Session.run` takes them, or a function that returns them for
            `session.inputs`; random values by default.
        seconds: Time limit of the measured runs, in seconds.
        runs: Largest number of runs: 200 by default in one stream, unlimited in several.
        streams: Number of sessions that run at the same time, each in a thread of its own.
        compare: True for the CPU runtime of the model's format, False for none, or names of
            runtimes such as 'litert' and 'onnxruntime'.
        profile: Measure every kernel too.
        trace: File for a trace of five more runs, for Perfetto and chrome://tracing.
        seed: Seed of the random inputs.
        **options: The options of `Session`, by name.
    """
    stated, names = SessionOptions.of(options), rivals.parse_rivals(compare)
    streams = count("streams", streams)
    runs = (DEFAULT_RUNS if streams == 1 else sys.maxsize) if runs is None else count("runs", runs)
    with (
        followed(stated.progress, "benchmark") as progress,
        Benchmark(path_or_bytes(source), stated, streams, progress) as work,
    ):
        arrays = work.make_inputs(inputs, seed)
        calls, notes = work.open_rivals(arrays, names)
        report = work.describe(work.measure(arrays, calls, runs, seconds))
        parts = work.measure_parts(arrays, report.times[OURS].median, seconds)
        kernels = work.session.profile(arrays) if profile else Profile(())
        if trace is not None:
            work.trace(arrays, trace)
        return replace(report, parts=parts, kernels=kernels, notes=tuple(notes))


def start_stages(total: float, stages: Mapping[str, float]) -> dict[str, float]:
    """Return the seconds of opening a model, in total and by stage. 'other' is what no stage
    measures, so that the stages add up to the total.
    """
    return {"total": total, **stages, "other": max(total - sum(stages.values()), 0.0)}


class Benchmark:
    """Sessions of a model, one for each stream, and the CPU runtimes they are compared with."""

    def __init__(
        self,
        source: str | bytes,
        options: SessionOptions,
        streams: int,
        progress: Progress | None = None,
    ) -> None:
        self._source, self._options = source, replace(options, progress=None)
        self._streams = streams
        self._progress = progress or (lambda *_: None)
        self._stack = ExitStack()
        self.sessions: list[Session] = []
        self.start: dict[str, float] = {}

    def __enter__(self) -> Benchmark:
        began = time.perf_counter()
        self._open()
        self.start = start_stages(time.perf_counter() - began, self.session.timings)
        for _ in range(self._streams - 1):
            self._open()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def _open(self) -> None:
        try:
            session = require_compiled(Session.open(self._source, self._options))
        except BaseException:
            self._stack.close()
            raise
        self.sessions.append(self._stack.enter_context(session))

    @property
    def session(self) -> Session:
        """The session of the first stream."""
        return self.sessions[0]

    def make_inputs(self, inputs: Inputs | MakeInputs, seed: int) -> Arrays:
        """Return an array for every input, by name."""
        infos = self.session.inputs
        if inputs is None:
            return random_inputs(infos, seed)
        values = inputs(infos) if callable(inputs) else inputs
        arrays, _ = match_inputs(infos, values, set(), lambda *_: None)
        return {info.name: array for info, array in zip(infos, arrays, strict=True)}

    def open_rivals(
        self, arrays: Arrays, names: Sequence[str]
    ) -> tuple[dict[str, list[Call]], list[str]]:
        """Return a call for every stream by runtime, and the reasons why others are left out."""
        if not names or self.session.device.remote:
            return {}, []
        if is_prepared(self._source):
            why = "not compared with a CPU runtime: a prepared file does not hold the model"
            return {}, [] if names == (rivals.OWN,) else [why]
        options = self._options
        config = options.settings()
        store = find_store(options.cache, options.serialization_dir, config)
        model = model_reader(self._source, store, config)().content
        threads = options.threads or max((os.cpu_count() or 1) // self._streams, 1)
        calls: dict[str, list[Call]] = {}
        notes = []
        for engine, reason in rivals.named_rivals(model, names, options.isolate):
            if reason:
                notes.append(f"not compared with a CPU runtime: {reason}")
                continue
            try:
                real = self._real_inputs(model, arrays)
                content = rivals.model_of_signature(model, options.signature)
                opened: list[Call] = [
                    engine.open_model(content, real, threads) for _ in self.sessions
                ]
                calls[f"{engine.title} CPU"] = opened
            except (InputError, ModelError) as error:
                notes.append(f"{error.what}: {error.why}")
        return calls, notes

    def _real_inputs(self, model: str | bytes, arrays: Arrays) -> Arrays:
        """Return inputs for a CPU runtime: pictures scaled as the model takes them."""
        if self._options.pixels is None:
            return arrays
        loaded = compiler.load_model(
            model, self._options.compile_options(Config.from_environment())
        )
        names = dict(zip(loaded.model.input_names, loaded.model.main.arguments, strict=True))
        pictures = {
            name: loaded.requested[value].numbers(arrays[name], loaded.model.main.types[value])
            for name, value in names.items()
            if value in loaded.requested
        }
        return {**arrays, **pictures}

    def measure(
        self, arrays: Arrays, calls: Mapping[str, Sequence[Call]], runs: int, seconds: float
    ) -> dict[str, Times]:
        """Return the run times of fourfold and of the CPU runtimes."""
        session = self.session
        if session.device.remote and not session.is_in_parts:
            if self._streams > 1:
                what, why = "streams is for devices of this machine", "this device is remote"
                raise InputError(what, why, "measure it in one stream")
            self._progress(0, 1, f"measuring on {session.device.address}", 0.0)
            return {OURS: Times.of(_time_remotely(session, arrays, runs, seconds))}
        ours: list[Call] = [partial(one.run, arrays) for one in self.sessions]
        streams: dict[str, Sequence[Call]] = {OURS: ours, **calls}
        total = runs if self._streams == 1 else 1
        for name, each in streams.items():
            self._progress(0, total, f"warming up {name}", 0.0)
            for call in each:
                warm_up(call, limit=max(seconds / len(each), 1.0))
        self._progress(0, total, "measuring", 0.0)
        if self._streams > 1:
            return take_turns_in_streams(streams, runs, seconds)
        done = iter(range(1, runs + 1))
        alone = {name: each[0] for name, each in streams.items()}
        return take_turns(
            alone, runs, seconds, lambda: self._progress(next(done), runs, "measuring", 0.0)
        )

    def measure_parts(self, arrays: Arrays, median: float, seconds: float) -> RunParts | None:
        """Return the parts of a run in one stream, measured for about `seconds`."""
        if self._streams > 1:
            return None
        runs = round(seconds / (VARIANTS * median))
        return measure_parts(self.session, arrays, max(1, min(MAX_PART_RUNS, runs)))

    def trace(self, arrays: Arrays, path: str | os.PathLike[str]) -> None:
        """Write a trace of a few runs."""
        with self.session.trace(path, False):
            for _ in range(TRACED_RUNS):
                self.session.run(arrays)

    def describe(self, times: Mapping[str, Times]) -> BenchmarkReport:
        """Return the report with the facts of the session."""
        session, title = self.session, model_title(self._source, self._options.model)
        shape = session.inputs[0].shape if session.inputs else ()
        return BenchmarkReport(
            model=self._source if isinstance(self._source, str) else title,
            title=title,
            device=str(session.device),
            precision=session.precision,
            streams=self._streams,
            frames=shape[0] if len(shape) == 4 else 1,
            launches=len(session.compiled.launches),
            arena=session.compiled.bytes("arena"),
            start=self.start,
            times=times,
        )


def _time_remotely(session: Session, arrays: Arrays, runs: int, limit: float) -> list[float]:
    """Return the seconds of runs by the clock of the device's machine, without the network."""
    took = session.run_seconds(arrays, REMOTE_WARM_UP_RUNS)[-1]
    return session.run_seconds(arrays, max(1, min(runs, round(limit / max(took, 1e-6)))))
