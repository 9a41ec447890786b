"""Runs ONNX's node tests in a session and in ONNX Runtime, with the same tolerances.

Each model is opened with placement='gpu', so that the device runs every operator it can; others
fall back to ONNX Runtime. `node_tests.py` provides the tests and their tolerances.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import onnxruntime
from node_tests import NodeTest, is_close, node_tests
from setting import describe_setting, installed, replace_section, write_json

import fourfold
from fourfold.backends import find_device
from fourfold.backends.cpu.onnxruntime.inference import failures

COMMAND = "python benchmarks/onnx_nodes.py --write docs/coverage.md"
HEADING = "## ONNX's node tests"
OUTCOMES = {
    "whole": "right, wholly on the device",
    "parts": "right, in part or wholly by ONNX Runtime",
    "refused": "refused, with a reason",
    "wrong": "wrong",
}
MAX_REASONS = 24


def look_at(test: NodeTest, device: str) -> dict[str, Any]:
    """Run one test in fourfold and in ONNX Runtime."""
    row: dict[str, Any] = {"test": test.name, "op": test.op, "theirs": by_onnx_runtime(test)}
    shapes = {name: array.shape for name, array in test.inputs.items() if array.size}
    try:
        with fourfold.Session(
            test.model, device, "fp32", placement="gpu", shapes=shapes, cache=None
        ) as session:
            results = list(session.run(_as_taken(test, session)).values())
            placement = session.placement
    except fourfold.FourfoldError as error:
        return row | {"outcome": "refused", "reasons": [_reason(error)]}
    right = is_close(test, [_as_wanted(*pair) for pair in zip(results, test.outputs, strict=False)])
    outcome = "wrong" if not right else "whole" if placement.whole else "parts"
    reasons = sorted({f"{r.op}: {r.reason}" for r in placement.fallbacks})
    return row | {"outcome": outcome, "reasons": reasons}


def _as_taken(test: NodeTest, session: fourfold.Session) -> dict[str, np.ndarray]:
    """Convert types that NumPy lacks to float, as sessions take them."""
    dtypes = {port.name: port.dtype for port in session.inputs}
    return {
        name: array if array.dtype == dtypes[name] else array.astype(dtypes[name])
        for name, array in test.inputs.items()
        if name in dtypes
    }


def _as_wanted(found: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    return found if wanted.dtype.isbuiltin == 1 else found.astype(wanted.dtype)


def _reason(error: fourfold.FourfoldError) -> str:
    refusals = getattr(error, "refusals", ())
    if refusals:
        return f"{refusals[0].op}: {refusals[0].reason}"
    return f"{error.what}: {error.why}".replace("\n", " ")


def by_onnx_runtime(test: NodeTest) -> bool:
    """Return whether ONNX Runtime passes a test on the CPU."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    try:
        session = onnxruntime.InferenceSession(test.model, options, ["CPUExecutionProvider"])
        results = session.run(None, test.inputs)
    except failures():  # a test that it cannot run counts as failed
        return False
    return is_close(test, [np.asarray(one) for one in results])


def lines(
    rows: Sequence[Mapping[str, Any]], setting: Mapping[str, Any], device: str
) -> Iterator[str]:
    counts = Counter(row["outcome"] for row in rows)
    theirs = sum(row["theirs"] for row in rows)
    passed = counts["whole"] + counts["parts"]
    yield HEADING
    yield ""
    yield f"Of the {len(rows)} node tests of onnx {installed('onnx')} (those of sequences, optional"
    yield f"values, strings and training left out) {passed} pass, {counts['whole']} of them wholly"
    yield f"on the device; ONNX Runtime {installed('onnxruntime')} passes {theirs} by the same"
    yield "judge. What says how an operator works, such as a shape or axes, is a constant here, as"
    yield "it is in the models that people have. Beyond the tests' own tolerance, a result may"
    yield "be off by 2^-21 of its largest number, and a bfloat16, a float here, by 2^-6. Written by"
    yield f"`{COMMAND} --device {device}`"
    yield f"on {setting['device']} ({setting['platform']}), commit {setting['commit']}."
    yield ""
    yield "| outcome | tests |"
    yield "|---|---:|"
    for name, title in OUTCOMES.items():
        yield f"| {title} | {counts[name]} |"
    yield f"| passed by ONNX Runtime | {theirs} |"
    yield ""
    yield "Why tests do not run wholly on the device, the commonest reasons first:"
    yield ""
    yield "| tests | reason |"
    yield "|---:|---|"
    for reason, count in reasons_of(rows).most_common(MAX_REASONS):
        yield f"| {count} | {reason} |"


def reasons_of(rows: Sequence[Mapping[str, Any]]) -> Counter[str]:
    """Count the first reason of each test, without names of values."""
    firsts = (row["reasons"][0] for row in rows if row["outcome"] != "whole" and row["reasons"])
    return Counter(map(_shortened, firsts))


def _shortened(reason: str) -> str:
    own = re.split(r"; ONNX Runtime cannot|\[ONNXRuntimeError\]", reason)[0].rstrip(" :")
    own = "ONNX Runtime cannot run its part" if own == "output" else own
    op, _, why = own.partition(": ")
    types = re.search(r"holds (\w+), which GPU kernels do not support", why)
    if types:
        return f"GPU kernels do not support {types[1]}"
    return re.sub(r"'[^']*'", "a value", f"{op}: {why}" if why else op).replace("|", "/")


@click.command(help=__doc__)
@click.argument("names", nargs=-1)
@click.option("--device", default="auto", show_default=True)
@click.option(
    "--write", type=click.Path(path_type=Path), help="Markdown page whose section is replaced."
)
@click.option(
    "--json", "as_json", type=click.Path(path_type=Path), help="Write the rows to this JSON file."
)
def main(names: tuple[str, ...], device: str, write: Path | None, as_json: Path | None) -> None:
    rows = []
    for test in node_tests():
        if names and not any(name in test.name for name in names):
            continue
        rows.append(look_at(test, device))
        if names or rows[-1]["outcome"] in ("refused", "wrong"):
            click.echo(f"{test.name}: {rows[-1]['outcome']} {'; '.join(rows[-1]['reasons'])[:200]}")
    setting = describe_setting(find_device(device))
    text = "\n".join(lines(rows, setting, device)) + "\n"
    click.echo(text)
    if write is not None:
        replace_section(write, HEADING, text)
    if as_json is not None:
        write_json(as_json, {"setting": setting, "tests": rows})


if __name__ == "__main__":
    main()
