"""Limits of a device are compared with what a kept plan needs; they make no key."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_devices import IMAGES
from tiny_plan import line, with_plan

from fourfold.backends.null import NULL_GPU
from fourfold.config import Config
from fourfold.device import DeviceInfo
from fourfold.options import CompileOptions, PlacementOptions
from fourfold.plan import CompiledModel
from fourfold.plan.requirements import ImageNeed
from fourfold.runtime import loading
from fourfold.runtime.loading import why_stored_is_unused
from fourfold.runtime.request import Request, model_key_parts
from fourfold.store.keys import compiled_parts
from fourfold.store.store import Store
from fourfold.support.timings import Timings


def asking(device: DeviceInfo) -> Request:
    options = (CompileOptions(), PlacementOptions(), Timings())
    return Request(b"a model", device, Config(), *options)


def load(device: DeviceInfo, folder: Path) -> loading.LoadResult:
    return loading.load_compiled(asking(device), Store(folder))


def needing(**needs: Any) -> CompiledModel:
    plan = line().plan
    return with_plan(line(), replace(plan, requirements=plan.requirements._replace(**needs)))


@pytest.mark.parametrize(
    ("limit", "need"),
    [
        ("max_allocation", "buffer_bytes"),
        ("local_memory", "local_memory"),
        ("max_work_group", "work_group"),
    ],
)
def test_a_plan_is_found_as_long_as_the_limits_suffice(
    limit: str, need: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "compile_request", lambda request, tuned: needing(**{need: 128}))
    load(NULL_GPU, tmp_path)
    for most, good in ((128, True), (1 << 40, True), (127, False)):
        found = load(replace(NULL_GPU, **{limit: most}), tmp_path)  # type: ignore[arg-type]
        assert (found.origin == "store") is good


def test_a_plan_over_a_limit_is_said_to_be_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "compile_request", lambda request, tuned: needing(local_memory=9))
    load(NULL_GPU, tmp_path)
    store = Store(tmp_path)
    parts = model_key_parts(asking(NULL_GPU), store)
    assert why_stored_is_unused(asking(NULL_GPU), store, parts) == ()
    small = replace(NULL_GPU, local_memory=8)
    (reason,) = why_stored_is_unused(asking(small), store, parts)
    assert "9 bytes of local memory" in reason
    assert [entry.hits for entry in store.entries()] == [0]


def test_what_is_made_for_a_lower_limit_serves_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = replace(NULL_GPU, local_memory=100)
    for device, need in ((NULL_GPU, 200), (small, 100)):
        made = needing(local_memory=need)
        monkeypatch.setattr(loading, "compile_request", lambda request, tuned, made=made: made)
        assert load(device, tmp_path).origin == "model"
    for device in (small, NULL_GPU):
        found = load(device, tmp_path)
        assert found.origin == "store"
        assert found.model.plan.requirements.local_memory == 100


def test_images_are_compared_by_their_texels() -> None:
    few, none = replace(IMAGES, image_texels=50), replace(IMAGES, image_texels=0)
    assert compiled_parts({}, {}, few, {}) == compiled_parts({}, {}, IMAGES, {})
    assert compiled_parts({}, {}, none, {}) != compiled_parts({}, {}, IMAGES, {})
    need = needing(images=(ImageNeed(60, 60, 8),)).plan.requirements
    assert not need.over_limits(IMAGES)
    assert need.over_limits(few)


def test_free_memory_makes_no_key() -> None:
    other = replace(NULL_GPU, memory=1, max_allocation=1, ordinal=3, index=4)
    assert compiled_parts({}, {}, other, {}) == compiled_parts({}, {}, NULL_GPU, {})


@pytest.mark.parametrize("fact", ["name", "platform", "driver", "version", "kind", "api"])
def test_who_it_is_makes_the_key(fact: str) -> None:
    other = replace(NULL_GPU, **{fact: "another"})  # type: ignore[arg-type]
    assert compiled_parts({}, {}, other, {}) != compiled_parts({}, {}, NULL_GPU, {})


@pytest.mark.parametrize("fact", ["compute_units", "alignment", "address_bits", "unified_memory"])
def test_what_decides_texts_makes_the_key(fact: str) -> None:
    other = replace(NULL_GPU, **{fact: 7})  # type: ignore[arg-type]
    assert compiled_parts({}, {}, other, {}) != compiled_parts({}, {}, NULL_GPU, {})
