"""Random graphs written as ONNX files mean the same to our reader and to ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest
from random_graphs import Random

from fourfold.backends.cpu.reference import evaluate
from fourfold.export.optimize.passes import simplify
from fourfold.formats import formats, read_model
from fourfold.formats.writable import WritableModel
from fourfold.graph import Graph

runtime = pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")

GROUPS, PER_GROUP = 12, 10
TOLERANCE = 2e-4


def ignore_progress(name: str) -> None:
    """Ignore a progress report."""


def run_both_readers(content: bytes, arrays: list[np.ndarray]) -> dict[str, list[np.ndarray]]:
    """Return the results of both readers for the same inputs."""
    graph = read_model(content).main
    ours = evaluate(graph, dict(zip(graph.arguments, arrays, strict=True)))
    session = runtime.InferenceSession(content, providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_inputs()]
    theirs = session.run(None, dict(zip(names, arrays, strict=True)))
    return {"our reader": list(ours.values()), "ONNX Runtime": theirs}


def differences(graph: Graph, simple: bool) -> list[str]:
    generator = np.random.default_rng(3)
    types = [graph.types[name] for name in graph.arguments]
    arrays = [generator.uniform(-2, 2, t.shape).astype(t.dtype.numpy) for t in types]
    expected = evaluate(graph, dict(zip(graph.arguments, arrays, strict=True)))
    graph = simplify(graph, True, ignore_progress)[0] if simple else graph
    content = formats()["onnx"].write(WritableModel(graph, graph.arguments, graph.results))
    wrong = []
    for who, results in run_both_readers(content, arrays).items():
        for (name, expected_value), result in zip(expected.items(), results, strict=True):
            reach = max(1.0, float(np.abs(expected_value.astype(np.float64)).max(initial=0)))
            if np.isfinite(reach) and not np.allclose(
                result, expected_value, atol=TOLERANCE * reach
            ):
                wrong.append(
                    f"{who}, {name}: off by {np.abs(result - expected_value).max() / reach:.2e}"
                )
    return wrong


@pytest.mark.parametrize("simple", [False, True], ids=["as it is", "simplified"])
@pytest.mark.parametrize("group", range(GROUPS))
def test_written_graphs_agree_in_both_readers(group: int, simple: bool) -> None:
    for seed in range(group * PER_GROUP, (group + 1) * PER_GROUP):
        graph = Random(seed).graph(size=4 + seed % 40)
        assert differences(graph, simple) == [], f"seed {seed}"
