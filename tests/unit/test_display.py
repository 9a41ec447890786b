"""Text and HTML representations are short, escaped, and computed without work."""

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

MARKUP = "<script>alert('&')</script>"
MAX_REPR_CHARACTERS = 400


class Tags(html.parser.HTMLParser):
    """Collects the tags of an HTML text and checks that they are balanced."""

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


def parse_html(thing: Any) -> Tags:
    """Parse the HTML representation, which may contain only plain tags and no external content."""
    result = Tags(thing._repr_html_())
    assert {*result.tags} <= {"p", "table", "tr", "th", "td", "details", "summary"}
    assert "table" in result.tags or "p" in result.tags
    assert len(repr(thing)) < MAX_REPR_CHARACTERS
    return result


def test_formats_sizes_times_and_counts() -> None:
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
    result = Tags(html_table(MARKUP, (MARKUP, ">" + MARKUP), [(MARKUP, MARKUP)]))
    assert result.tags == ["p", "table", "tr", "th", "th", "tr", "td", "td"]
    assert result.words == [MARKUP] * 5


def test_session_representation(device: DeviceInfo) -> None:
    with fourfold.Session(small_onnx(), device, cache=None) as session:
        text = repr(session)
        assert text.startswith(f"<Session a model in memory: {device.name} (")
        assert "image float32[1, 5, 6, 3] -> scores float32[1, 5], twice float32[1, 5]>" in text
        words = parse_html(session).words
        assert {"device", "precision", "the model itself", "all on the device"} <= {*words}
    assert "closed" in repr(session)
    assert "Session of a model in memory (closed)" in parse_html(session).words


def test_session_representation_shows_the_placement(device: DeviceInfo) -> None:
    with fourfold.Session(split_model(), device, cache=None, placement="gpu") as session:
        assert session.placement.summary in parse_html(session).words


def test_session_that_failed_to_open_has_a_representation(tmp_path: Path) -> None:
    session = fourfold.Session.__new__(fourfold.Session)
    with pytest.raises(fourfold.InputError):
        session.__init__(tmp_path / "no.onnx")  # type: ignore[misc]
    assert repr(session) == "<Session>"
    assert session._repr_html_() == "<p>Session</p>"


def test_representation_neither_computes_nor_waits(
    device: DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Computing the placement of a single-part model reads the model again, which is slow."""
    with fourfold.Session(small_onnx(), device, cache=None) as session:
        monkeypatch.setattr(ModelInstance, "placement", property(lambda self: 1 / 0))
        assert session._lock.acquire()  # held during a run
        assert repr(session)
        assert session._repr_html_()
        session._lock.release()


def test_plan_representation(device: DeviceInfo) -> None:
    with fourfold.Session(deep_onnx(), device, cache=None) as session:
        plan = session.plan
    assert repr(plan).startswith(f"<Plan '{plan.name}': ")
    assert f"{plan.stages} kernels in " in repr(plan)
    assert {"arena", "constants", "input", "output"} <= {*parse_html(plan).words}
    assert str(plan).startswith("requires ")  # print shows the complete plan
    assert len(repr(line(choices={"k": "v" * MAX_REPR_CHARACTERS}))) < 2 * MAX_REPR_CHARACTERS


def test_device_representations() -> None:
    one = replace(NULL_GPU, name=MARKUP, compute_units=1, memory=3 << 30, index=1)
    assert repr(one).startswith(f"<DeviceInfo {one.address} {MARKUP!r}: gpu, 1 unit, 3.00 GiB; ")
    assert {"address", "driver"} <= {*parse_html(one).words}
    unknown = replace(one, compute_units=0, memory=0)
    assert "unknown number of units, unknown memory" in repr(unknown)
    two = DeviceList((NULL_GPU, one))
    assert repr(two).splitlines() == [f"0: {NULL_GPU!r}", f"1: {one!r}"]
    assert MARKUP in Tags(two._repr_html_()).words
    assert repr(DeviceList()) == "no devices"
    assert isinstance(devices(), DeviceList)


def test_placement_representation() -> None:
    rows = tuple(
        OperatorPlacement(f"{MARKUP}{number}", "CONV_2D", target, 0, 1e-3, reason)
        for number in range(200)
        for target, reason in (("gpu", ""), ("litert", f"because of {MARKUP}"))
    )
    parts = (PartPlacement("gpu", 200, 0.2, 0.0, ("x",), ("y",)),)
    result = Placement("Test GPU", "auto", rows, parts, engine="LiteRT", origin=MARKUP)
    assert repr(result) == f"<Placement: {result.summary}>"
    tags = parse_html(result)
    assert tags.tags.count("table") == 2
    assert "400 operators" in tags.words
    gpu_only = replace(result, rows=rows[::2])
    assert parse_html(gpu_only).tags[:2] == ["p", "details"]


def test_profile_representation() -> None:
    result = Profile([KernelTime(f"conv{n}", MARKUP, n * 1e-3) for n in (1, 2, 3, 4)])
    assert (result[0].kernel, result.longest[0].kernel, result.seconds) == ("conv1", "conv4", 0.01)
    assert repr(result).splitlines()[:2] == [
        "<Profile: 4 launches, 10.00 ms in all>",
        "    4.000 ms  40.0%  conv4",
    ]
    assert parse_html(result).tags.count("tr") == 5
    assert repr(Profile(result * 25)).splitlines()[-1] == "  and 95 more"
    assert repr(Profile([])) == "<Profile: 0 launches, 0 µs in all>"


def test_session_returns_a_profile(device: DeviceInfo) -> None:
    with fourfold.Session(small_onnx(), device, cache=None) as session:
        result = session.profile(np.zeros((1, 5, 6, 3), np.float32), runs=1)
    assert isinstance(result, Profile)
    assert result.seconds > 0


def test_tensor_info_representation() -> None:
    steps, kind = Quantization((0.5,), (3,)), np.dtype(np.int8)
    result = TensorInfo(MARKUP, (1, 5), kind, steps, signature=(-1, 5), pixels="rgb")
    assert repr(result) == f"<TensorInfo {MARKUP}: int8[1?, 5], quantized q(0.5,3), pixels rgb>"
    assert "int8[1?, 5]" in parse_html(result).words
    assert repr(TensorInfo("text", (2,), np.dtype(object))) == "<TensorInfo text: text[2]>"
    assert repr(TensorInfo("x", (), kind)) == "<TensorInfo x: int8[]>"


def test_estimate_representation() -> None:
    result = fourfold.estimate(small_onnx(), device="null", cache=None)
    assert repr(result).startswith("<Estimate: ")
    assert "KiB on the device>" in repr(result)
    assert {"weights", "on the device", "arithmetic"} <= {*parse_html(result).words}


def test_prepared_file_representation(tmp_path: Path) -> None:
    draft = Draft()
    for name, device in (("a", NULL_GPU), (MARKUP, replace(NULL_GPU, name="other"))):
        draft.add_compiled(draft.add_model(name, name, 1), device, line(), {})
    path = tmp_path / "two.fourfold"
    draft.write(path)
    result = Prepared.open(str(path))
    assert repr(result) == (
        f"<Prepared {result.file.title}: a, {MARKUP}; 2 plans for {NULL_GPU.name}, other>"
    )
    assert MARKUP in parse_html(result).words
