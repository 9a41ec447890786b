"""Add optimized models to a prepared file."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fourfold.device import DeviceInfo
from fourfold.optimization.optimizer import Optimizer, WrittenGraph
from fourfold.options import CompileOptions
from fourfold.players.null import NULL_GPU
from fourfold.prepare import GENERIC, Progress, prepare_generic, prepare_model, tune_model
from fourfold.store.draft import Draft
from fourfold.store.store import Store
from fourfold.tune import Level


@dataclass(frozen=True)
class Preparation:
    """The device that plans are made for and tuned on; without one, plans are generic."""

    device: DeviceInfo
    options: CompileOptions
    level: Level
    store: Store | None
    listener: Progress


def add_prepared(
    draft: Draft, work: Optimizer, written: WrittenGraph | None, preparation: Preparation
) -> list[Mapping[str, Any]]:
    """Add a model to the draft of a prepared file; returns one row per plan."""
    if written is None and not isinstance(work.readable, bytes):
        return _prepare(draft, Path(work.readable), work, preparation)
    form, content = work.format, work.readable
    if written is not None:
        form, content = written.form, written.content
    assert isinstance(content, bytes)
    with tempfile.TemporaryDirectory(prefix="fourfold-") as folder:
        path = Path(folder, f"{work.name}{form.extensions[0]}")
        path.write_bytes(content)
        return _prepare(draft, path, work, preparation)


def _prepare(
    draft: Draft, path: Path, work: Optimizer, preparation: Preparation
) -> list[Mapping[str, Any]]:
    rows: list[Mapping[str, Any]] = []
    placement = work.options.placement
    if preparation.device is not NULL_GPU:
        names = {
            "model": path.stem,
            "device": preparation.device.name,
            "precision": preparation.options.precision,
        }
        choices: Mapping[str, str] = {}
        if not placement.only_cpu:
            choices = tune_model(
                str(path),
                preparation.device,
                preparation.options,
                preparation.level,
                preparation.store,
                preparation.listener,
            ).choices
        facts = prepare_model(
            draft,
            path,
            preparation.device,
            preparation.options,
            choices,
            preparation.store,
            placement,
        )
        rows.append({**names, **facts})
    generic = prepare_generic(draft, path, preparation.options, GENERIC, placement)
    return [*rows, *generic]
