"""A part of a Paddle program, written as a program of its own, made ready in Paddle Inference."""

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
    """A program made ready in Paddle Inference. Its results are new arrays."""

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
        given = {
            str(binding.tensor): binding.into_file(array)
            for binding, array in zip(self._inputs, arrays, strict=True)
        }
        wanted = [True] * len(self._outputs) if wanted is None else wanted
        pairs = list(zip(self._outputs, wanted, strict=True))
        names = [str(binding.tensor) for binding, needed in pairs if needed]
        try:
            found = iter(run_predictor(self._predictor, given, names))
        except FAILURES as error:
            raise DeviceError(
                "Paddle Inference could not run its part of the model",
                last_words(error),
                "check that the inputs are what the model expects; Paddle alone would fail, too",
            ) from error
        return [next(found) if needed else None for _, needed in pairs]

    def shapes(self) -> Mapping[str, Shape]:
        """None: Paddle knows shapes when it has run."""
        return {}

    def direct(self, inputs: Mapping[str, str], outputs: Mapping[str, str], lock: Lock) -> None:
        """There is no shorter way than `run`."""

    def reset(self) -> None:
        """Nothing is kept between runs."""

    def close(self) -> None:
        self._predictor = None
