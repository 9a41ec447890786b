"""Paddle Inference, which runs Paddle models on the CPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fourfold.backends.cpu.paddle import inference
from fourfold.backends.cpu.paddle.part import PaddlePart, PaddleValues
from fourfold.backends.cpu.protocol import ModelValues, RunModel
from fourfold.backends.cpu.runtimes import RuntimeEngine
from fourfold.support.lazy import lazy_import

if TYPE_CHECKING:
    from fourfold.backends.cpu import numpy as definitions
    from fourfold.formats import Model
    from fourfold.formats.units import Unit
    from fourfold.plan import Part
else:
    definitions = lazy_import("fourfold.backends.cpu.numpy")


class Paddle(RuntimeEngine):
    """Paddle Inference as a CPU engine: each part is a program cut from the model's."""

    name, title = "paddle", "Paddle Inference"
    install = "pip install 'fourfold[paddle]'"

    def installed(self) -> bool:
        return inference.installed()

    def version(self) -> str:
        return inference.version()

    def is_tried(self, unit: Unit) -> bool:
        """Return True for operators that fourfold does not know."""
        return unit.foreign is not None

    def try_file(self, content: bytes) -> str:
        try:
            inference.open_predictor(content, 1)
        except inference.FAILURES as error:
            return f"Paddle Inference cannot run it: {inference.last_words(error)}"
        return ""

    def open_part(self, part: Part, threads: int) -> PaddlePart:
        return PaddlePart(part.content, part.bindings[0], part.bindings[1], threads)

    def open_model(
        self, model: str | bytes, inputs: Mapping[str, np.ndarray], threads: int | None
    ) -> RunModel:
        return inference.open_file(model, inputs, threads)

    def compute_values(self, model: Model, inputs: Sequence[np.ndarray]) -> ModelValues:
        """Return all values of a model. Programs in JSON cannot be cut, so the NumPy definitions
        compute their values.
        """
        if model.source_graph is None:
            return definitions.NumpyValues(model, inputs)
        return PaddleValues(model, inputs)


ENGINE = Paddle()
