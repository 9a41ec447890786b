"""The pipeline from a graph to a plan, and its timings."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any

import pytest
from random_graphs import build
from small_networks import small_onnx

import fourfold
from fourfold import backends
from fourfold.backends.null import NULL_GPU
from fourfold.codegen.context import KernelOptions
from fourfold.compiler import placement
from fourfold.compiler.compile import RecordedChoices, load_model, plan_graph, prepare_lowering
from fourfold.compiler.lower import make_plan
from fourfold.compiler.pipeline import kernel_options
from fourfold.config import Config
from fourfold.device import PROBED, DeviceInfo
from fourfold.errors import InputError
from fourfold.options import CompileOptions, PlacementOptions, SessionOptions
from fourfold.plan import Plan
from fourfold.support.timings import Timings

TEXT = """
    input x: f32[1,7,5,3]
    a = relu(x)
    y = negate(a)
    output y
"""
ROUNDED = TEXT.replace("relu(x)", "fake_quantize(x; scale=0.1, low=0, high=255)")


@pytest.mark.parametrize(("text", "quantised"), [(TEXT, False), (ROUNDED, True)])
def test_rewrites_the_graph_and_probes_what_it_needs(
    text: str, quantised: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    probed = replace(NULL_GPU, name="probed")
    asked: list[bool] = []

    def probe(device: DeviceInfo, quantised: bool) -> DeviceInfo:
        asked.append(quantised)
        return probed

    monkeypatch.setattr(backends, "probe", probe)
    timings = Timings()
    lowering = prepare_lowering(build(text), NULL_GPU, CompileOptions(), timings)
    assert asked == [quantised]
    assert lowering.device is probed
    assert len(lowering.graph.nodes) == 1  # the second node is fused into the first
    assert list(timings) == ["rewrite", "probe"]
    assert str(lowering.plan()) == str(plan_graph(build(text), NULL_GPU, CompileOptions()))


def test_kernel_options_follow_compile_options() -> None:
    options = CompileOptions("mixed", literal_sizes=True, launches="list")
    assert kernel_options(options) == KernelOptions("mixed", literal=True, form="list")


def test_records_requested_choices() -> None:
    recorded = RecordedChoices({"a": "tiled", "b": "rows"})
    assert (recorded.get("a"), recorded.get("c")) == ("tiled", None)
    assert recorded.answers == {"a": "tiled", "c": None}
    assert RecordedChoices({})  # an empty record is truthy


def test_repeated_stages_add_up_and_failed_ones_are_not_recorded() -> None:
    timings = Timings()
    timings.add("build", 1.0)
    timings.add("build", 2.0)
    with timings.stage("open"):
        pass
    with pytest.raises(ZeroDivisionError), timings.stage("read"):
        raise ZeroDivisionError
    assert list(timings) == ["build", "open"]
    assert timings["build"] == 3.0


def test_config_provides_defaults_for_options() -> None:
    config = Config(precision="mixed", sizes="literal", launches="one")
    result = SessionOptions().compile_options(config)
    assert result == CompileOptions("mixed", any_precision=True, literal_sizes=True, launches="one")
    stated = SessionOptions(precision="fp32", shapes={"x": (1,)}).compile_options(config)
    assert (stated.precision, stated.any_precision, stated.shapes) == ("fp32", False, {"x": (1,)})
    with pytest.raises(InputError, match="did you mean 'fp16'"):
        CompileOptions("fp61")


def test_placement_options_can_exclude_the_device() -> None:
    assert PlacementOptions("cpu").only_cpu
    assert PlacementOptions(max_partitions=0).only_cpu
    assert not PlacementOptions("gpu", max_partitions=1).only_cpu
    assert PlacementOptions(threads=3).thread_count == 3
    assert PlacementOptions().thread_count >= 1


def test_rejects_missing_models() -> None:
    with pytest.raises(InputError, match="cannot open"):
        load_model("no such file", CompileOptions())


@pytest.mark.parametrize("precision", ["fp32", "mixed", "fp16"])
def test_values_beyond_fp16_raise_no_warning(precision: str) -> None:
    nodes = "const w: f32[64,3,3,64] = 1e38\nb = conv2d(a, w)\ny = mul(b, s)"
    text = f"input a: f32[1,9,9,64]\nconst s: f32[64] = 1e38\n{nodes}\noutput y"
    plan = plan_graph(build(text), replace(NULL_GPU, probed=PROBED), CompileOptions(precision))
    assert plan.launches


def test_opening_a_model_is_at_most_eight_calls_deep(
    device: DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[list[str]] = []

    def recording_make_plan(*arguments: Any) -> Plan:
        names = [frame.function for frame in inspect.stack(context=0)]
        calls.append(names[: names.index("__init__", names.index("_open_instances")) + 1])
        return make_plan(*arguments)

    monkeypatch.setattr(placement, "make_plan", recording_make_plan)
    fourfold.Session(small_onnx(), device, cache=None).close()
    assert [len(names) for names in calls] == [8], calls
