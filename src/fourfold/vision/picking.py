"""Decode boxes with NumPy: evaluate the nodes that `postprocess=` appends to a model."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from fourfold.backends.cpu.reference import evaluate
from fourfold.compiler.postprocess import attach_postprocess
from fourfold.formats import Model
from fourfold.graph import Graph
from fourfold.types import TensorType

if TYPE_CHECKING:
    from fourfold.processing.option import Processing

Types = tuple[tuple[str, TensorType], ...]
Arrays = Mapping[str, np.ndarray]


def pick_boxes(option: Processing, outputs: Arrays) -> dict[str, np.ndarray]:
    """Apply a post-processing option to outputs. Returns `boxes`, `scores`, `count` and more."""
    real = {name: np.asarray(array, np.float32) for name, array in outputs.items()}
    types = tuple((name, TensorType.of(array)) for name, array in real.items())
    model = _decoder(option, types)
    results = evaluate(model.main, real)
    ports = zip(model.output_names, model.main.results, strict=True)
    return {name: results[value] for name, value in ports}


@lru_cache(maxsize=16)  # the frames of a video have the same shapes
def _decoder(option: Processing, types: Types) -> Model:
    names = tuple(name for name, _ in types)
    outputs = Graph((), names, names, dict(types))
    return attach_postprocess(Model(outputs, names, names), option)
