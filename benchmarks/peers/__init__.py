"""Other engines, one a file: each opens a model and gives a function that runs it once.

What an engine cannot read it gets translated from fourfold's own graph (translate.py), so that all
run the same network with the same weights.
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
AT = "@"  # 'ours@opencl:0' is fourfold on another device than it is asked to be
MEAN, STD = 127.5, 127.5  # of pictures as bytes
TITLES = {
    OURS: "fourfold",
    "litert": "LiteRT",
    "onnx_runtime": "ONNX Runtime",
    "pytorch": "PyTorch",
    "ncnn_vulkan": "ncnn",
    "tinygrad_opencl": "tinygrad",
}
# Passes that make ops of our own, or other ones than a network was written with.
OWN = {"find_variance", "fold_channel_pads", "split_transposed", "fuse_diamonds"}
OWN |= {"sink_reshapes", "inline_pointwise", "read_planes", "write_planes"}
Arrays = list[np.ndarray]


class Missing(Exception):
    """Why a peer cannot take part: it is not installed, or lacks what the network needs."""


@dataclass(frozen=True)
class Task:
    """A model with a batch size, and how it is to be run."""

    model: Path
    batch: int
    precision: str
    device: str
    threads: int
    prepared: bool = False  # whether fourfold opens a file that it prepared, not the model

    @cached_property
    def shapes(self) -> dict[str, Shape]:
        """The inputs' shapes by name, where they are not the file's own."""
        main = read_model(str(self.model)).main
        sizes = {name: main.types[name].shape for name in main.inputs}
        return {name: (self.batch, *shape[1:]) for name, shape in sizes.items() if shape}

    @cached_property
    def graph(self) -> Graph:
        """The network without what is gained by ops that only fourfold has."""
        graph = read_model(str(self.model), ReadOptions(self.shapes)).main
        for pass_ in PIPELINE:
            graph = graph if pass_.__name__ in OWN else pass_(graph)
        return graph

    @property
    def half(self) -> bool:
        return self.precision != "fp32"

    def arrays(self) -> Arrays:
        """Seeded random inputs, as the model's file has them: NHWC."""
        ports = [_Port(name, self.graph) for name in self.graph.inputs]
        return list(random_inputs(ports, seed=0).values())


class _Port:
    def __init__(self, name: str, graph: Graph) -> None:
        self.name, type_ = name, graph.types[name]
        self.shape, self.dtype = type_.shape, type_.dtype.numpy


@dataclass(frozen=True)
class Opened:
    """A peer that is ready. `run` goes from NumPy to NumPy; `device` leaves the transfers out;
    `check` gives the outputs to judge it by, where those of `run` are not meant for that. `ways`
    open more ways to run it, when they are first asked for.
    """

    run: Callable[[], Sequence[np.ndarray]]
    device: Callable[[], object] | None = None
    check: Callable[[], Sequence[np.ndarray]] | None = None
    planes: bool = False  # whether outputs of rank four are NCHW
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
    """A picture of seeded random bytes for a model of one; Missing for other models."""
    shapes = [task.graph.types[name].shape for name in task.graph.inputs]
    if len(shapes) != 1 or len(shapes[0]) != 4 or shapes[0][-1] != 3:
        raise Missing("the model takes no picture")
    return np.random.default_rng(0).integers(0, 256, shapes[0], np.uint8)


def planes(array: np.ndarray) -> np.ndarray:
    """NHWC as NCHW; other ranks as they are."""
    return np.ascontiguousarray(array.transpose(0, 3, 1, 2)) if array.ndim == 4 else array


def rows(array: np.ndarray) -> np.ndarray:
    """NCHW as NHWC."""
    return array.transpose(0, 2, 3, 1) if array.ndim == 4 else array
