"""Opens parts of a model as sessions on the GPU, for the shapes that the interpreter has today."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fourfold.compile import load_model, prepare_lowering
from fourfold.config import Config
from fourfold.delegate.options import GpuOptions
from fourfold.device import DeviceInfo
from fourfold.options import CompileOptions
from fourfold.prepare import ChoiceSaver
from fourfold.session import Session
from fourfold.store.keys import device_key
from fourfold.store.store import Store, folder_store, memory_store
from fourfold.tune import level_named, tune
from fourfold.types import Shape

TUNING = "rapid"  # the level at which kernels are looked for


@dataclass(frozen=True)
class SessionFactory:
    """Opens sessions of parts of a model, as the options of a delegate want them."""

    device: DeviceInfo
    options: GpuOptions

    def open(self, content: bytes, shapes: Mapping[str, Shape]) -> Session:
        """A session of a part; raises UnsupportedError for what the GPU does not take."""
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
        """TFLite's folder, else the one that sessions use, too."""
        config = Config.from_environment()
        folder = self.options.serialization_dir or config.cache
        return None if folder is None else folder_store(folder, config.cache_limit)

    def _tune(self, content: bytes, shapes: Mapping[str, Shape], store: Store) -> None:
        """Look for the best kernels; they are kept, and sessions find them in the store."""
        options = CompileOptions(self.options.precision, shapes=shapes, follow_batch=False)
        lowering = prepare_lowering(load_model(content, options).graph, self.device, options)
        level = level_named(TUNING, self.options.tuning_seconds)
        known = store.choices(device_key(self.device))
        efforts = store.efforts(device_key(self.device))
        saver = ChoiceSaver(store, self.device, level, lambda *_: None)
        graph, device, kernel_options = lowering
        tune(graph, device, kernel_options, level, known, efforts, saver)
