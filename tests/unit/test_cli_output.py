"""Output of commands in a terminal of 80 columns and elsewhere: no broken words, and units for
numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from rich.console import Console

from fourfold.cli import _show, main
from fourfold.cli._bench_report import show_models, show_report, sum_text
from fourfold.cli._show import UNLIMITED, duration, short_name, show_line, show_table
from fourfold.tools.preparation import TuningSummary

Print = Callable[[], None]
NODE = "block/Relu;block/bias = conv2d(image, weights, block/bias; stride=(2, 2)) |> relu"


def printed(capsys: pytest.CaptureFixture[str], width: int, what: Print) -> list[str]:
    """Return the lines that a function prints in a terminal of this width, without
    trailing spaces.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            _show, "make_console", lambda: Console(width=width, markup=False, highlight=False)
        )
        what()
    return [line.rstrip() for line in capsys.readouterr().out.splitlines()]


def measured(title: str, scale: float, rival: str | None = "LiteRT CPU") -> dict[str, Any]:
    """Return a report of 'fourfold bench' with fixed times."""
    names = {"fourfold": 1.0} | ({} if rival is None else {rival: 2.5})
    keys = {"median": 1.0, "min": 0.9, "p90": 1.5, "p99": 3.25}
    return {
        "title": title,
        "device": "Test GPU (Pretend, driver 1.0)",
        "precision": "fp32",
        "streams": 1,
        "seconds": {
            name: {key: scale * slow * part for key, part in keys.items()} | {"runs": 200}
            for name, slow in names.items()
        },
        "throughput": {name: 1 / (scale * slow) for name, slow in names.items()},
        "compared": rival is not None,
        "rival": rival,
        "ratio": 0.4,
        "ratios": {} if rival is None else {rival: 0.4},
        "parts": {"total": scale, "upload": 0.0, "kernels": scale / 2, "host": scale / 2},
        "start": {"total": 1.5, "device": 0.175, "read": 0.0123, "other": 1.3127},
        "launches": 1,
        "arena": 64000,
        "kernels": [{"seconds": 5e-5, "kernel": "conv2d_0", "node": NODE}],
        "timed": {"form": "launches"},
    }


def test_bench_of_one_model(capsys: pytest.CaptureFixture[str]) -> None:
    report = measured("mobilenet.tflite", 2e-3)
    assert printed(capsys, 80, lambda: show_report(report)) == [
        "mobilenet.tflite on Test GPU (Pretend, driver 1.0), fp32",
        "              median       min       p90       p99  runs  frames/s",
        "──────────────────────────────────────────────────────────────────",
        "fourfold    2.000 ms  1.800 ms  3.000 ms  6.500 ms   200       500",
        "LiteRT CPU  5.000 ms  4.500 ms  7.500 ms  16.25 ms   200       200",
        "",
        "fourfold takes 0.40× the time of LiteRT CPU",
        "parts of a run, measured separately: upload 0.000 + kernels 1.000 + host 1.000 =",
        "2.000 ms",
        "start: device 175.0 + read 12.3 + other 1312.7 = 1500.0 ms",
        "1 launch, 62.50 KiB of memory for values",
        "",
        "kernels, 50.0 µs in total, as they are launched",
        "   time   share  kernel    node",
        "─────────────────────────────────────",
        "50.0 µs  100.0%  conv2d_0  block/Relu",
        "",
    ]


def test_bench_of_several_models(capsys: pytest.CaptureFixture[str]) -> None:
    reports = [
        measured("mobilenet_v1_1.0_224_quant.tflite", 2e-3),
        measured("version-RFB-320.onnx", 0.0155, "ONNX Runtime CPU"),
        measured("movenet of two.fourfold", 4e-5, None),
    ]
    assert printed(capsys, 80, lambda: show_models(reports)) == [
        "Test GPU (Pretend, driver 1.0), fp32",
        "                                                       CPU            its",
        "model                                median  frames/s  runtime     median  ratio",
        "────────────────────────────────────────────────────────────────────────────────",
        "mobilenet_v1_1.0_224_quant.tflite  2.000 ms       500  LiteRT    5.000 ms  0.40×",
        "version-RFB-320.onnx               15.50 ms      64.5  ONNX      38.75 ms  0.40×",
        "                                                       Runtime",
        "movenet of two.fourfold             40.0 µs     25000  -                -      -",
        "",
        "a ratio below 1 means that fourfold is faster than the CPU runtime",
    ]


ROWS = [("a/very/long/name/of_a_layer_that_cannot_be_broken", "12.50 KiB", "why it is so " * 3)]


def test_a_table_that_does_not_fit_becomes_a_list(capsys: pytest.CaptureFixture[str]) -> None:
    columns = ("layer", ">size", "reason")
    wide = printed(capsys, 80, lambda: show_table("layers", columns, ROWS))
    assert wide == [
        "layers",
        "layer                                                   size  reason",
        "────────────────────────────────────────────────────────────────────────────────",
        "a/very/long/name/of_a_layer_that_cannot_be_broken  12.50 KiB  why it is so why",
        "                                                              it is so why it is",
        "                                                              so",
        "",
    ]
    assert printed(capsys, 60, lambda: show_table("layers", columns, ROWS)) == [
        "layers",
        "  layer   a/very/long/name/of_a_layer_that_cannot_be_broken",
        "  size    12.50 KiB",
        "  reason  why it is so why it is so why it is so",
        "",
    ]


def test_a_row_is_one_line_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    show_table("layers", ("layer", ">size", "reason"), ROWS)
    found = capsys.readouterr().out.splitlines()
    assert len(found) == 5
    assert all(cell.strip() in found[3] for cell in ROWS[0])
    assert len(found[3]) < UNLIMITED


@pytest.mark.parametrize("name", ["--help", *main.list_commands(None)])  # type: ignore[arg-type]
def test_help_fits(name: str) -> None:
    words = [name] if name == "--help" else [name, "--help"]
    result = CliRunner().invoke(main, words, terminal_width=80)
    assert result.exit_code == 0, result.output
    assert [line for line in result.output.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 µs"),
        (7e-6, "7.0 µs"),
        (9.35e-5, "93.5 µs"),
        (1.474e-4, "0.147 ms"),
        (0.0284553, "28.46 ms"),
        (0.174686, "174.7 ms"),
        (1.964, "1.96 s"),
    ],
)
def test_a_time_has_four_digits_and_a_unit(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize("total", [3.21e-5, 9.9999e-4, 0.0284, 1.25, 12.5])
def test_printed_parts_add_up_to_the_printed_total(total: float) -> None:
    for seed in range(50):
        shares = np.random.default_rng(seed).dirichlet(np.ones(7))
        parts = {f"part {number}": total * share for number, share in enumerate(shares)}
        left, _, right = sum_text({"total": total, **parts}).partition(" = ")
        whole, unit = right.split()
        printed = [Decimal(one.split()[-1]) for one in left.split(" + ")]
        assert sum(printed) == Decimal(whole), left
        scale = {"µs": 1e6, "ms": 1e3, "s": 1}[unit]
        assert float(whole) == pytest.approx(total * scale, rel=1e-2)


def test_sums_round_the_parts_that_lose_most() -> None:
    third = 1e-4 / 3
    parts = {"read": third, "build": third, "other": third}
    text = "read 33.4 + build 33.3 + other 33.3 = 100.0 µs"
    assert sum_text({"total": 1e-4, **parts}) == text


def test_long_names_are_shortened() -> None:
    assert short_name("first/Relu;second/Conv2D") == "first/Relu"
    assert short_name("x" * 50) == "…" + "x" * 40


def test_a_tuning_says_how_far_it_came() -> None:
    whole = TuningSummary(done=4, total=4, faster=1, default_seconds=2e-3, seconds=1e-3)
    assert str(whole) == (
        "all 4 kernels were timed, 1 became faster, and the total time is 0.50× the default"
    )
    stopped = str(TuningSummary(done=2, total=9, default_seconds=1e-3, seconds=1e-3))
    assert stopped.startswith("tuning reached its deadline: 2 of 9 kernels were timed, none")
    assert stopped.endswith("run the same command again to continue")


def test_a_number_keeps_its_unit_at_the_end_of_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, 20, lambda: show_line("it took until here 12.5 ms")) == [
        "it took until here",
        "12.5 ms",
    ]
