"""What is known of a device: asked once a process, kept between processes, asked again in need."""

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
    """Answers what it is told to, and notes what was asked."""

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
    made = FakeBackend()
    monkeypatch.setattr(registry, "backends", lambda: {"fake": made})
    new_process()
    yield made
    new_process()


def new_process() -> None:
    """Forget what a process knows."""
    for device in (GPU, CPU):
        probing._states.pop(device, None)


def test_facts_are_asked_for_as_others_make_them_matter(backend: FakeBackend) -> None:
    found = probe(GPU)
    assert (found.matrix_units, found.resident, found.subgroups) == (True, True, "ptx")
    # Whose groups wait for each other reads no images, and only bytes are multiplied as bytes.
    assert {"image_texels", "dot_products"}.isdisjoint(found.probed)
    assert probe(GPU, quantised=True).dot_products == "ptx"
    before = len(backend.asked)
    assert probe(GPU, quantised=True) == found
    assert len(backend.asked) == before


def test_a_gpu_without_matrix_units_is_asked_for_images(backend: FakeBackend) -> None:
    backend.answers = {**ALL, "matrix_units": False, "image_texels": 77}
    found = probe(GPU)
    assert (found.image_texels, found.knows("resident")) == (77, False)


def test_a_cpu_is_asked_whether_groups_go_on_and_for_dot_products(backend: FakeBackend) -> None:
    assert probe(CPU).probed == ("forward_progress",)
    assert probe(CPU, quantised=True).probed == ("dot_products", "forward_progress")
    assert backend.asked == [{"forward_progress"}, {"dot_products"}]


def test_only_what_is_not_known_begins(backend: FakeBackend) -> None:
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


@pytest.mark.parametrize(("info", "wanted"), [(CPU, HOST_ACCESS), (GPU, ())], ids=str)
def test_a_player_knows_how_arrays_go_in_and_out(
    info: DeviceInfo, wanted: tuple[str, ...], backend: FakeBackend, tmp_path: Path
) -> None:
    assert with_run_facts(info, Store(tmp_path)).probed == ("self_test", *wanted)
    new_process()
    assert with_run_facts(info, Store(tmp_path)).probed == ("self_test", *wanted)
    assert backend.asked == [{"self_test", *wanted}]


def test_a_driver_that_dies_of_a_trial_does_not_slow_every_start(
    backend: FakeBackend, tmp_path: Path
) -> None:
    backend.answers = {name: fact for name, fact in ALL.items() if name != "host_pointers"}
    asked = []
    for _ in range(5):
        new_process()
        backend.asked.clear()
        found = with_run_facts(CPU, Store(tmp_path))
        assert (found.persistent_mapping, found.host_pointers) == (True, False)
        asked.append(len(backend.asked))
    assert asked == [1, 1, 1, 0, 0]


def test_what_a_prepared_file_tells_is_not_tried_again(backend: FakeBackend) -> None:
    add_facts(CPU, {"self_test": "", "persistent_mapping": False})
    found = with_run_facts(CPU)
    assert (found.persistent_mapping, found.host_pointers) == (False, True)
    assert backend.asked == [{"host_pointers"}]
    add_facts(CPU, {"host_pointers": False})
    assert with_run_facts(CPU).host_pointers  # what was tried here counts for more


def test_facts_that_come_with_a_device_are_believed(backend: FakeBackend) -> None:
    given = GPU.with_facts({"matrix_units": False, "subgroups": ""})
    found = probe(given)
    assert (found.matrix_units, found.subgroups) == (False, "")
    assert backend.asked == [set(IMAGES)]


def test_what_was_not_answered_counts_as_absent(
    backend: FakeBackend, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "_said", {})
    backend.answers = {"matrix_units": True, "subgroups": "ptx", **ABSENT}
    found = probe(GPU)
    assert (found.resident, found.knows("resident")) == (False, False)
    count = len(backend.asked)
    probe(GPU)
    assert len(backend.asked) == count  # once a process
    (line,) = [one.getMessage() for one in caplog.records]
    assert line.endswith("did not answer: resident, reaches_host count as absent for now")


def test_an_answer_to_one_of_two_questions_counts(backend: FakeBackend) -> None:
    backend.answers = {"subgroups": "khr"}
    found = determine_facts(GPU, ["subgroups", "resident"])
    assert (found.probed, found.subgroups) == (("subgroups",), "khr")


def test_a_later_process_asks_nothing(backend: FakeBackend, tmp_path: Path) -> None:
    store = Store(tmp_path)
    made = load_facts(GPU, store)
    assert made.probed == ()
    known = probe(GPU, quantised=True)
    store_facts(GPU, store)
    kept = load_facts(GPU, store)
    new_process()
    backend.asked.clear()
    again = load_facts(GPU, Store(tmp_path))
    assert again.probed == kept.probed == known.probed
    assert again.dot_products == "ptx"
    assert with_known_facts(GPU).probed == known.probed
    probe(GPU, quantised=True)
    assert backend.asked == []


@pytest.mark.parametrize("change", [{"driver": "2"}, {"version": "9"}, {"compute_units": 7}])
def test_another_driver_is_asked_anew(
    change: dict[str, object], backend: FakeBackend, tmp_path: Path
) -> None:
    probe(GPU)
    store_facts(GPU, Store(tmp_path))
    other = replace(GPU, **change)  # type: ignore[arg-type]
    assert load_facts(other, Store(tmp_path)).probed == ()
    engine = Store(tmp_path).engine_parts
    assert facts_key(other, engine) != facts_key(GPU, engine)


def test_a_trial_without_an_answer_is_made_again_by_the_next_starts(
    backend: FakeBackend, tmp_path: Path
) -> None:
    backend.answers = {"matrix_units": True, "subgroups": "ptx", **ABSENT}
    probe(GPU)
    store_facts(GPU, Store(tmp_path))
    asked = []
    for _ in range(4):
        new_process()
        backend.asked.clear()
        assert not load_facts(GPU, Store(tmp_path)).resident
        asked.append(list(backend.asked))
    waiting = {"resident", "reaches_host"}
    assert asked == [[waiting], [waiting], [], []]
    probe(GPU)  # who makes a plan still asks
    assert backend.asked == [waiting]


def test_an_answer_at_last_is_kept(backend: FakeBackend, tmp_path: Path) -> None:
    backend.answers = {"matrix_units": True, "subgroups": "ptx", **ABSENT}
    probe(GPU)
    store_facts(GPU, Store(tmp_path))
    parts = compiled_parts({}, {}, load_facts(GPU, Store(tmp_path)), {})
    new_process()
    backend.answers = ALL
    found = load_facts(GPU, Store(tmp_path))
    assert found.resident
    assert compiled_parts({}, {}, found, {}) != parts  # a plan for it is another one
    new_process()
    backend.asked.clear()
    assert load_facts(GPU, Store(tmp_path)).resident
    assert backend.asked == []


def test_no_is_an_answer(backend: FakeBackend, tmp_path: Path) -> None:
    backend.answers = {**ALL, "resident": False}
    probe(GPU)
    store_facts(GPU, Store(tmp_path))
    new_process()
    backend.asked.clear()
    found = load_facts(GPU, Store(tmp_path))
    assert (found.resident, found.knows("resident")) == (False, True)
    assert backend.asked == []


def test_some_facts_are_asked_for_by_name(backend: FakeBackend, tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert determine_facts(GPU, ["resident"], store).probed == ("resident",)
    new_process()
    assert determine_facts(GPU, ["resident"], Store(tmp_path)).resident
    assert backend.asked == [{"resident"}]
    assert determine_facts(GPU, ["resident"]).resident


def test_keys_have_the_facts_that_plans_are_made_from(backend: FakeBackend) -> None:
    def parts(device: DeviceInfo) -> dict[str, str]:
        return compiled_parts({}, {}, device, {})

    told = probe(GPU)
    assert parts(told)["resident"] == "True"
    assert parts(told) != parts(told.with_facts({"resident": False}))
    # What plans do not look at makes no other key, nor does a claim that a trial confirms.
    assert parts(told) == parts(told.with_facts({"image_texels": 9, "half_arithmetic": True}))
    assert parts(told) == parts(told.with_facts({"dot_products": "ptx"}))
    assert parts(told) != parts(told.with_facts({"dot_products": ""}))
    # A fact that is not known is the same to a plan as one that is known to be absent.
    unknown = GPU.with_facts({"matrix_units": True, "subgroups": "ptx"})
    denied = unknown.with_facts({"resident": False, "reaches_host": False})
    assert parts(unknown) == parts(denied)
