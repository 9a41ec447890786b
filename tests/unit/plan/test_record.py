"""Plan records: a plan can be written and read again, and invalid records are rejected."""

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
    CompiledModel,
    Container,
    InputsOnDevice,
    Plan,
    Section,
    compiled_sections,
    container_bytes,
    plan_record,
    read_compiled_model,
    read_plan,
)
from fourfold.plan.record import plan_sections
from fourfold.types import TensorType


def round_trip(plan: Plan) -> Plan:
    return read_plan(Container(container_bytes(plan_sections(plan)), "it"), 0, 1, 2)


def with_record(plan: Plan, record: Any) -> Plan:
    _, text, constants = plan_sections(plan)
    sections = [Section("plan", json.dumps(record).encode()), text, constants]
    return read_plan(Container(container_bytes(sections), "it"), 0, 1, 2)


def test_every_field_of_a_plan_round_trips() -> None:
    plan = line().plan
    result = round_trip(plan)
    for field in fields(Plan):
        one, other = getattr(plan, field.name), getattr(result, field.name)
        assert np.array_equal(one, other) if field.name == "constants" else one == other


def test_every_field_of_a_model_round_trips() -> None:
    model = replace(
        line(choices={"add f32[4]": "wide", "mul": None}),
        open_sizes=((-1,),),
        pixels={"the x": "rgb"},
        signature="serve",
        postprocess="topk",
        environment={"threads": "2"},
        placement=b"{}",
        about=b"{}",
    )
    sections = compiled_sections(model)
    result = read_compiled_model(Container(container_bytes(sections), "it"), range(len(sections)))
    for field in fields(CompiledModel):
        if field.name != "parts":
            assert getattr(result, field.name) == getattr(model, field.name), field.name
    assert [part[:3] for part in result.parts] == [part[:3] for part in model.parts]
    assert str(result.plan) == str(model.plan)


def test_ports_of_a_whole_model_are_only_in_its_plan() -> None:
    sections = compiled_sections(line())
    model, plan = (json.loads(bytes(section.data)) for section in sections[:2])
    ports = {"inputs", "outputs", "input_names", "output_names", "pixels"}
    assert ports <= plan.keys()
    assert not ports & model.keys()


def test_local_memory_of_a_launch_round_trips() -> None:
    plan = line().plan
    (launch,) = plan.launches
    assert len(plan_record(plan)["launches"][0]) == 7  # unchanged for older readers
    with_local_memory = replace(plan, launches=(launch._replace(local_bytes=65536),))
    assert round_trip(with_local_memory).launches == with_local_memory.launches


def test_launch_arguments_for_device_inputs_round_trip() -> None:
    plan = line().plan
    (launch,) = plan.launches
    assert "on_device" not in plan_record(plan)  # unchanged for older readers
    on_device = InputsOnDevice(launch.arguments, tuple(port.buffer for port in plan.inputs))
    result = round_trip(replace(plan, on_device=on_device))
    assert result.on_device == on_device
    record = plan_record(result)
    for invalid in ([record["on_device"][0][:-1], [2]], [record["on_device"][0], [99]], [1, 2], []):
        with pytest.raises(ModelError, match="damaged"):
            with_record(plan, {**record, "on_device": invalid})


def with_image(text: str = "f16[6,4]", offset: int = 8) -> Plan:
    plan = line().plan
    (launch,) = plan.launches
    use = BufferUse(1, offset, TensorType.parse(text))
    launch = launch._replace(arguments=(launch.arguments[0], use, *launch.arguments[2:]))
    return replace(plan, launches=(launch,))


def test_images_round_trip() -> None:
    plan = with_image()
    assert round_trip(plan).launches == plan.launches
    assert "#1+8 as f16[6,4]" in str(round_trip(plan))


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
def test_rejects_invalid_images(text: str, offset: int) -> None:
    with pytest.raises(ModelError, match="damaged"):
        round_trip(with_image(text, offset))


def test_reads_constants_without_a_copy() -> None:
    assert not round_trip(line().plan).constants.flags.owndata


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
def test_rejects_invalid_records(path: tuple[Any, ...], value: Any) -> None:
    record: Any = plan_record(line().plan)
    inner = record
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    with pytest.raises(ModelError, match="damaged"):
        with_record(line().plan, record)


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_random_records_are_read_or_rejected(data: st.DataObject) -> None:
    record: Any = json.loads(json.dumps(plan_record(line().plan)))
    key = data.draw(st.sampled_from(sorted(record)))
    leaf = st.none() | st.integers() | st.text(max_size=3) | st.floats(allow_nan=False)
    record[key] = data.draw(st.recursive(leaf, lambda inner: st.lists(inner, max_size=4)))
    with suppress(ModelError):
        with_record(line().plan, record)


@pytest.mark.parametrize("text", [b"", b"[]", b"null", b"{", b"\xff", b"[" * 100_000])
def test_rejects_invalid_json(text: bytes) -> None:
    _, source, constants = plan_sections(line().plan)
    content = container_bytes([Section("plan", text), source, constants])
    with pytest.raises(ModelError):
        read_plan(Container(content, "it"), 0, 1, 2)
