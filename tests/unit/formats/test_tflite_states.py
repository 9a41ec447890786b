"""Operators that remember: the references agree with LiteRT, run after run."""

from __future__ import annotations

import numpy as np
import pytest
from stateful_models import MODELS, InStep

from fourfold.backends.cpu.reference import evaluate
from fourfold.formats import read_model

interpreters = pytest.importorskip("ai_edge_litert.interpreter", reason="LiteRT is not installed")


@pytest.mark.parametrize("name", list(MODELS))
def test_the_references_remember_as_litert_does(name: str) -> None:
    model = MODELS[name]()
    rival, graph, states = InStep(interpreters, model), read_model(model).main, {}
    assert graph.arguments == ("x",)
    assert graph.states
    for seed in range(4):
        x = rival.draw(seed)
        found = evaluate(graph, {"x": x}, states).values()
        for array, expected in zip(found, rival.run(x), strict=True):
            assert array.shape == expected.shape
            np.testing.assert_allclose(array, expected, rtol=1e-5, atol=1e-5)
