"""A limit of memory: what is given up for it and in which order, and what is said where it is not
enough.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from fake_devices import X86
from small_networks import deep_onnx

from fourfold.compiler.compile import compile_model, smaller_options
from fourfold.device import PROBED
from fourfold.errors import DeviceError
from fourfold.options import CompileOptions
from fourfold.plan import Plan

DEVICE = replace(X86, probed=PROBED, version="OpenCL 1.2 x86_64 linux")
MODEL = deep_onnx(layers=5, channels=32, size=160)  # its values are not small


def plan(limit: int | None, any_precision: bool = True, **options: str) -> Plan:
    asked = CompileOptions(memory_limit=limit, any_precision=any_precision, **options)  # type: ignore[arg-type]
    return compile_model(MODEL, DEVICE, asked).plan


def titles(made: Plan) -> set[str]:
    return {launch.title for launch in made.launches}


def test_speed_is_given_up_before_precision() -> None:
    usual = plan(None)
    assert (len(usual.launches), usual.precision) == (1, "fp32")
    assert plan(usual.device_bytes).program == usual.program
    listed = plan(usual.device_bytes - 1)
    assert len(listed.launches) > 1
    assert any("winograd" in title for title in titles(listed))
    plain = plan(listed.device_bytes - 1)
    assert not any("winograd" in title for title in titles(plain))
    assert plain.precision == "fp32"
    halves = plan(plain.device_bytes - 1)
    assert halves.precision == "mixed"
    sizes = [made.device_bytes for made in (usual, listed, plain, halves)]
    assert sizes == sorted(set(sizes), reverse=True)


def test_a_precision_that_was_named_stays() -> None:
    plain = plan(plan(None, launches="list").device_bytes - 1, any_precision=False)
    with pytest.raises(DeviceError, match="does not fit") as told:
        plan(plain.device_bytes - 1, any_precision=False)
    assert f"needs {plain.device_bytes} bytes" in told.value.why
    assert f"memory_limit={plain.device_bytes}" in told.value.fix
    assert "precision='mixed'" in told.value.fix


def test_the_number_in_the_refusal_is_enough() -> None:
    with pytest.raises(DeviceError) as told:
        plan(1000)
    needed = int(told.value.fix.partition("memory_limit=")[2].partition(" ")[0])
    assert plan(needed).device_bytes == needed
    assert "precision='mixed'" not in told.value.fix  # it was tried


def test_one_launch_that_was_asked_for_stays() -> None:
    forms = [options.launches for _, options in smaller_options(CompileOptions(launches="one"))]
    assert set(forms) == {"one"}


def test_without_a_limit_nothing_is_tried_twice() -> None:
    words = [given_up for given_up, _ in smaller_options(CompileOptions())]
    assert words[0] == ""
    assert all(before in after for before, after in pairwise(words))
