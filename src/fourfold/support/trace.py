"""Timeline of work on the host and on a device, for Perfetto and chrome://tracing."""

from __future__ import annotations

import json
import os
import threading
import time
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from fourfold.errors import InputError

HOST, DEVICE = 1, 2  # the two processes of a trace, as viewers call them
CATEGORIES = {HOST: "host", DEVICE: "device"}
THREADS = 100  # thread numbers per process; distinct from process numbers
ROUNDING = 2  # nanoseconds by which consecutive spans may seem to overlap


class TraceSpan(NamedTuple):
    """A period of time on a track of the host or the device; `began` is a time of
    `time.perf_counter`. A span that is `in_flight` may overlap others of its track. `put_in` is
    when the host submitted it to the device: viewers draw an arrow from there.
    """

    name: str
    track: str
    began: float
    seconds: float
    process: int = HOST
    details: Mapping[str, Any] = {}
    in_flight: bool = False
    put_in: float | None = None


class DeviceClock:
    """Offset between a device's clock, in seconds, and the host's. Each anchor is a time of the
    device that the host observed between two times of its own clock.
    """

    def __init__(self) -> None:
        self._earliest, self._latest = float("-inf"), float("inf")

    def anchor(self, device: float, earliest: float, latest: float) -> None:
        self._earliest = max(self._earliest, earliest - device)
        self._latest = min(self._latest, latest - device)

    @property
    def offset(self) -> float:
        """Seconds to add to a time of the device: the middle of the range the anchors allow."""
        return (self._earliest + self._latest) / 2


class Trace:
    """Spans of the host and of a device. Any thread may add to it.

    `save` writes them to a file for https://ui.perfetto.dev and chrome://tracing.
    """

    def __init__(self, device: str = "", began: float | None = None) -> None:
        self.device = device
        self.began = time.perf_counter() if began is None else began
        self._spans: list[TraceSpan] = []
        self._lock = threading.Lock()

    @property
    def spans(self) -> Sequence[TraceSpan]:
        """All spans, ordered by start time."""
        with self._lock:
            return sorted(self._spans, key=lambda one: (one.began, -one.seconds))

    def add(self, *spans: TraceSpan) -> None:
        with self._lock:
            self._spans.extend(spans)

    @contextmanager
    def span(self, name: str, **details: Any) -> Iterator[None]:
        """Record the time this thread spends inside, even if it raises."""
        began, track = time.perf_counter(), threading.current_thread().name
        try:
            yield
        finally:
            took = time.perf_counter() - began
            self.add(TraceSpan(name, track, began, took, details=details))

    def to_json(self) -> dict[str, Any]:
        """Return the trace in the Trace Event Format, with times in microseconds."""
        tracks = _Tracks()
        placed = [tracks.place(span, self.began) for span in self.spans]
        events = [event for number, one in enumerate(placed) for event in _events(one, number)]
        names = {HOST: "host", DEVICE: self.device or "device"}
        heads = []
        for order, process in enumerate(sorted({one.span.process for one in placed})):
            heads += _heads("process", (process, 0), names[process], order)
        for order, (thread, name) in enumerate(tracks.names.items()):
            heads += _heads("thread", (thread // THREADS, thread), name, order)
        flows = _flows(placed, self.began)
        return {"displayTimeUnit": "ms", "traceEvents": [*heads, *events, *flows]}

    def save(self, path: str | os.PathLike[str]) -> None:
        try:
            Path(path).write_text(json.dumps(self.to_json()), encoding="utf-8")
        except OSError as error:
            what, why = f"the trace cannot be written to {path}", error.strerror or str(error)
            fix = "choose a file in a writable folder"
            raise InputError(what, why, fix) from error


class _Placed(NamedTuple):
    """A span assigned to a thread, in whole nanoseconds since the start of the trace."""

    span: TraceSpan
    thread: int
    began: int
    ended: int

    @property
    def where(self) -> dict[str, int]:
        return {"pid": self.span.process, "tid": self.thread}


class _Tracks:
    """Assigns a thread to each span, in the order in which spans began. Viewers drop a span that
    overlaps another one of its thread without being nested, so it gets another thread.
    """

    def __init__(self) -> None:
        self.names: dict[int, str] = {}
        # For each thread, the end times of open spans, innermost last.
        self._open: dict[int, list[int]] = {}
        self._threads: dict[tuple[int, str], list[int]] = {}

    def place(self, span: TraceSpan, zero: float) -> _Placed:
        began, ended = (round(at * 1e9) for at in _times(span, zero))
        same = self._threads.setdefault((span.process, span.track), [])
        for thread in same:
            if span.in_flight:
                return _Placed(span, thread, began, ended)
            open_ends = self._open[thread]
            while open_ends and open_ends[-1] <= began + ROUNDING:
                began = max(began, open_ends.pop())
            if not open_ends or ended <= open_ends[-1] + ROUNDING:
                ended = max(began, min([ended, *open_ends[-1:]]))
                open_ends.append(ended)
                return _Placed(span, thread, began, ended)
        return _Placed(span, self._add(span, ended), began, ended)

    def _add(self, span: TraceSpan, ended: int) -> int:
        """Add a thread to the span's track and return its number."""
        same = self._threads[span.process, span.track]
        thread = span.process * THREADS + sum(one // THREADS == span.process for one in self.names)
        same.append(thread)
        self.names[thread] = span.track if len(same) == 1 else f"{span.track} ({len(same)})"
        self._open[thread] = [] if span.in_flight else [ended]
        return thread


def _times(span: TraceSpan, zero: float) -> tuple[float, float]:
    return span.began - zero, span.began + span.seconds - zero


def _heads(kind: str, number: tuple[int, int], name: str, order: int) -> list[dict[str, Any]]:
    """Return the metadata events that name and order a process or a thread in a viewer."""
    where = {"ph": "M", "pid": number[0], "tid": number[1]}
    return [
        {**where, "name": f"{kind}_name", "args": {"name": name}},
        {**where, "name": f"{kind}_sort_index", "args": {"sort_index": order}},
    ]


def _events(placed: _Placed, number: int) -> list[dict[str, Any]]:
    """Return a complete event, or a begin and an end event for a span in flight."""
    span, began, ended = placed.span, placed.began, placed.ended
    same = {"name": span.name, "cat": CATEGORIES[span.process], **placed.where}
    details = {"args": dict(span.details)} if span.details else {}
    if not span.in_flight:
        return [{"ph": "X", **same, "ts": began / 1e3, "dur": (ended - began) / 1e3, **details}]
    # An id local to the process: otherwise viewers draw it elsewhere.
    same["id2"] = {"local": hex(number)}
    return [
        {"ph": "b", **same, "ts": began / 1e3, **details},
        {"ph": "e", **same, "ts": ended / 1e3},
    ]


def _flows(placed: Sequence[_Placed], zero: float) -> list[dict[str, Any]]:
    """Return an arrow to each span from where the host submitted it, if known."""
    host = [one for one in placed if one.span.process == HOST and not one.span.in_flight]
    starts = [one.began for one in host]
    events: list[dict[str, Any]] = []
    for number, target in enumerate(placed):
        if target.span.put_in is None:
            continue
        at = round((target.span.put_in - zero) * 1e9)
        earlier = (host[index] for index in reversed(range(bisect_right(starts, at))))
        source = next((one for one in earlier if one.ended >= at), None)
        if source is None or source.began > target.began:  # clocks may differ slightly
            continue
        same = {"name": "launch", "cat": "launch", "id": number}
        events.append({"ph": "s", **same, **source.where, "ts": min(at, target.began) / 1e3})
        events.append({"ph": "f", "bp": "e", **same, **target.where, "ts": target.began / 1e3})
    return events
