"""Runs parts one after the other and hands the values between them on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fourfold.device import GPU
from fourfold.errors import InputError
from fourfold.plan.hybrid import HybridPart
from fourfold.types import TensorType


class Engine(Protocol):
    """Whoever runs a part: arrays in, arrays out, in the order of the part's values."""

    def run(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]: ...

    def reset(self) -> None: ...

    def close(self) -> None: ...


Visitor = Callable[[Engine, Sequence[np.ndarray]], None]


@dataclass(frozen=True)
class Step:
    """A part and who runs it."""

    part: HybridPart
    engine: Engine


class Runner:
    """A model in parts. Not safe for two threads at once; the session sees to that."""

    def __init__(
        self,
        steps: Sequence[Step],
        inputs: Sequence[str],
        outputs: Sequence[str],
        types: Mapping[str, TensorType],
    ) -> None:
        self.steps = tuple(steps)
        self._inputs, self._outputs, self._types = tuple(inputs), tuple(outputs), types
        self._last = {name: i for i, step in enumerate(steps) for name in step.part.inputs}
        self._last |= dict.fromkeys(outputs, len(steps))

    def run(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The model's outputs for its inputs, both in the model's order, as new arrays."""
        return self.visit(arrays, lambda engine, given: None)

    def visit(self, arrays: Sequence[np.ndarray], visitor: Visitor) -> list[np.ndarray]:
        """The same; a visitor sees each engine with what it gets before it runs."""
        values = dict(zip(self._inputs, arrays, strict=True))
        fresh: set[str] = set()  # results that nobody else holds
        for number, step in enumerate(self.steps):
            part = step.part
            given = [self._given(name, values[name], part) for name in part.inputs]
            visitor(step.engine, given)
            values.update(zip(part.outputs, step.engine.run(given), strict=True))
            fresh.update(part.outputs if part.target == GPU else ())
            for name in part.inputs:
                if self._last[name] == number:
                    values.pop(name, None)
        return [values[name] if name in fresh else values[name].copy() for name in self._outputs]

    def _given(self, name: str, array: np.ndarray, part: HybridPart) -> np.ndarray:
        """A value as a part can take it: a GPU part was made for one shape."""
        expected = self._types[name]
        if part.target == GPU and array.shape != expected.shape:
            raise InputError(
                f"'{name}' came out as {list(array.shape)}",
                f"the GPU's part was made for {list(expected.shape)}, as the file says",
                "open the model with placement='cpu', or give it inputs of the file's own shapes",
            )
        return np.asarray(array, order="C") if part.target == GPU else array

    def reset(self) -> None:
        """Forget all states."""
        for step in self.steps:
            step.engine.reset()

    def close(self) -> None:
        for step in self.steps:
            step.engine.close()
