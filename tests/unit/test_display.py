"""What things say of themselves at a prompt and in a notebook: short, escaped, and for nothing."""

from __future__ import annotations

import html.parser
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_networks import deep_onnx, small_onnx
from split_models import split_model
from tiny_plan import line

import fourfold
from fourfold.backends import devices
from fourfold.backends.null import NULL_GPU
from fourfold.device import DeviceInfo, DeviceList
from fourfold.plan.placement import OperatorPlacement, PartPlacement, Placement
from fourfold.runtime.instance import ModelInstance
from fourfold.runtime.profile import KernelTime, Profile
from fourfold.runtime.tensor_info import TensorInfo
from fourfold.store.draft import Draft
from fourfold.store.prepared import Prepared
from fourfold.support.display import count_text, html_table, size_text, time_text
from fourfold.types import Quantization

WICKED = "<script>alert('&')</script>"
SHORT = 400  # characters


class Tags(html.parser.HTMLParser):
    """Which tags a text has, and whether each is closed in its turn."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self._open.append(tag)
        for name, value in attrs:
            assert (name, value) in (("style", "text-align:left"), ("style", "text-align:right"))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def shown(thing: Any) -> Tags:
    """What a notebook gets: tables alone, without colours and without anything from elsewhere."""
    found = Tags(thing._repr_html_())
    assert {*found.tags} <= {"p", "table", "tr", "th", "td", "details", "summary"}
    assert "table" in found.tags or "p" in found.tags
    assert len(repr(thing)) < SHORT
    return found


def test_sizes_times_and_counts() -> None:
    assert [size_text(one) for one in (17, 2**10, 3 * 2**19, 5 * 2**30)] == [
        "17 bytes",
        "1.00 KiB",
        "1.50 MiB",
        "5.00 GiB",
    ]
    assert [time_text(one) for one in (0.0, 2.5e-5, 0.0023, 61.5)] == [
        "0 µs",
        "25.0 µs",
        "2.300 ms",
        "61.50 s",
    ]
    assert (count_text(1, "launch", "launches"), count_text(0, "unit")) == ("1 launch", "0 units")


def test_tables_are_escaped() -> None:
    found = Tags(html_table(WICKED, (WICKED, ">" + WICKED), [(WICKED, WICKED)]))
    assert found.tags == ["p", "table", "tr", "th", "th", "tr", "td", "td"]
    assert found.words == [WICKED] * 5


def test_a_session(device: DeviceInfo) -> None:
    with fourfold.Session(small_onnx(), device, cache=None) as session:
        line_of_it = repr(session)
        assert line_of_it.startswith(f"<Session a model in memory: {device.name} (")
        assert (
            "image float32[1, 5, 6, 3] -> scores float32[1, 5], twice float32[1, 5]>" in line_of_it
        )
        words = shown(session).words
        assert {"device", "precision", "the model itself", "all on the device"} <= {*words}
    assert "closed" in repr(session)
    assert "Session of a model in memory (closed)" in shown(session).words


def test_a_session_in_parts(device: DeviceInfo) -> None:
    with fourfold.Session(split_model(), device, cache=None, placement="gpu") as session:
        assert session.placement.summary in shown(session).words


def test_a_session_that_never_opened(tmp_path: Path) -> None:
    session = fourfold.Session.__new__(fourfold.Session)
    with pytest.raises(fourfold.InputError):
        session.__init__(tmp_path / "no.onnx")  # type: ignore[misc]
    assert repr(session) == "<Session>"
    assert session._repr_html_() == "<p>Session</p>"


def test_nothing_is_worked_out_for_it(device: DeviceInfo, monkeypatch: pytest.MonkeyPatch) -> None:
    """The placement of a whole model is told by reading it again, which takes its time."""
    with fourfold.Session(small_onnx(), device, cache=None) as session:
        monkeypatch.setattr(ModelInstance, "placement", property(lambda self: 1 / 0))
        assert session._lock.acquire()  # whoever runs holds it, maybe for long
        assert repr(session)
        assert session._repr_html_()
        session._lock.release()


def test_a_plan(device: DeviceInfo) -> None:
    with fourfold.Session(deep_onnx(), device, cache=None) as session:
        plan = session.plan
    assert repr(plan).startswith(f"<Plan '{plan.name}': ")
    assert f"{plan.stages} kernels in " in repr(plan)
    assert {"arena", "constants", "input", "output"} <= {*shown(plan).words}
    assert str(plan).startswith("requires ")  # print shows all of it
    assert len(repr(line(choices={"k": "v" * SHORT}))) < 2 * SHORT


def test_devices() -> None:
    one = replace(NULL_GPU, name=WICKED, compute_units=1, memory=3 << 30, index=1)
    assert repr(one).startswith(f"<DeviceInfo {one.address} {WICKED!r}: gpu, 1 unit, 3.00 GiB; ")
    assert {"address", "driver"} <= {*shown(one).words}
    unknown = replace(one, compute_units=0, memory=0)
    assert "unknown number of units, unknown memory" in repr(unknown)
    two = DeviceList((NULL_GPU, one))
    assert repr(two).splitlines() == [f"0: {NULL_GPU!r}", f"1: {one!r}"]
    assert WICKED in Tags(two._repr_html_()).words
    assert repr(DeviceList()) == "no devices"
    assert isinstance(devices(), DeviceList)


def test_a_placement() -> None:
    rows = tuple(
        OperatorPlacement(f"{WICKED}{number}", "CONV_2D", target, 0, 1e-3, reason)
        for number in range(200)
        for target, reason in (("gpu", ""), ("litert", f"because of {WICKED}"))
    )
    parts = (PartPlacement("gpu", 200, 0.2, 0.0, ("x",), ("y",)),)
    found = Placement("Test GPU", "auto", rows, parts, engine="LiteRT", origin=WICKED)
    assert repr(found) == f"<Placement: {found.summary}>"
    tags = shown(found)
    assert tags.tags.count("table") == 2
    assert "400 operators" in tags.words
    whole = replace(found, rows=rows[::2])
    assert shown(whole).tags[:2] == ["p", "details"]


def test_a_profile() -> None:
    found = Profile([KernelTime(f"conv{n}", WICKED, n * 1e-3) for n in (1, 2, 3, 4)])
    assert (found[0].kernel, found.longest[0].kernel, found.seconds) == ("conv1", "conv4", 0.01)
    assert repr(found).splitlines()[:2] == [
        "<Profile: 4 launches, 10.00 ms in all>",
        "    4.000 ms  40.0%  conv4",
    ]
    assert shown(found).tags.count("tr") == 5
    assert repr(Profile(found * 25)).splitlines()[-1] == "  and 95 more"
    assert repr(Profile([])) == "<Profile: 0 launches, 0 µs in all>"


def test_profiles_are_what_sessions_give(device: DeviceInfo) -> None:
    with fourfold.Session(small_onnx(), device, cache=None) as session:
        found = session.profile(np.zeros((1, 5, 6, 3), np.float32), runs=1)
    assert isinstance(found, Profile)
    assert found.seconds > 0


def test_inputs() -> None:
    steps, kind = Quantization((0.5,), (3,)), np.dtype(np.int8)
    found = TensorInfo(WICKED, (1, 5), kind, steps, signature=(-1, 5), pixels="rgb")
    assert repr(found) == f"<TensorInfo {WICKED}: int8[1?, 5], quantised q(0.5,3), pixels rgb>"
    assert "int8[1?, 5]" in shown(found).words
    assert repr(TensorInfo("text", (2,), np.dtype(object))) == "<TensorInfo text: text[2]>"
    assert repr(TensorInfo("x", (), kind)) == "<TensorInfo x: int8[]>"


def test_an_estimate() -> None:
    found = fourfold.estimate(small_onnx(), device="null", cache=None)
    assert repr(found).startswith("<Estimate: ")
    assert "KiB on the device>" in repr(found)
    assert {"weights", "on the device", "arithmetic"} <= {*shown(found).words}


def test_a_prepared_file(tmp_path: Path) -> None:
    draft = Draft()
    for name, device in (("a", NULL_GPU), (WICKED, replace(NULL_GPU, name="other"))):
        draft.add_compiled(draft.add_model(name, name, 1), device, line(), {})
    path = tmp_path / "two.fourfold"
    draft.write(path)
    found = Prepared.open(str(path))
    assert repr(found) == (
        f"<Prepared {found.file.title}: a, {WICKED}; 2 plans for {NULL_GPU.name}, other>"
    )
    assert WICKED in shown(found).words
    found.index["plans"][0].pop("device")
    assert shown(found).tags.count("tr") == 1
