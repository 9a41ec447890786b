"""A part of a Paddle program, written as a program, opened in Paddle Inference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fourfold.backends.cpu.paddle.inference import (
    FAILURES,
    last_words,
    open_predictor,
    run_predictor,
)
from fourfold.backends.cpu.protocol import Lock, Wanted
from fourfold.backends.cpu.refusal import refused_part
from fourfold.errors import DeviceError
from fourfold.plan.tensor_binding import TensorBinding
from fourfold.types import Shape


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
