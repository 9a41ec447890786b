"""ONNX Runtime, which runs ONNX files on the CPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fourfold.backends.cpu.onnxruntime import inference
from fourfold.backends.cpu.onnxruntime.part import OnnxPart, OnnxValues
from fourfold.backends.cpu.protocol import RunModel
from fourfold.backends.cpu.runtimes import RuntimeEngine, first_line
from fourfold.support.packages import describe

if TYPE_CHECKING:
    from fourfold.formats import Model
    from fourfold.formats.units import Unit
    from fourfold.plan import Part


class OnnxRuntime(RuntimeEngine):
    """ONNX Runtime as a CPU engine: each part is a file cut from the model's."""

    name, title = "onnxruntime", "ONNX Runtime"
    install = "pip install 'fourfold[onnx]'"

    def installed(self) -> bool:
        return inference.runtime() is not None

    def version(self) -> str:
        return describe("onnxruntime")

    def is_tried(self, unit: Unit) -> bool:
        """Return True for operators of other domains. ONNX Runtime runs ONNX's own, except for a
        few types.
        """
        return "." in unit.title

    def try_file(self, content: bytes) -> str:
        try:
            inference.open_session(content, 1)
        except inference.failures() as error:
            return f"ONNX Runtime cannot run it: {first_line(error)}"
        return ""

    def open_part(self, part: Part, threads: int) -> OnnxPart:
        return OnnxPart(part.content, part.bindings[0], part.bindings[1], threads)

    def open_model(
        self, model: str | bytes, inputs: Mapping[str, np.ndarray], threads: int | None
    ) -> RunModel:
        return inference.open_file(model, inputs, threads)

    def compute_values(self, model: Model, inputs: Sequence[np.ndarray]) -> OnnxValues:
        return OnnxValues(model, inputs)


ENGINE = OnnxRuntime()
