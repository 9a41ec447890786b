"""Limits of a device are compared with what a kept plan needs; they make no key."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_devices import IMAGES
from tiny_plan import line

from fourfold.config import Config
from fourfold.device import DeviceInfo
from fourfold.options import CompileOptions, PlacementOptions
from fourfold.plan import Compiled
from fourfold.plan.requirements import ImageNeed
from fourfold.players.null import NULL_GPU
from fourfold.runtime import loading
from fourfold.runtime.hybrid_loading import why_made_anew
from fourfold.runtime.loading import PlanLoader
from fourfold.runtime.request import Request, plan_key_parts
from fourfold.store.keys import plan_parts
from fourfold.store.store import Store
from fourfold.timings import Timings


def asking(device: DeviceInfo) -> Request:
    options = (CompileOptions(), PlacementOptions(), Timings())
    return Request(b"a model", device, Config(), *options)


def loader(device: DeviceInfo, folder: Path) -> PlanLoader:
    return PlanLoader(asking(device), Store(folder))


def needing(**needs: Any) -> Compiled:
    plan = line().plan
    return replace(line(), plan=replace(plan, requirements=plan.requirements._replace(**needs)))


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
    loader(NULL_GPU, tmp_path).compile()
    for most, good in ((128, True), (1 << 40, True), (127, False)):
        found = loader(replace(NULL_GPU, **{limit: most}), tmp_path).find()  # type: ignore[arg-type]
        assert (found is not None) is good


def test_a_plan_over_a_limit_is_said_to_be_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "compile_request", lambda request, tuned: needing(local_memory=9))
    loader(NULL_GPU, tmp_path).compile()
    store = Store(tmp_path)
    parts = plan_key_parts(asking(NULL_GPU), store)
    assert why_made_anew(asking(NULL_GPU), store, parts) == ()
    small = replace(NULL_GPU, local_memory=8)
    (reason,) = why_made_anew(asking(small), store, parts)
    assert "9 bytes of local memory" in reason
    assert [entry.hits for entry in store.entries()] == [0]


def test_what_is_made_for_a_lower_limit_serves_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = replace(NULL_GPU, local_memory=100)
    for device, need in ((NULL_GPU, 200), (small, 100)):
        made = needing(local_memory=need)
        monkeypatch.setattr(loading, "compile_request", lambda request, tuned, made=made: made)
        assert loader(device, tmp_path).find() is None
        loader(device, tmp_path).compile()
    for device in (small, NULL_GPU):
        found = loader(device, tmp_path).find()
        assert found is not None
        assert found.compiled.plan.requirements.local_memory == 100


def test_images_are_compared_by_their_texels() -> None:
    few, none = replace(IMAGES, image_texels=50), replace(IMAGES, image_texels=0)
    assert plan_parts({}, {}, few, {}) == plan_parts({}, {}, IMAGES, {})
    assert plan_parts({}, {}, none, {}) != plan_parts({}, {}, IMAGES, {})
    need = needing(images=(ImageNeed(60, 60, 8),)).plan.requirements
    assert not need.over_limits(IMAGES)
    assert need.over_limits(few)


def test_free_memory_makes_no_key() -> None:
    other = replace(NULL_GPU, memory=1, max_allocation=1, ordinal=3, index=4)
    assert plan_parts({}, {}, other, {}) == plan_parts({}, {}, NULL_GPU, {})


@pytest.mark.parametrize("fact", ["name", "platform", "driver", "version", "kind", "api"])
def test_who_it_is_makes_the_key(fact: str) -> None:
    other = replace(NULL_GPU, **{fact: "another"})  # type: ignore[arg-type]
    assert plan_parts({}, {}, other, {}) != plan_parts({}, {}, NULL_GPU, {})


@pytest.mark.parametrize("fact", ["compute_units", "alignment", "address_bits", "unified_memory"])
def test_what_decides_texts_makes_the_key(fact: str) -> None:
    other = replace(NULL_GPU, **{fact: 7})  # type: ignore[arg-type]
    assert plan_parts({}, {}, other, {}) != plan_parts({}, {}, NULL_GPU, {})
