"""A part of a Paddle program opened in Paddle Inference, and all values of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fourfold.backends.cpu.paddle.inference import (
    FAILURES,
    last_words,
    open_predictor,
    run_predictor,
)
from fourfold.backends.cpu.protocol import Lock, Wanted
from fourfold.backends.cpu.runtimes import refused_part
from fourfold.errors import DeviceError
from fourfold.plan.tensor_binding import TensorBinding
from fourfold.types import Shape

if TYPE_CHECKING:
    from fourfold.formats import Model


class PaddlePart:
    """A program opened in Paddle Inference. Results are new arrays."""

    def __init__(
        self,
        content: bytes,
        inputs: Sequence[TensorBinding],
        outputs: Sequence[TensorBinding],
        threads: int | None = None,
    ) -> None:
        self._inputs, self._outputs = tuple(inputs), tuple(outputs)
        try:
            self._predictor = open_predictor(content, threads)
        except FAILURES as error:
            raise refused_part("Paddle Inference", self._outputs, last_words(error)) from error

    def run(self, arrays: Sequence[np.ndarray], wanted: Wanted | None = None) -> list[Any]:
        feeds = {
            str(binding.tensor): binding.into_file(array)
            for binding, array in zip(self._inputs, arrays, strict=True)
        }
        wanted = [True] * len(self._outputs) if wanted is None else wanted
        pairs = list(zip(self._outputs, wanted, strict=True))
        names = [str(binding.tensor) for binding, needed in pairs if needed]
        try:
            results = iter(run_predictor(self._predictor, feeds, names))
        except FAILURES as error:
            raise DeviceError(
                "Paddle Inference could not run its part of the model",
                last_words(error),
                "check that the model accepts these inputs; Paddle itself reports this error",
            ) from error
        return [next(results) if needed else None for _, needed in pairs]

    def shapes(self) -> Mapping[str, Shape]:
        """Return nothing: Paddle knows shapes only after a run."""
        return {}

    def direct(self, inputs: Mapping[str, str], outputs: Mapping[str, str], lock: Lock) -> None:
        """Return None: there is no faster path than `run`."""

    def reset(self) -> None:
        """Do nothing: there are no states."""

    def close(self) -> None:
        self._predictor = None


class PaddleValues:
    """All values of a model after one run in Paddle."""

    def __init__(self, model: Model, inputs: Sequence[np.ndarray]) -> None:
        source, graph = model.source_graph, model.main
        assert source is not None, "a model that runs in parts has a source graph"
        results = [
            name
            for unit in source.titles
            for name in source.writes(unit)
            if name in graph.types and name not in graph.constants
        ]
        names = graph.arguments
        content = source.write(list(source.titles), names, results)
        inner, outer = (
            [TensorBinding(one, one, graph.types[one]) for one in ports]
            for ports in (names, results)
        )
        arrays = PaddlePart(content, inner, outer).run(inputs)
        self._source = source
        self._values: dict[str, np.ndarray] = {
            **dict(zip(results, arrays, strict=True)),
            **dict(zip(names, inputs, strict=True)),
        }

    def _tensor(self, value: str) -> str:
        return str(self._source.tensor(value))

    def has(self, value: str) -> bool:
        return self._tensor(value) in self._values

    def value(self, value: str) -> np.ndarray:
        return self._values[self._tensor(value)]
