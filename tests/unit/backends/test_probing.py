"""Device facts are probed once per process, cached between processes, and probed again if
needed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from fourfold.backends import (
    add_facts,
    determine_facts,
    load_facts,
    probe,
    probing,
    registry,
    start_probes,
    store_facts,
    with_known_facts,
    with_run_facts,
)
from fourfold.backends.null import NULL_GPU
from fourfold.device import HOST_ACCESS, IMAGES, UNPROMISED, DeviceInfo, Fact
from fourfold.store.keys import compiled_parts, facts_key
from fourfold.store.store import Store
from fourfold.support import log

GPU = replace(NULL_GPU, name="a GPU of the tests", api="fake", claims={"dot_products": "ptx"})
CPU = replace(GPU, kind="cpu")
ABSENT: dict[str, Fact] = {"image_texels": 0, "image_windows": False, "prefers_images": False}
MATRIX: dict[str, Fact] = {"matrix_units": True, "resident": True, "reaches_host": False}
WILLING: dict[str, Fact] = dict.fromkeys(UNPROMISED, True)
ALL: dict[str, Fact] = {
    **ABSENT,
    **MATRIX,
    **WILLING,
    "self_test": "",
    "subgroups": "ptx",
    "dot_products": "ptx",
}


class FakeBackend:
    """Returns configured answers and records the requested facts."""

    name, listed = "fake", True

    def __init__(self) -> None:
        self.answers: Mapping[str, Fact] = ALL
        self.asked: list[set[str]] = []
        self.begun: list[set[str]] = []

    def probe(self, device: DeviceInfo, names: Collection[str]) -> dict[str, Fact]:
        self.asked.append(set(names))
        return {name: self.answers[name] for name in names if name in self.answers}

    def begin_probe(self, device: DeviceInfo, names: Collection[str]) -> None:
        self.begun.append(set(names))


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeBackend]:
    result = FakeBackend()
    monkeypatch.setattr(registry, "backends", lambda: {"fake": result})
    new_process()
    yield result
    new_process()


def new_process() -> None:
    """Clear the facts known to this process."""
    for device in (GPU, CPU):
        probing._states.pop(device, None)


def test_facts_are_probed_only_when_they_matter(backend: FakeBackend) -> None:
    result = probe(GPU)
    assert (result.matrix_units, result.resident, result.subgroups) == (True, True, "ptx")
    # Devices with resident groups do not use images, and only quantized models need dot products.
    assert {"image_texels", "dot_products"}.isdisjoint(result.probed)
    assert probe(GPU, quantised=True).dot_products == "ptx"
    before = len(backend.asked)
    assert probe(GPU, quantised=True) == result
    assert len(backend.asked) == before


def test_gpu_without_matrix_units_is_probed_for_images(backend: FakeBackend) -> None:
    backend.answers = {**ALL, "matrix_units": False, "image_texels": 77}
    result = probe(GPU)
    assert (result.image_texels, result.knows("resident")) == (77, False)


def test_cpu_is_probed_for_forward_progress_and_dot_products(backend: FakeBackend) -> None:
    assert probe(CPU).probed == ("forward_progress",)
    assert probe(CPU, quantised=True).probed == ("dot_products", "forward_progress")
    assert backend.asked == [{"forward_progress"}, {"dot_products"}]


def test_starts_probes_of_unknown_facts_only(backend: FakeBackend) -> None:
    start_probes(CPU)
    start_probes(GPU)
    assert backend.begun == [
        {"self_test", *UNPROMISED},
        {"self_test", "matrix_units", *IMAGES, "subgroups"},
    ]
    with_run_facts(CPU)
    probe(CPU)
    start_probes(CPU)
    assert len(backend.begun) == 2


@pytest.mark.parametrize(("info", "expected"), [(CPU, HOST_ACCESS), (GPU, ())], ids=str)
def test_player_gets_facts_about_transfers(
    info: DeviceInfo, expected: tuple[str, ...], backend: FakeBackend, tmp_path: Path
) -> None:
    assert with_run_facts(info, Store(tmp_path)).probed == ("self_test", *expected)
    new_process()
    assert with_run_facts(info, Store(tmp_path)).probed == ("self_test", *expected)
    assert backend.asked == [{"self_test", *expected}]


def test_crashing_probe_does_not_slow_every_start(backend: FakeBackend, tmp_path: Path) -> None:
    backend.answers = {name: fact for name, fact in ALL.items() if name != "host_pointers"}
    counts = []
    for _ in range(5):
        new_process()
        backend.asked.clear()
        result = with_run_facts(CPU, Store(tmp_path))
        assert (result.persistent_mapping, result.host_pointers) == (True, False)
        counts.append(len(backend.asked))
    assert counts == [1, 1, 1, 0, 0]


def test_facts_of_a_prepared_file_are_not_probed_again(backend: FakeBackend) -> None:
    add_facts(CPU, {"self_test": "", "persistent_mapping": False})
    result = with_run_facts(CPU)
    assert (result.persistent_mapping, result.host_pointers) == (False, True)
    assert backend.asked == [{"host_pointers"}]
    add_facts(CPU, {"host_pointers": False})
    assert with_run_facts(CPU).host_pointers  # local probes take precedence


def test_facts_of_a_device_are_trusted(backend: FakeBackend) -> None:
    inputs = GPU.with_facts({"matrix_units": False, "subgroups": ""})
    result = probe(inputs)
    assert (result.matrix_units, result.subgroups) == (False, "")
    assert backend.asked == [set(IMAGES)]


def test_inconclusive_facts_count_as_absent(
    backend: FakeBackend, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "_said", {})
    backend.answers = {"matrix_units": True, "subgroups": "ptx", **ABSENT}
    result = probe(GPU)
    assert (result.resident, result.knows("resident")) == (False, False)
    count = len(backend.asked)
    probe(GPU)
    assert len(backend.asked) == count  # once per process
    (line,) = [one.getMessage() for one in caplog.records]
    assert line.endswith("did not answer: resident, reaches_host count as absent for now")


def test_partial_answers_count(backend: FakeBackend) -> None:
    backend.answers = {"subgroups": "khr"}
    result = determine_facts(GPU, ["subgroups", "resident"])
    assert (result.probed, result.subgroups) == (("subgroups",), "khr")


def test_later_process_uses_cached_facts(backend: FakeBackend, tmp_path: Path) -> None:
    store = Store(tmp_path)
    result = load_facts(GPU, store)
    assert result.probed == ()
    probed_device = probe(GPU, quantised=True)
    store_facts(GPU, store)
    kept = load_facts(GPU, store)
    new_process()
    backend.asked.clear()
    again = load_facts(GPU, Store(tmp_path))
    assert again.probed == kept.probed == probed_device.probed
    assert again.dot_products == "ptx"
    assert with_known_facts(GPU).probed == probed_device.probed
    probe(GPU, quantised=True)
    assert backend.asked == []


@pytest.mark.parametrize("change", [{"driver": "2"}, {"version": "9"}, {"compute_units": 7}])
def test_another_driver_is_probed_again(
    change: dict[str, object], backend: FakeBackend, tmp_path: Path
) -> None:
    probe(GPU)
    store_facts(GPU, Store(tmp_path))
    other = replace(GPU, **change)  # type: ignore[arg-type]
    assert load_facts(other, Store(tmp_path)).probed == ()
    engine = Store(tmp_path).engine_parts
    assert facts_key(other, engine) != facts_key(GPU, engine)


def test_inconclusive_probes_are_repeated_by_later_starts(
    backend: FakeBackend, tmp_path: Path
) -> None:
    backend.answers = {"matrix_units": True, "subgroups": "ptx", **ABSENT}
    probe(GPU)
    store_facts(GPU, Store(tmp_path))
    requests = []
    for _ in range(4):
        new_process()
        backend.asked.clear()
        assert not load_facts(GPU, Store(tmp_path)).resident
        requests.append(list(backend.asked))
    waiting = {"resident", "reaches_host"}
    assert requests == [[waiting], [waiting], [], []]
    probe(GPU)  # compiling a plan still probes
    assert backend.asked == [waiting]


def test_late_answer_is_cached(backend: FakeBackend, tmp_path: Path) -> None:
    backend.answers = {"matrix_units": True, "subgroups": "ptx", **ABSENT}
    probe(GPU)
    store_facts(GPU, Store(tmp_path))
    parts = compiled_parts({}, {}, load_facts(GPU, Store(tmp_path)), {})
    new_process()
    backend.answers = ALL
    result = load_facts(GPU, Store(tmp_path))
    assert result.resident
    assert compiled_parts({}, {}, result, {}) != parts  # a plan for it is different
    new_process()
    backend.asked.clear()
    assert load_facts(GPU, Store(tmp_path)).resident
    assert backend.asked == []


def test_negative_answers_are_cached(backend: FakeBackend, tmp_path: Path) -> None:
    backend.answers = {**ALL, "resident": False}
    probe(GPU)
    store_facts(GPU, Store(tmp_path))
    new_process()
    backend.asked.clear()
    result = load_facts(GPU, Store(tmp_path))
    assert (result.resident, result.knows("resident")) == (False, True)
    assert backend.asked == []


def test_determines_requested_facts(backend: FakeBackend, tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert determine_facts(GPU, ["resident"], store).probed == ("resident",)
    new_process()
    assert determine_facts(GPU, ["resident"], Store(tmp_path)).resident
    assert backend.asked == [{"resident"}]
    assert determine_facts(GPU, ["resident"]).resident


def test_keys_contain_facts_that_affect_plans(backend: FakeBackend) -> None:
    def parts(device: DeviceInfo) -> dict[str, str]:
        return compiled_parts({}, {}, device, {})

    probed_device = probe(GPU)
    assert parts(probed_device)["resident"] == "True"
    assert parts(probed_device) != parts(probed_device.with_facts({"resident": False}))
    # Facts that plans ignore do not change the key, nor does a claim that a probe confirms.
    assert parts(probed_device) == parts(
        probed_device.with_facts({"image_texels": 9, "half_arithmetic": True})
    )
    assert parts(probed_device) == parts(probed_device.with_facts({"dot_products": "ptx"}))
    assert parts(probed_device) != parts(probed_device.with_facts({"dot_products": ""}))
    # To a plan, an unknown fact is the same as an absent feature.
    unknown = GPU.with_facts({"matrix_units": True, "subgroups": "ptx"})
    denied = unknown.with_facts({"resident": False, "reaches_host": False})
    assert parts(unknown) == parts(denied)
