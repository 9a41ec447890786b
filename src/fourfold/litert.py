"""fourfold inside LiteRT: a delegate for the interpreters of ai_edge_litert, tflite_runtime and TF.

interpreter = Interpreter(path, experimental_delegates=[GpuDelegate(path)])
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Any

from fourfold import players
from fourfold.config import Config
from fourfold.delegate.claim import Claims
from fourfold.delegate.engine import Workshop
from fourfold.delegate.native import NativeDelegate
from fourfold.delegate.options import GpuOptions
from fourfold.delegate.source import Source, read_source
from fourfold.device import DeviceInfo
from fourfold.errors import Refusal, UnsupportedError

__all__ = ["Claims", "GpuDelegate", "GpuOptions"]
log = logging.getLogger("fourfold")


class GpuDelegate:
    """Runs what it can of a model on the GPU, inside an interpreter of TFLite.

    `model` is the file, or the bytes, that the interpreter has. `device` is as in Session.
    `on_fallback` is called with the name, op and reason of every node that is left to the
    interpreter. Further options are those of TFLite's own GPU delegate; see GpuOptions.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | bytes,
        device: str | int | DeviceInfo | None = None,
        on_fallback: Callable[[Refusal], None] | None = None,
        **options: Any,
    ) -> None:
        self.options = GpuOptions.of(options)
        config = Config.from_environment()
        self.device = players.find_device(config.device if device is None else device)
        self._model, self._on_fallback = model, on_fallback
        self._native = NativeDelegate(self._source, Workshop(self.device, self.options))
        self._native.on_claims = self._tell
        self._sources: dict[int, Source | None] = {0: self._read_first()}

    @property
    def precision(self) -> str:
        return self.options.precision

    @property
    def claims(self) -> Claims | None:
        """What was claimed of the main graph, and why not the rest; None before there was one."""
        return self._native.claims.get(0)

    @property
    def last_error(self) -> BaseException | None:
        """What was raised last inside of the interpreter, or why nothing was claimed."""
        return self._native.last_error

    def _get_native_delegate_pointer(self) -> int:
        """What interpreters ask a delegate for."""
        return self._native.address

    def _read_first(self) -> Source | None:
        """The main graph; None if its very inputs are nothing for a GPU."""
        try:
            return read_source(self._model, self.options)
        except UnsupportedError as error:
            self._native.last_error = error
            log.warning("nothing of this model runs on the GPU: %s", error)
            return None

    def _source(self, number: int) -> Source | None:
        if number not in self._sources:
            self._sources[number] = read_source(self._model, self.options, number)
        return self._sources[number]

    def _tell(self, claims: Claims) -> None:
        if self._on_fallback is not None:
            for refusal in claims.refusals:
                self._on_fallback(refusal)
