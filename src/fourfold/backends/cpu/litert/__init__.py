"""LiteRT, the runtime of TFLite files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fourfold.backends.cpu.litert import interpreter
from fourfold.backends.cpu.litert.part import LitertPart, LitertValues
from fourfold.backends.cpu.protocol import RunModel
from fourfold.backends.cpu.runtimes import first_line
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


class Litert:
    """LiteRT as a CPU engine: each part is a file cut from the model's."""

    name, title = "litert", "LiteRT"
    install = "pip install 'fourfold[litert]'"

    def installed(self) -> bool:
        return interpreter.runtime() is not None

    def version(self) -> str:
        return describe(*interpreter.PACKAGES)

    def refusal(self, model: Model, unit: Unit) -> str:
        """Return why LiteRT cannot run a unit. It runs all TFLite operators; a file with only the
        operator is opened to check a custom one.
        """
        if not unit.title.startswith("CUSTOM"):
            return ""
        source = model.source_graph
        assert source is not None, "units of a file have a source graph"
        content = source.write([unit.name], source.reads(unit.name), source.writes(unit.name))
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
