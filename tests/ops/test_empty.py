"""Tensors without elements work as inputs, constants and results."""

from __future__ import annotations

import numpy as np
import pytest

from fourfold.backends import make_player
from fourfold.codegen.context import KernelOptions
from fourfold.codegen.location import slice_channels
from fourfold.compiler.lower import make_plan
from fourfold.device import DeviceInfo
from fourfold.graph import Graph, Node
from fourfold.types import TensorType

TYPES = {"x": "f32[2,0,3]", "none": "f32[2,0,3]", "y": "f32[2,0,3]", "a": "f32[3]", "b": "f32[3]"}


@pytest.mark.parametrize("shape", [(0,), (2, 0, 3), (2, 3, 0)])
def test_empty_tensors_have_no_slices(shape: tuple[int, ...]) -> None:
    assert slice_channels(np.zeros(shape, np.float32)).array.size == 0


@pytest.mark.parametrize("form", ["list", "one"])
def test_empty_values_next_to_others(form: str, device: DeviceInfo) -> None:
    types = {name: TensorType.parse(text) for name, text in TYPES.items()}
    nodes = (Node("add", ("x", "none"), ("y",)), Node("tanh", ("a",), ("b",)))
    empty = np.zeros((2, 0, 3), np.float32)
    graph = Graph(nodes, ("x", "a"), ("y", "b"), types, {"none": empty})
    player = make_player(device, make_plan(graph, device, KernelOptions(form=form)))
    nothing, some = player.run([empty, np.ones(3, np.float32)])
    player.close()
    assert nothing.shape == (2, 0, 3)
    np.testing.assert_allclose(some, np.tanh(np.ones(3)), rtol=1e-6)
