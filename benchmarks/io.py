"""Measures the cost of transferring inputs and outputs, for each way to call a session.

run:       `session.run(array)`, from NumPy to NumPy
views:     `run()` without arguments, after writing the input to the session's `input_array`
still:     the same with an unchanged input, so that no cache has to be flushed
out:       `run(array, out=...)` with output arrays of the caller
from GPU:  input in device memory, outputs as NumPy arrays
on GPU:    input and outputs in device memory (`keep_on_device`, with existing memory)
in a row:  consecutive calls of `run`, in seconds per frame
stream:    `session.stream(frames)` with this number of runs in flight, in seconds per frame
The share of transfers is the time by which `run` exceeds `on GPU`. Calls are interleaved in one
process, and cycle through several input arrays. Copies of the driver and of the host are counted.

python benchmarks/io.py mobilenet_v1 mobilenet_v2 resnet50 --device gpu --precision mixed
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
from networks import NETWORKS, network_file
from setting import WORK, describe_setting, relative_error, write_json

import fourfold
from fourfold.backends import chunked_copy
from fourfold.backends.opencl import binding as cl
from fourfold.backends.opencl import ports, slot
from fourfold.cli._timing import Times, timed
from fourfold.runtime.device_memory import fresh_array
from fourfold.tools.report.run_parts import measure_parts

FRAMES = 8
DEPTHS = (1, 2, 3, 4)
Call = Callable[[], object]


class Ways:
    """The ways to call one session, each cycling through the frames."""

    def __init__(self, session: fourfold.Session) -> None:
        self.session, (info,) = session, session.inputs
        random = np.random.default_rng(0)
        shape = (FRAMES, *info.shape)
        self.frames = list(random.uniform(-1, 1, shape).astype(info.dtype))
        self._next = 0
        self.on_device = []
        for frame in self.frames:
            array = fresh_array(session.device, info)
            array.memory.write(frame)
            self.on_device.append(array)
        self.results = session.run(self.on_device[0], keep_on_device=True)
        self.out = {name: np.empty_like(array) for name, array in self.plain().items()}
        self.view = session.input_array()

    def _turn(self) -> int:
        self._next = (self._next + 1) % FRAMES
        return self._next

    def plain(self) -> dict[str, Any]:
        return self.session.run(self.frames[self._turn()])

    def fill_view(self) -> None:
        np.copyto(self.view, self.frames[self._turn()])

    def from_view(self) -> dict[str, Any]:
        return self.session.run()

    def into(self) -> dict[str, Any]:
        return self.session.run(self.frames[self._turn()], out=self.out)

    def from_device(self) -> dict[str, Any]:
        return self.session.run(self.on_device[self._turn()])

    def on_gpu(self) -> dict[str, Any]:
        return self.session.run(self.on_device[self._turn()], out=self.results)

    def calls(self) -> dict[str, tuple[Call, Call]]:
        """Return the setup of each call, which is not timed, and the call."""

        def nothing() -> None:
            """Do nothing: most calls need no setup."""

        return {
            "run": (nothing, self.plain),
            "views": (self.fill_view, self.from_view),
            "still": (nothing, self.from_view),
            "out": (nothing, self.into),
            "from GPU": (nothing, self.from_device),
            "on GPU": (nothing, self.on_gpu),
        }

    def check(self) -> None:
        """Check that all calls return the same results."""
        for before, call in self.calls().values():
            before()
            results = call()
            array = next(iter(results.values()))
            got = array if isinstance(array, np.ndarray) else array.numpy()
            expected = next(iter(self.session.run(self.frames[self._next]).values()))
            if relative_error([got], [expected]) != 0:
                raise click.ClickException("calls give different results")
        streamed = self.session.stream(self.frames, depth=3)
        for results, frame in zip(streamed, self.frames, strict=True):
            if relative_error(list(results.values()), list(self.session.run(frame).values())) != 0:
                raise click.ClickException("a stream gives different results")


# Consecutive calls; the first is discarded, because the previous kind changed kernel arguments.
CALLS_PER_TURN = 20


def one_by_one(ways: Ways, seconds: float) -> dict[str, Times]:
    found: dict[str, list[float]] = {name: [] for name in ways.calls()}
    stop = time.perf_counter() + seconds
    while time.perf_counter() < stop:
        for name, (before, call) in ways.calls().items():
            for turn in range(CALLS_PER_TURN):
                before()
                took = timed(call)
                if turn:
                    found[name].append(took)
    return {name: Times.of(times) for name, times in found.items()}


def frames_in_turn(ways: Ways, count: int) -> Iterator[np.ndarray]:
    for number in range(count):
        yield ways.frames[number % FRAMES]


def in_a_row(ways: Ways, count: int) -> None:
    for frame in frames_in_turn(ways, count):
        ways.session.run(frame)


def streamed(ways: Ways, count: int, depth: int) -> None:
    for _ in ways.session.stream(frames_in_turn(ways, count), depth=depth):
        pass


def throughputs(ways: Ways, rounds: int, count: int) -> dict[str, Times]:
    """Return the seconds per frame of consecutive runs and of streams."""
    calls: dict[str, Call] = {"in a row": lambda: in_a_row(ways, count)}
    for depth in DEPTHS:
        calls[f"stream {depth}"] = partial(streamed, ways, count, depth)
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            found[name].append(timed(call) / count)
    return {name: Times.of(times) for name, times in found.items()}


def count_copies(call: Call) -> int:
    """Count the copies of one call: commands of the driver, and copies on the host."""
    seen: list[str] = []
    plain = [(cl.Queue, name) for name in ("read", "write", "copy")]
    plain += [(module, "copied") for module in (ports, slot)]
    plain += [(chunked_copy.ChunkedCopy, "copy"), (np, "copyto")]
    kept = [(owner, name, getattr(owner, name)) for owner, name in plain]
    try:
        for owner, name, function in kept:
            setattr(owner, name, _noting(seen, name, function))
        call()
    finally:
        for owner, name, function in kept:
            setattr(owner, name, function)
    return len(seen)


def _noting(seen: list[str], name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def noted(*given: Any, **options: Any) -> Any:
        seen.append(name)
        return function(*given, **options)

    return noted


def show(title: str, times: dict[str, Times], copies: dict[str, int]) -> None:
    base = next(iter(times.values()))
    click.echo(
        f"\n{title}\n\n| way | median ms | min ms | of the first | of its min | runs | copies |"
    )
    click.echo("|---|--:|--:|--:|--:|--:|--:|")
    for name, found in times.items():
        parts = (found.median * 1e3, found.min * 1e3, found.median / base.median)
        row = "| {} | {:.4f} | {:.4f} | {:.2f} | {:.2f} | {} | {} |"
        last = (found.min / base.min, found.runs, copies.get(name, ""))
        click.echo(row.format(name, *parts, *last))


@click.command(help=__doc__)
@click.argument("models", nargs=-1, required=True)
@click.option("--device", default="auto", show_default=True)
@click.option("--precision", type=click.Choice(("fp32", "mixed", "fp16")))
@click.option(
    "--seconds", default=5.0, show_default=True, help="Measuring time of single calls per model."
)
@click.option("--rounds", default=5, show_default=True, help="Number of rows and streams.")
@click.option("--frames", default=400, show_default=True, help="Frames per row or stream.")
@click.option(
    "--json", "output", type=click.Path(path_type=Path), help="Write the results to this JSON file."
)
def main(
    models: tuple[str, ...],
    device: str,
    precision: str | None,
    seconds: float,
    rounds: int,
    frames: int,
    output: Path | None,
) -> None:
    report: dict[str, Any] = {}
    for name in models:
        path = Path(name)
        if name in NETWORKS:
            WORK.mkdir(parents=True, exist_ok=True)
            path = network_file(name, WORK)
        with fourfold.Session(path, device, precision) as session:
            ways = Ways(session)
            ways.check()
            report["setting"] = describe_setting(session.device)
            singles, rows = one_by_one(ways, seconds), throughputs(ways, rounds, frames)
            parts = measure_parts(session, {session.inputs[0].name: ways.frames[0]})
            calls = (
                ways.calls() if session.device.api == "opencl" else {}
            )  # copies are counted for OpenCL only
            copies = {way: count_copies(call) for way, (_, call) in calls.items()}
            share = 1 - singles["on GPU"].median / singles["run"].median
        show(f"{path.stem}, {session.precision}, {session.device.name}", singles, copies)
        click.echo(f"\ntransfers are {share:.0%} of `run`; parts: {parts}")
        show(f"{path.stem}, seconds per frame in rows of {frames}", rows, {})
        report[path.stem] = {k: v.as_data() for k, v in {**singles, **rows}.items()}
        report[path.stem] |= {"share of transfers": share, "copies": copies}
    if output is not None:
        write_json(output, report)


if __name__ == "__main__":
    main()
