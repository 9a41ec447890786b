"""Plans as files: the same plan comes back, and nonsense is refused in words."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_plan import line

from fourfold.errors import ModelError
from fourfold.plan import (
    BufferUse,
    Compiled,
    Container,
    InputsOnDevice,
    Plan,
    Section,
    container_bytes,
    plan_record,
    read_plan,
)
from fourfold.plan.record import plan_sections
from fourfold.types import TensorType


def again(compiled: Compiled) -> Compiled:
    return read_plan(Container(container_bytes(plan_sections(compiled)), "it"), 0, 1, 2)


def with_record(compiled: Compiled, record: Any) -> Compiled:
    _, text, constants = plan_sections(compiled)
    sections = [Section("plan", json.dumps(record).encode()), text, constants]
    return read_plan(Container(container_bytes(sections), "it"), 0, 1, 2)


def test_every_field_comes_back() -> None:
    compiled = line(choices={"add f32[4]": "wide", "mul": None})
    found = again(compiled)
    for field in fields(Plan):
        one, other = getattr(compiled.plan, field.name), getattr(found.plan, field.name)
        assert np.array_equal(one, other) if field.name == "constants" else one == other
    for name in ("input_names", "output_names", "choices"):
        assert getattr(found, name) == getattr(compiled, name)


def test_local_memory_that_a_launch_asks_for_comes_back() -> None:
    compiled = line()
    plan, (launch,) = compiled.plan, compiled.plan.launches
    assert len(plan_record(compiled)["launches"][0]) == 7  # as readers have known it
    asking = replace(plan, launches=(launch._replace(local_bytes=65536),))
    found = again(replace(compiled, plan=asking))
    assert found.plan.launches == asking.launches


def test_a_shorter_way_for_inputs_on_the_device_comes_back() -> None:
    compiled = line()
    plan, (launch,) = compiled.plan, compiled.plan.launches
    assert "on_device" not in plan_record(compiled)  # as readers have known it
    way = InputsOnDevice(launch.arguments, tuple(port.buffer for port in plan.inputs))
    found = again(replace(compiled, plan=replace(plan, on_device=way)))
    assert found.plan.on_device == way
    record = plan_record(found)
    for wrong in ([record["on_device"][0][:-1], [2]], [record["on_device"][0], [99]], [1, 2], []):
        with pytest.raises(ModelError, match="damaged"):
            with_record(compiled, {**record, "on_device": wrong})


def with_image(text: str = "f16[6,4]", offset: int = 8) -> Compiled:
    compiled = line()
    plan, (launch,) = compiled.plan, compiled.plan.launches
    use = BufferUse(1, offset, TensorType.parse(text))
    launch = launch._replace(arguments=(launch.arguments[0], use, *launch.arguments[2:]))
    return replace(compiled, plan=replace(plan, launches=(launch,)))


def test_images_come_back() -> None:
    compiled = with_image()
    assert again(compiled).plan.launches == compiled.plan.launches
    assert "#1+8 as f16[6,4]" in str(again(compiled).plan)


@pytest.mark.parametrize(
    ("text", "offset"),
    [
        ("f16[7,4]", 8),
        ("f32[4,4]", 4),
        ("f16[6,4]", 6),
        ("f16[4]", 8),
        ("f16[6,2]", 8),
        ("i8[1,4]", 8),
    ],
)
def test_images_that_cannot_be_are_refused(text: str, offset: int) -> None:
    with pytest.raises(ModelError, match="damaged"):
        again(with_image(text, offset))


def test_constants_are_not_copied() -> None:
    found = again(line())
    assert not found.plan.constants.flags.owndata


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("launches", 0, 1, 0), [9, 0]),
        (("launches", 0, 1, 0), [2, -1]),
        (("launches", 0, 1, 0), [2, 65]),
        (("launches", 0, 1, 3), 2**40),
        (("launches", 0, 1, 3), True),
        (("launches", 0, 1, 3), 1.5),
        (("launches", 0, 2), [0]),
        (("launches", 0, 2), [16, 1]),
        (("launches", 0, 3), [5]),
        (("launches", 0, 0), 7),
        (("inputs", 0, 1), "f32[17]"),
        (("inputs", 0, 1), "q7[16]"),
        (("inputs", 0, 2), 4),
        (("outputs", 0, 3), [1, 2]),
        (("buffers", 1, 2), 63),
        (("buffers", 0, 1), "heap"),
        (("input_names",), []),
        (("precision",), None),
    ],
)
def test_a_record_that_cannot_be_is_refused(path: tuple[Any, ...], value: Any) -> None:
    record: Any = plan_record(line())
    inner = record
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    with pytest.raises(ModelError, match="damaged"):
        with_record(line(), record)


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_random_records_are_refused_or_read(data: st.DataObject) -> None:
    record: Any = json.loads(json.dumps(plan_record(line())))
    key = data.draw(st.sampled_from(sorted(record)))
    leaf = st.none() | st.integers() | st.text(max_size=3) | st.floats(allow_nan=False)
    record[key] = data.draw(st.recursive(leaf, lambda inner: st.lists(inner, max_size=4)))
    with suppress(ModelError):
        with_record(line(), record)


@pytest.mark.parametrize("text", [b"", b"[]", b"null", b"{", b"\xff", b"[" * 100_000])
def test_no_json_no_plan(text: bytes) -> None:
    _, source, constants = plan_sections(line())
    content = container_bytes([Section("plan", text), source, constants])
    with pytest.raises(ModelError):
        read_plan(Container(content, "it"), 0, 1, 2)
