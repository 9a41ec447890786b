"""The self-test detects devices that compute wrong results, and rejects them."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from tiny_plan import X, line

from fourfold.backends import describe_verdict, make_player, probing
from fourfold.backends.opencl import binding as cl
from fourfold.backends.opencl.behavior_probes import open_kernels, try_self_test
from fourfold.backends.opencl.ports import Ports
from fourfold.codegen.opencl import probes
from fourfold.device import SELF_TESTS, DeviceInfo
from fourfold.errors import DeviceError
from fourfold.plan import Program
from fourfold.support import log


def self_test(device: DeviceInfo) -> object:
    """Return the self-test result of a device treated as a discrete GPU."""
    discrete = replace(device, kind="gpu", unified_memory=False)
    return try_self_test(discrete, open_kernels(device, probes.SELF_TEST))["self_test"]


def test_correct_driver_passes(device: DeviceInfo) -> None:
    assert self_test(device) == ""


def test_detects_wrong_results(device: DeviceInfo, monkeypatch: pytest.MonkeyPatch) -> None:
    right = cl.Queue.read

    def read(
        queue: cl.Queue, buffer: cl.Buffer, array: np.ndarray, *more: object, wait: bool = True
    ) -> None:
        right(queue, buffer, array)
        array[-1] += 1

    monkeypatch.setattr(cl.Queue, "read", read)
    assert self_test(device) == ", ".join(SELF_TESTS)


@pytest.mark.parametrize("name", probes.SELF_TEST)
def test_names_the_failed_part(
    name: str, device: DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Covers kernels that do not build and kernels that compute something else."""
    wrong = "floats, staging" if name == "floats" else name
    good = probes.SELF_TEST[name].text
    for text in (f"{good} this is no kernel", re.sub(r"\b3(\.0f)?\b", r"2\1", good)):
        monkeypatch.setitem(probes.SELF_TEST, name, Program(text, ""))
        assert self_test(device) == wrong


@pytest.mark.parametrize("wrong", ["floats", "bytes", "floats, halves, bytes, staging"])
def test_rejects_devices_that_compute_wrong_results(wrong: str, device: DeviceInfo) -> None:
    with pytest.raises(DeviceError, match=r"(?s)computes wrong results.*self-test.*driver"):
        make_player(device.with_facts({"self_test": wrong}), line().plan)


def test_rejects_devices_that_lose_values_in_branches(device: DeviceInfo) -> None:
    with pytest.raises(
        DeviceError, match=r"(?s)computes wrong results.*many branches.*update its driver"
    ):
        make_player(device.with_facts({"self_test": "branches"}), line().plan)


def test_wrong_fp16_rejects_only_fp16_precisions(device: DeviceInfo) -> None:
    wrong, plan = device.with_facts({"self_test": "halves"}), line().plan
    player = make_player(wrong, plan)
    np.testing.assert_array_equal(player.run([X])[0], 2 * X + 1)
    player.close()
    with pytest.raises(DeviceError, match=r"(?s)wrong fp16 values.*precision='fp32'"):
        make_player(wrong, replace(plan, precision="mixed"))


@pytest.mark.parametrize(("wrong", "staged"), [("", True), ("staging", False), (None, False)])
def test_staged_copies_need_a_passed_self_test(
    wrong: str | None, staged: bool, device: DeviceInfo
) -> None:
    facts = {} if wrong is None else {"self_test": wrong}
    discrete = replace(device, kind="gpu", unified_memory=False, probed=()).with_facts(facts)
    player = make_player(device, line().plan)
    queue = cl.Queue(player._context)  # type: ignore[attr-defined]
    ports = Ports(player._context, queue, discrete, player.plan, player._buffers)  # type: ignore[attr-defined]
    assert bool(ports._host) == staged
    ports.close()
    player.close()


def test_warning_names_the_device_and_the_workaround(
    device: DeviceInfo, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "_said", {})
    for _ in range(2):
        probing.check_verdict(device.with_facts({"self_test": "staging"}), "mixed")
    (said,) = [one.getMessage() for one in caplog.records]
    assert device.name in said
    assert "pinned host memory gave wrong results" in said
    assert "instead" in said


def test_describes_verdicts(device: DeviceInfo) -> None:
    cpu = replace(device, kind="cpu", probed=())
    right = cpu.with_facts({"self_test": ""})
    assert describe_verdict(cpu) == "unknown: the self-test did not finish"
    assert describe_verdict(right) == "right"
    assert describe_verdict(cpu.with_facts({"self_test": "halves"})) == "wrong: halves"
    facts = {"persistent_mapping": False, "host_pointers": True, "forward_progress": False}
    words = "right, without persistent mapping and forward progress"
    assert describe_verdict(right.with_facts(facts)) == words
    assert describe_verdict(replace(right, kind="gpu").with_facts(facts)) == "right"
