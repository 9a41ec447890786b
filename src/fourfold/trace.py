"""Trace: what happened when, on the host and on a device, for Perfetto and chrome://tracing."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from fourfold.errors import InputError

HOST, DEVICE = 1, 2  # the two processes of a trace, as its viewers call them


class TraceSpan(NamedTuple):
    """Something that took time: on which track of the host or the device, and from when on, by
    `time.perf_counter`. What is `in_flight` may overlap with others of its track.
    """

    name: str
    track: str
    began: float
    seconds: float
    process: int = HOST
    details: Mapping[str, Any] = {}
    in_flight: bool = False


class DeviceClock:
    """How far a device's clock, in seconds, is behind the host's. Each anchor is a time of the
    device that the host saw go by between two times of its own.
    """

    def __init__(self) -> None:
        self._earliest, self._latest = float("-inf"), float("inf")

    def anchor(self, device: float, earliest: float, latest: float) -> None:
        self._earliest = max(self._earliest, earliest - device)
        self._latest = min(self._latest, latest - device)

    @property
    def offset(self) -> float:
        """What to add to a time of the device: the middle of what all anchors allow."""
        return (self._earliest + self._latest) / 2


class Trace:
    """Spans of the host and of a device. May be written to by any thread.

    `save` writes them as a file for https://ui.perfetto.dev and chrome://tracing.
    """

    def __init__(self, device: str = "", began: float | None = None) -> None:
        self.device = device
        self.began = time.perf_counter() if began is None else began
        self._spans: list[TraceSpan] = []
        self._lock = threading.Lock()

    @property
    def spans(self) -> Sequence[TraceSpan]:
        """All of them, by when they began."""
        with self._lock:
            return sorted(self._spans, key=lambda one: (one.began, -one.seconds))

    def add(self, *spans: TraceSpan) -> None:
        with self._lock:
            self._spans.extend(spans)

    @contextmanager
    def span(self, name: str, **details: Any) -> Iterator[None]:
        """Times what this thread does inside, even if it raises."""
        began, track = time.perf_counter(), threading.current_thread().name
        try:
            yield
        finally:
            took = time.perf_counter() - began
            self.add(TraceSpan(name, track, began, took, details=details))

    def to_json(self) -> dict[str, Any]:
        """The trace as its viewers take it: the Trace Event Format, in microseconds."""
        tracks: dict[tuple[int, str], int] = {}
        events: list[dict[str, Any]] = []
        for number, span in enumerate(self.spans):
            thread = tracks.setdefault((span.process, span.track), len(tracks) + 1)
            events += _events(span, number, thread, self.began)
        names = {HOST: "host", DEVICE: self.device or "device"}
        heads = [_name("process_name", process, 0, name) for process, name in names.items()]
        heads += [_name("thread_name", *key[:1], thread, key[1]) for key, thread in tracks.items()]
        return {"displayTimeUnit": "ns", "traceEvents": [*heads, *events]}

    def save(self, path: str | os.PathLike[str]) -> None:
        try:
            Path(path).write_text(json.dumps(self.to_json()), encoding="utf-8")
        except OSError as error:
            what, why = f"the trace cannot be written to {path}", error.strerror or str(error)
            fix = "choose a file in a folder that can be written to"
            raise InputError(what, why, fix) from error


def _name(kind: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "args": {"name": name}}


def _events(span: TraceSpan, number: int, thread: int, zero: float) -> list[dict[str, Any]]:
    """A complete event; for what is in flight one for its begin and one for its end."""
    where = {"name": span.name, "pid": span.process, "tid": thread}
    began, took = (span.began - zero) * 1e6, span.seconds * 1e6
    if not span.in_flight:
        whole = {"ph": "X", **where, "ts": round(began, 3), "dur": round(took, 3)}
        return [whole | {"args": dict(span.details)}]
    same = {**where, "cat": span.track, "id": number}
    first = {"ph": "b", **same, "ts": round(began, 3), "args": dict(span.details)}
    return [first, {"ph": "e", **same, "ts": round(began + took, 3)}]
