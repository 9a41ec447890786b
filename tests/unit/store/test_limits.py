"""Device limits are compared with the requirements of a cached plan and are no part of its key."""

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


def make_request(device: DeviceInfo) -> Request:
    options = (CompileOptions(), PlacementOptions(), Timings())
    return Request(b"a model", device, Config(), *options)


def load(device: DeviceInfo, folder: Path) -> loading.LoadResult:
    return loading.load_compiled(make_request(device), Store(folder))


def model_requiring(**needs: Any) -> CompiledModel:
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
def test_cached_plan_is_used_within_the_limits(
    limit: str, need: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        loading, "compile_request", lambda request, tuned: model_requiring(**{need: 128})
    )
    load(NULL_GPU, tmp_path)
    for limit_value, is_cached in ((128, True), (1 << 40, True), (127, False)):
        result = load(replace(NULL_GPU, **{limit: limit_value}), tmp_path)  # type: ignore[arg-type]
        assert (result.origin == "store") is is_cached


def test_explains_why_a_plan_over_a_limit_is_rebuilt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        loading, "compile_request", lambda request, tuned: model_requiring(local_memory=9)
    )
    load(NULL_GPU, tmp_path)
    store = Store(tmp_path)
    parts = model_key_parts(make_request(NULL_GPU), store)
    assert why_stored_is_unused(make_request(NULL_GPU), store, parts) == ()
    small = replace(NULL_GPU, local_memory=8)
    (reason,) = why_stored_is_unused(make_request(small), store, parts)
    assert "9 bytes of local memory" in reason
    assert [entry.hits for entry in store.entries()] == [0]


def test_plan_for_a_lower_limit_serves_both_devices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = replace(NULL_GPU, local_memory=100)
    for device, need in ((NULL_GPU, 200), (small, 100)):
        compiled = model_requiring(local_memory=need)
        monkeypatch.setattr(
            loading, "compile_request", lambda request, tuned, compiled=compiled: compiled
        )
        assert load(device, tmp_path).origin == "model"
    for device in (small, NULL_GPU):
        result = load(device, tmp_path)
        assert result.origin == "store"
        assert result.model.plan.requirements.local_memory == 100


def test_image_size_is_a_limit_and_image_support_a_key() -> None:
    few, none = replace(IMAGES, image_texels=50), replace(IMAGES, image_texels=0)
    assert compiled_parts({}, {}, few, {}) == compiled_parts({}, {}, IMAGES, {})
    assert compiled_parts({}, {}, none, {}) != compiled_parts({}, {}, IMAGES, {})
    need = model_requiring(images=(ImageNeed(60, 60, 8),)).plan.requirements
    assert not need.over_limits(IMAGES)
    assert need.over_limits(few)


def test_memory_and_index_are_not_in_the_key() -> None:
    other = replace(NULL_GPU, memory=1, max_allocation=1, ordinal=3, index=4)
    assert compiled_parts({}, {}, other, {}) == compiled_parts({}, {}, NULL_GPU, {})


@pytest.mark.parametrize("fact", ["name", "platform", "driver", "version", "kind", "api"])
def test_device_identity_is_in_the_key(fact: str) -> None:
    other = replace(NULL_GPU, **{fact: "another"})  # type: ignore[arg-type]
    assert compiled_parts({}, {}, other, {}) != compiled_parts({}, {}, NULL_GPU, {})


@pytest.mark.parametrize("fact", ["compute_units", "alignment", "address_bits", "unified_memory"])
def test_facts_that_affect_kernels_are_in_the_key(fact: str) -> None:
    other = replace(NULL_GPU, **{fact: 7})  # type: ignore[arg-type]
    assert compiled_parts({}, {}, other, {}) != compiled_parts({}, {}, NULL_GPU, {})
