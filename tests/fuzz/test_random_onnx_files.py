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


def ignore(name: str) -> None:
    """Nobody listens."""


def answers(content: bytes, arrays: list[np.ndarray]) -> dict[str, list[np.ndarray]]:
    """What both readers of a file make of the same inputs."""
    graph = read_model(content).main
    ours = evaluate(graph, dict(zip(graph.arguments, arrays, strict=True)))
    session = runtime.InferenceSession(content, providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_inputs()]
    theirs = session.run(None, dict(zip(names, arrays, strict=True)))
    return {"our reader": list(ours.values()), "ONNX Runtime": theirs}


def complaints(graph: Graph, simple: bool) -> list[str]:
    generator = np.random.default_rng(3)
    types = [graph.types[name] for name in graph.arguments]
    arrays = [generator.uniform(-2, 2, t.shape).astype(t.dtype.numpy) for t in types]
    expected = evaluate(graph, dict(zip(graph.arguments, arrays, strict=True)))
    graph = simplify(graph, True, ignore)[0] if simple else graph
    content = formats()["onnx"].write(WritableModel(graph, graph.arguments, graph.results))
    wrong = []
    for who, results in answers(content, arrays).items():
        for (name, wanted), found in zip(expected.items(), results, strict=True):
            reach = max(1.0, float(np.abs(wanted.astype(np.float64)).max(initial=0)))
            if np.isfinite(reach) and not np.allclose(found, wanted, atol=TOLERANCE * reach):
                wrong.append(f"{who}, {name}: off by {np.abs(found - wanted).max() / reach:.2e}")
    return wrong


@pytest.mark.parametrize("simple", [False, True], ids=["as it is", "simplified"])
@pytest.mark.parametrize("group", range(GROUPS))
def test_written_graphs_compute_the_same(group: int, simple: bool) -> None:
    for seed in range(group * PER_GROUP, (group + 1) * PER_GROUP):
        graph = Random(seed).graph(size=4 + seed % 40)
        assert complaints(graph, simple) == [], f"seed {seed}"
