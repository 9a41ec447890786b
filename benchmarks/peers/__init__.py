"""Other engines, one per file: each opens a model and returns a function that runs it once.

Engines that cannot read the file get the network translated from fourfold's graph (translate.py),
so that all run the same network with the same weights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from fourfold.compiler.rewrite import PIPELINE
from fourfold.formats import ReadOptions, read_model
from fourfold.graph import Graph
from fourfold.runtime.random_inputs import random_inputs
from fourfold.types import Shape

OURS = "ours"
AT = "@"  # 'ours@opencl:0' is fourfold on another device
MEAN, STD = 127.5, 127.5  # normalization of images that are passed as bytes
TITLES = {
    OURS: "fourfold",
    "litert": "LiteRT",
    "onnx_runtime": "ONNX Runtime",
    "pytorch": "PyTorch",
    "ncnn_vulkan": "ncnn",
    "tinygrad_opencl": "tinygrad",
}
# Passes that create operators of our own, or others than those of the network.
OWN = {"find_variance", "fold_channel_pads", "split_transposed", "fuse_diamonds"}
OWN |= {"sink_reshapes", "inline_pointwise", "read_planes", "write_planes"}
Arrays = list[np.ndarray]


class Missing(Exception):
    """A peer cannot take part: it is not installed, or does not support the network."""


@dataclass(frozen=True)
class Task:
    """A model with a batch size and the options of a run."""

    model: Path
    batch: int
    precision: str
    device: str
    threads: int
    prepared: bool = False  # fourfold opens a prepared file instead of the model

    @cached_property
    def shapes(self) -> dict[str, Shape]:
        """Shapes of the inputs with the batch size of the task."""
        main = read_model(str(self.model)).main
        sizes = {name: main.types[name].shape for name in main.inputs}
        return {name: (self.batch, *shape[1:]) for name, shape in sizes.items() if shape}

    @cached_property
    def graph(self) -> Graph:
        """The network, rewritten without operators that only fourfold has."""
        graph = read_model(str(self.model), ReadOptions(self.shapes)).main
        for pass_ in PIPELINE:
            graph = graph if pass_.__name__ in OWN else pass_(graph)
        return graph

    @property
    def half(self) -> bool:
        return self.precision != "fp32"

    def arrays(self) -> Arrays:
        """Return seeded random inputs in the layout of the file: NHWC."""
        ports = [_Port(name, self.graph) for name in self.graph.inputs]
        return list(random_inputs(ports, seed=0).values())


class _Port:
    def __init__(self, name: str, graph: Graph) -> None:
        self.name, type_ = name, graph.types[name]
        self.shape, self.dtype = type_.shape, type_.dtype.numpy


@dataclass(frozen=True)
class Opened:
    """An opened model of a peer. `run` goes from NumPy to NumPy, `device` excludes transfers.
    `check` returns the outputs to compare, if those of `run` are not exact. `ways` open further
    run modes on first use.
    """

    run: Callable[[], Sequence[np.ndarray]]
    device: Callable[[], object] | None = None
    check: Callable[[], Sequence[np.ndarray]] | None = None
    planes: bool = False  # outputs of rank four are NCHW
    facts: Mapping[str, Any] = field(default_factory=dict)
    ways: Mapping[str, Callable[[], Callable[[], object]]] = field(default_factory=dict)


def open_peer(name: str, task: Task) -> Opened:
    engine, _, device = name.partition(AT)
    task = replace(task, device=device) if device else task
    opened: Opened = import_module(f"peers.{engine}").open_peer(task)
    return opened


def is_ours(name: str) -> bool:
    return name.partition(AT)[0] == OURS


def title_of(name: str) -> str:
    engine, _, device = name.partition(AT)
    return f"{TITLES[engine]} {device}".rstrip()


def picture_of(task: Task) -> np.ndarray:
    """Return an image of random bytes; raises Missing if the model takes no image."""
    shapes = [task.graph.types[name].shape for name in task.graph.inputs]
    if len(shapes) != 1 or len(shapes[0]) != 4 or shapes[0][-1] != 3:
        raise Missing("the model takes no image")
    return np.random.default_rng(0).integers(0, 256, shapes[0], np.uint8)


def planes(array: np.ndarray) -> np.ndarray:
    """Convert NHWC to NCHW; other ranks are unchanged."""
    return np.ascontiguousarray(array.transpose(0, 3, 1, 2)) if array.ndim == 4 else array


def rows(array: np.ndarray) -> np.ndarray:
    """Convert NCHW to NHWC; other ranks are unchanged."""
    return array.transpose(0, 2, 3, 1) if array.ndim == 4 else array
