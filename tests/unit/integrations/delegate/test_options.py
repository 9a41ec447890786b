"""Options of the delegate mean the same as in TFLite, and mistakes are reported."""

from __future__ import annotations

from typing import Any

import pytest

from fourfold.errors import InputError
from fourfold.integrations.delegate.options import GpuOptions


@pytest.mark.parametrize(
    ("options", "precision"),
    [
        ({}, "fp32"),
        ({"precision_loss_allowed": True}, "mixed"),
        ({"precision_loss_allowed": False}, "fp32"),
        ({"precision_loss_allowed": False, "inference_priority1": "min_latency"}, "fp32"),
        ({"inference_priority1": "min_latency"}, "mixed"),
        ({"inference_priority1": "min_memory"}, "mixed"),
        ({"inference_priority1": "max_precision"}, "fp32"),
        ({"inference_priority1": "min_latency", "inference_priority2": "max_precision"}, "mixed"),
    ],
)
def test_precision(options: dict[str, Any], precision: str) -> None:
    assert GpuOptions(**options).precision == precision


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"inference_preference": "sustained"}, "sustained_speed"),
        ({"inference_priority1": "latency"}, "min_latency"),
        ({"inference_priority1": "auto"}, "the first is required"),
        ({"inference_priority3": "min_latency"}, "'auto' comes last"),
        ({"inference_priority2": "max_precision"}, "each priority may appear once"),
        ({"max_delegated_partitions": 0}, "pass 1 or more"),
    ],
)
def test_invalid_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        GpuOptions(**options)


def test_a_range_of_nodes() -> None:
    options = GpuOptions(first_delegate_node=2, last_delegate_node=4)
    assert [node for node in range(7) if options.covers(node)] == [2, 3, 4]
    assert all(GpuOptions().covers(node) for node in range(7))


def test_only_asking_for_speed_costs_time() -> None:
    seconds = [
        GpuOptions(inference_preference=name).tuning_seconds
        for name in ("fast_single_answer", "balanced", "sustained_speed")
    ]
    assert seconds[0] == 0
    assert seconds == sorted(seconds)
