"""Prepared files of optimised models: what was written of a graph is prepared in place of it."""

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
    """The device that plans are made for and tuned on; on none, plans are generic alone."""

    device: DeviceInfo
    options: CompileOptions
    level: Level
    store: Store | None
    listener: Progress


def add_prepared(
    draft: Draft, work: Optimizer, written: WrittenGraph | None, how: Preparation
) -> list[Mapping[str, Any]]:
    """Puts a model into a prepared file in the making; gives a row for each plan."""
    if written is None and not isinstance(work.readable, bytes):
        return _prepare(draft, Path(work.readable), work, how)
    form, content = work.format, work.readable
    if written is not None:
        form, content = written.form, written.content
    assert isinstance(content, bytes)
    with tempfile.TemporaryDirectory(prefix="fourfold-") as folder:
        path = Path(folder, f"{work.name}{form.extensions[0]}")
        path.write_bytes(content)
        return _prepare(draft, path, work, how)


def _prepare(
    draft: Draft, path: Path, work: Optimizer, how: Preparation
) -> list[Mapping[str, Any]]:
    rows: list[Mapping[str, Any]] = []
    placement = work.options.placement
    if how.device is not NULL_GPU:
        names = {"model": path.stem, "device": how.device.name, "precision": how.options.precision}
        choices: Mapping[str, str] = {}
        if not placement.only_cpu:
            tuning = (how.options, how.level, how.store, how.listener)
            choices = tune_model(str(path), how.device, *tuning).choices
        options = (how.options, choices, how.store, placement)
        facts = prepare_model(draft, path, how.device, *options)
        rows.append({**names, **facts})
    return [*rows, *prepare_generic(draft, path, how.options, GENERIC, placement)]
