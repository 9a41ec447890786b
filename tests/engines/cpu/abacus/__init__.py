"""A CPU engine for tests: it runs the files of the format `chain`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fourfold.backends.cpu.protocol import Direct, Lock, RunModel
from fourfold.compiler.partition import Unit
from fourfold.errors import InputError
from fourfold.formats import Model
from fourfold.plan import Part

FUNCTIONS = {
    "Relu": lambda x: np.maximum(x, 0),
    "Wobble": lambda x: np.sin(3 * x) + x / 2,
    "Square": np.square,
}
OPENED: list[bytes] = []  # the files that it was opened with, for tests to inspect


def compute(content: bytes, x: np.ndarray) -> dict[str, np.ndarray]:
    """Return all values of a chain by name."""
    file: Mapping[str, Any] = json.loads(content)
    if list(x.shape) != file["shape"]:
        raise InputError("abacus does not take this shape", str(x.shape), "leave --shape out")
    values = {file["input"]: x}
    for source, (op, name) in zip((file["input"], *_names(file)), file["chain"], strict=False):
        values[name] = FUNCTIONS[op](values[source]).astype(np.float32)
    return values


def _names(file: Mapping[str, Any]) -> list[str]:
    return [name for _, name in file["chain"]]


class AbacusPart:
    def __init__(self, part: Part) -> None:
        OPENED.append(part.content)
        self._content, (self._inputs, self._outputs) = part.content, part.bindings

    def run(
        self, arrays: Sequence[np.ndarray], wanted: Sequence[bool] | None = None
    ) -> list[np.ndarray]:
        values = compute(self._content, self._inputs[0].into_file(arrays[0]))
        return [one.into_graph(values[str(one.tensor)]) for one in self._outputs]

    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return {}

    def direct(
        self, inputs: Mapping[str, str], outputs: Mapping[str, str], lock: Lock
    ) -> Direct | None:
        return None

    def reset(self) -> None:
        pass

    def close(self) -> None:
        pass


class AbacusValues:
    def __init__(self, values: Mapping[str, np.ndarray]) -> None:
        self._values = values

    def has(self, value: str) -> bool:
        return value in self._values

    def value(self, value: str) -> np.ndarray:
        return self._values[value]


class Abacus:
    name, title = "abacus", "Abacus"
    install = "pip install abacus"
    present = True

    def installed(self) -> bool:
        return self.present

    def version(self) -> str:
        return "abacus 7"

    def refusal(self, model: Model, unit: Unit) -> str:
        return "" if unit.title in FUNCTIONS else "Abacus has no such bead"

    def open_part(self, part: Part, threads: int) -> AbacusPart:
        return AbacusPart(part)

    def open_model(
        self, model: str | bytes, inputs: Mapping[str, np.ndarray], threads: int | None
    ) -> RunModel:
        content = model if isinstance(model, bytes) else Path(model).read_bytes()
        (x,) = inputs.values()
        last = _names(json.loads(content))[-1]
        return lambda: [compute(content, x)[last]]

    def compute_values(self, model: Model, inputs: Sequence[np.ndarray]) -> AbacusValues:
        assert model.source_graph is not None
        return AbacusValues(compute(model.source_graph.content, inputs[0]))


ENGINE = Abacus()
