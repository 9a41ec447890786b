"""Stateful operators: the references agree with LiteRT in every run."""

from __future__ import annotations

import numpy as np
import pytest
from stateful_models import MODELS, InStep

from fourfold.backends.cpu.reference import evaluate
from fourfold.formats import read_model

interpreters = pytest.importorskip("ai_edge_litert.interpreter", reason="LiteRT is not installed")


@pytest.mark.parametrize("name", list(MODELS))
def test_reference_states_agree_with_litert(name: str) -> None:
    model = MODELS[name]()
    rival, graph, states = InStep(interpreters, model), read_model(model).main, {}
    assert graph.arguments == ("x",)
    assert graph.states
    for seed in range(4):
        x = rival.draw(seed)
        result = evaluate(graph, {"x": x}, states).values()
        for array, expected in zip(result, rival.run(x), strict=True):
            assert array.shape == expected.shape
            np.testing.assert_allclose(array, expected, rtol=1e-5, atol=1e-5)
