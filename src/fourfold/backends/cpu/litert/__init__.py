"""LiteRT, the runtime of TFLite files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fourfold.backends.cpu.litert import interpreter
from fourfold.backends.cpu.litert.part import LitertPart, LitertValues
from fourfold.backends.cpu.protocol import RunModel
from fourfold.backends.cpu.runtimes import RuntimeEngine, first_line
from fourfold.errors import ModelError
from fourfold.support.lazy import lazy_import
from fourfold.support.packages import describe

if TYPE_CHECKING:
    from fourfold.formats import Model
    from fourfold.formats.tflite import reader, verify
    from fourfold.formats.units import Unit
    from fourfold.plan import Part
else:  # a part was checked when the model was compiled
    reader = lazy_import("fourfold.formats.tflite.reader")
    verify = lazy_import("fourfold.formats.tflite.verify")


class Litert(RuntimeEngine):
    """LiteRT as a CPU engine: each part is a file cut from the model's."""

    name, title = "litert", "LiteRT"
    install = "pip install 'fourfold[litert]'"

    def installed(self) -> bool:
        return interpreter.runtime() is not None

    def version(self) -> str:
        return describe(*interpreter.PACKAGES)

    def is_tried(self, unit: Unit) -> bool:
        """Return True for custom operators. LiteRT runs all others."""
        return unit.title.startswith("CUSTOM")

    def try_file(self, content: bytes) -> str:
        try:
            interpreter.allocate(interpreter.make_interpreter(content, 1))
        except (ValueError, RuntimeError) as error:
            return f"LiteRT cannot run it: {first_line(error)}"
        return ""

    def open_part(self, part: Part, threads: int) -> LitertPart:
        return LitertPart(part.content, part.bindings[0], part.bindings[1], threads)

    def open_model(
        self, model: str | bytes, inputs: Mapping[str, np.ndarray], threads: int | None
    ) -> RunModel:
        if isinstance(model, str):
            with open(model, "rb") as file:
                model = file.read()
        reason = verify.refuse_file(reader.read_file(model, "the model"))
        if reason:
            what, fix = "LiteRT must not read the model", "export the model again"
            raise ModelError(what, f"it is damaged: {reason}", fix)
        return interpreter.open_file(model, list(inputs.values()), threads)

    def compute_values(self, model: Model, inputs: Sequence[np.ndarray]) -> LitertValues:
        return LitertValues(model, inputs)


ENGINE = Litert()
