"""OpenInstance: a model whose input sizes are open, until a run or `resize` sets them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from fourfold.errors import InputError
from fourfold.runtime.about import About
from fourfold.runtime.instance import not_direct
from fourfold.runtime.request import Request
from fourfold.runtime.tensor_info import TensorInfo


class OpenInstance:
    """Stands in for the compiled model of a session. It knows the inputs as the file declares them.

    Outputs, placement and plan are unknown until the model is compiled; to ask for them, or for
    anything else of a compiled model, is an InputError.
    """

    direct = staticmethod(not_direct)
    outputs: tuple[TensorInfo, ...] = ()
    output_names: tuple[str, ...] = ()
    origin = "model"
    in_parts = False
    device_share = SimpleNamespace(bytes=0)

    def __init__(self, request: Request, error: InputError) -> None:
        self.request, self._error, self.about = request, error, About(b"")
        self.inputs = tuple(
            TensorInfo(one.name, one.sizes, one.dtype.array_dtype, signature=one.sizes)
            for one in error.open_inputs
        )
        self.input_names = tuple(info.name for info in self.inputs)

    def reset(self) -> None:
        """Reset nothing: there are no states yet."""

    def drain(self) -> None:
        """Wait for nothing: no run has begun."""

    def close(self) -> None:
        """Free nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        names = ", ".join(f"{info.name} {info.type_text}" for info in self.inputs)
        raise InputError(
            "the model is not compiled yet",
            f"it leaves sizes of its inputs open: {names}",
            f"run it, call session.resize, or open it with sizes: {self._error.fix}",
        )
