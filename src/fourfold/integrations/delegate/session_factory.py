"""Open parts of a model as GPU sessions, for the current shapes of the interpreter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fourfold.compiler.compile import load_model, prepare_lowering
from fourfold.compiler.tune import find_level, tune
from fourfold.config import Config
from fourfold.device import DeviceInfo
from fourfold.integrations.delegate.options import GpuOptions
from fourfold.options import CompileOptions
from fourfold.session import Session
from fourfold.store.keys import device_key
from fourfold.store.store import Store, folder_store, memory_store
from fourfold.tools.preparation import ChoiceSaver
from fourfold.types import Shape

TUNING_LEVEL = "rapid"


@dataclass(frozen=True)
class SessionFactory:
    """Opens sessions for parts of a model, with the options of a delegate."""

    device: DeviceInfo
    options: GpuOptions

    def open(self, content: bytes, shapes: Mapping[str, Shape]) -> Session:
        """Open a session for a part. Raises UnsupportedError if the GPU cannot run it."""
        store = self._store()
        if self.options.tuning_seconds > 0:
            store = store or memory_store()
            self._tune(content, shapes, store)
        return Session(
            content,
            device=self.device,
            precision=self.options.precision,
            shapes=shapes,
            cache=store,
            model_token=self.options.model_token or "",
            strict=True,
            follow_batch=False,
        )

    def _store(self) -> Store | None:
        """Return the store in TFLite's folder, or in the folder of sessions."""
        config = Config.from_environment()
        folder = self.options.serialization_dir or config.cache
        return None if folder is None else folder_store(folder, config.cache_limit)

    def _tune(self, content: bytes, shapes: Mapping[str, Shape], store: Store) -> None:
        """Tune kernels and store the choices, which sessions then read from the store."""
        options = CompileOptions(self.options.precision, shapes=shapes, follow_batch=False)
        lowering = prepare_lowering(load_model(content, options).graph, self.device, options)
        level = find_level(TUNING_LEVEL, self.options.tuning_seconds)
        choices = store.choices(device_key(self.device))
        efforts = store.efforts(device_key(self.device))
        saver = ChoiceSaver(store, self.device, level, lambda *_: None)
        graph, device, kernel_options = lowering
        tune(graph, device, kernel_options, level, choices, efforts, saver)
