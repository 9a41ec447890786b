"""Memory limits: the order in which speed and precision are reduced, and the error when no plan
fits.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from fake_devices import X86
from small_networks import deep_onnx

from fourfold.compiler import pipeline
from fourfold.compiler.compile import compile_model, smaller_options
from fourfold.device import PROBED
from fourfold.errors import DeviceError
from fourfold.graph import Graph
from fourfold.options import CompileOptions
from fourfold.plan import Plan

DEVICE = replace(X86, probed=PROBED, version="OpenCL 1.2 x86_64 linux")
MODEL = deep_onnx(layers=5, channels=32, size=160)  # its values are large


def plan(limit: int | None, any_precision: bool = True, **options: str) -> Plan:
    options_with_limit = CompileOptions(memory_limit=limit, any_precision=any_precision, **options)  # type: ignore[arg-type]
    return compile_model(MODEL, DEVICE, options_with_limit).plan


def titles(compiled_plan: Plan) -> set[str]:
    return {launch.title for launch in compiled_plan.launches}


def test_reduces_speed_before_precision() -> None:
    unlimited = plan(None)
    assert (len(unlimited.launches), unlimited.precision) == (1, "fp32")
    assert plan(unlimited.device_bytes).program == unlimited.program
    listed = plan(unlimited.device_bytes - 1)
    assert len(listed.launches) > 1
    assert any("winograd" in title for title in titles(listed))
    plain = plan(listed.device_bytes - 1)
    assert not any("winograd" in title for title in titles(plain))
    assert plain.precision == "fp32"
    mixed = plan(plain.device_bytes - 1)
    assert mixed.precision == "mixed"
    sizes = [compiled_plan.device_bytes for compiled_plan in (unlimited, listed, plain, mixed)]
    assert sizes == sorted(set(sizes), reverse=True)


def test_explicit_precision_is_kept() -> None:
    plain = plan(plan(None, launches="list").device_bytes - 1, any_precision=False)
    with pytest.raises(DeviceError, match="does not fit") as caught:
        plan(plain.device_bytes - 1, any_precision=False)
    assert f"needs {plain.device_bytes} bytes" in caught.value.why
    assert f"memory_limit={plain.device_bytes}" in caught.value.fix
    assert "precision='mixed'" in caught.value.fix


def test_suggested_limit_is_sufficient() -> None:
    with pytest.raises(DeviceError) as caught:
        plan(1000)
    needed = int(caught.value.fix.partition("memory_limit=")[2].partition(" ")[0])
    assert plan(needed).device_bytes == needed
    assert "precision='mixed'" not in caught.value.fix  # it was tried


def test_explicit_one_launch_is_kept() -> None:
    forms = [options.launches for _, options in smaller_options(CompileOptions(launches="one"))]
    assert set(forms) == {"one"}


def test_each_option_reduces_more_than_the_last() -> None:
    words = [reduction for reduction, _ in smaller_options(CompileOptions())]
    assert words[0] == ""
    assert all(before in after for before, after in pairwise(words))


def test_graph_is_rewritten_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rewritten: list[Graph] = []
    rewrite = pipeline.rewrite

    def recording_rewrite(graph: Graph) -> Graph:
        rewritten.append(graph)
        return rewrite(graph)

    monkeypatch.setattr(pipeline, "rewrite", recording_rewrite)
    with pytest.raises(DeviceError, match="does not fit"):
        plan(1000)
    assert len(rewritten) == 1
