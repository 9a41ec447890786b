"""Rules of the Trace Event Format whose violation makes viewers drop, misplace or not
name events.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

NEEDED = {
    "M": {"name", "pid", "tid", "args"},
    "X": {"name", "cat", "pid", "tid", "ts", "dur"},
    "b": {"name", "cat", "pid", "tid", "ts", "id2"},
    "e": {"name", "cat", "pid", "tid", "ts", "id2"},
    "s": {"name", "cat", "pid", "tid", "ts", "id"},
    "f": {"name", "cat", "pid", "tid", "ts", "id", "bp"},
}
Event = dict[str, Any]


def check_trace(data: dict[str, Any]) -> None:
    """Reject events that a viewer would not show as intended."""
    assert data["displayTimeUnit"] in ("ms", "ns")
    events: list[Event] = data["traceEvents"]
    by_kind: dict[str, list[Event]] = {kind: [] for kind in NEEDED}
    for event in events:
        assert event.keys() >= NEEDED[event["ph"]], event
        by_kind[event["ph"]].append(event)
        if event["ph"] != "M":
            assert event["ts"] >= 0, event
    check_names(by_kind["M"], [*by_kind["X"], *by_kind["b"]])
    check_nesting(by_kind["X"])
    check_flights(by_kind["b"], by_kind["e"])
    check_arrows(by_kind["s"], by_kind["f"], by_kind["X"])


def nanoseconds(event: Event) -> tuple[int, int]:
    """Return begin and end, which the file has in microseconds with three decimals."""
    times = (event["ts"] * 1000, event["dur"] * 1000)
    assert all(abs(one - round(one)) < 1e-3 for one in times), event
    return round(times[0]), round(times[0]) + round(times[1])


def place(event: Event) -> tuple[int, int]:
    return event["pid"], event["tid"]


def check_names(heads: list[Event], events: list[Event]) -> None:
    """Check that each process and thread has one name, one sort index, and some event."""
    for kind, used in {
        "process": {event["pid"] for event in events},
        "thread": {place(event) for event in events},
    }.items():
        for word in ("name", "sort_index"):
            entries = [head for head in heads if head["name"] == f"{kind}_{word}"]
            where = [head["pid"] if kind == "process" else place(head) for head in entries]
            assert Counter(where) == Counter(used)
            assert len({head["args"][word] for head in entries}) == len(entries)
    threads = [event["tid"] for event in events]
    processes = {event["pid"] for event in events}
    assert not processes & set(threads), "a thread with its process's number counts as the main one"


def check_nesting(events: list[Event]) -> None:
    """Check that events on one thread are nested or disjoint."""
    for thread in {place(event) for event in events}:
        open_ends: list[int] = []
        for event in sorted((one for one in events if place(one) == thread), key=lambda e: e["ts"]):
            began, ended = nanoseconds(event)
            while open_ends and open_ends[-1] <= began:
                open_ends.pop()
            assert not open_ends or ended <= open_ends[-1], event
            open_ends.append(ended)


def check_flights(begins: list[Event], ends: list[Event]) -> None:
    """Check that each begin has an end with the same process and id."""
    pairs = {(one["pid"], one["cat"], one["name"], one["id2"]["local"]): one for one in begins}
    assert len(pairs) == len(begins) == len(ends)
    for end in ends:
        begin = pairs[end["pid"], end["cat"], end["name"], end["id2"]["local"]]
        assert begin["ts"] <= end["ts"]


def check_arrows(starts: list[Event], finishes: list[Event], events: list[Event]) -> None:
    """Check that each arrow connects two events, forward in time."""
    by_number = {start["id"]: start for start in starts}
    assert len(by_number) == len(starts) == len(finishes)
    for finish in finishes:
        start = by_number[finish["id"]]
        assert (start["name"], start["cat"]) == (finish["name"], finish["cat"])
        assert start["ts"] <= finish["ts"]
        for end in (start, finish):
            assert any(
                place(one) == place(end) and one["ts"] <= end["ts"] <= one["ts"] + one["dur"]
                for one in events
            ), end
