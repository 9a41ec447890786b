"""Prepared files for the fake OpenCL driver of tests/c_player/fake_opencl.c."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from c_player.build import LIBRARY, SANITIZED, STRICT, build_program, command
from tiny_plan import COUNT, line, with_plan

from fourfold.device import DeviceInfo, Fact
from fourfold.plan import Buffer, BufferUse, CompiledModel, Launch, Port, Requirements
from fourfold.plan.requirements import ImageNeed
from fourfold.store.draft import Draft
from fourfold.types import DType, Quantization, TensorType

HERE = Path(__file__).parent
LIBRARY_FLAGS = ("-Wno-missing-field-initializers", "-shared", "-fPIC")
QUIET = {"ASAN_OPTIONS": "allocator_may_return_null=1", "UBSAN_OPTIONS": "print_stacktrace=1"}
KIND = TensorType(DType.F32, (COUNT,))


@cache
def driver() -> Path:
    return build_program((HERE / "fake_opencl.c",), (*STRICT, *LIBRARY_FLAGS))


def fake_environment(**more: str) -> dict[str, str]:
    return {**os.environ, **QUIET, "LIBOPENCL_SO_PATH": str(driver()), **more}


def run_fake(*arguments: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run fourfold-run on the fake device, with sanitizers."""
    words = [str(command(SANITIZED)), *map(str, arguments)]
    environment = fake_environment(**more)
    return subprocess.run(
        words, capture_output=True, text=True, check=False, env=environment, timeout=120
    )


def play_files(paths: Sequence[Path], *arguments: str, **more: str) -> list[str]:
    """Run tests/c_player/play_files.c on the fake device, with sanitizers."""
    program = build_program((*LIBRARY, HERE / "play_files.c"), SANITIZED)
    done = subprocess.run(
        [str(program), *arguments],
        input="".join(f"{path}\n" for path in paths),
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        env=fake_environment(**more),
        timeout=600,
    )
    lines = done.stdout.splitlines()
    last = lines[-1] if lines else "nothing"
    assert (done.returncode, done.stderr) == (0, ""), f"after {last}: {done.stderr}"
    return lines


def run_fake_json(*arguments: str | Path, status: int = 0, **more: str) -> list[dict[str, Any]]:
    done = run_fake(*arguments, "--json", **more)
    assert (done.returncode, done.stderr) == (status, ""), (done.stdout, done.stderr)
    return [json.loads(one) for one in done.stdout.splitlines()]


def fake_device(facts: Mapping[str, Fact] | None = None, **more: str) -> DeviceInfo:
    """Return the device that `--probe` reports, with some probed facts."""
    (report,) = run_fake_json("--probe", **more)
    names = {field.name for field in fields(DeviceInfo)} - {"image_texels"}
    device = DeviceInfo(**{name: value for name, value in report.items() if name in names})
    return device.with_facts(facts or {})


def prepare_fake(
    path: Path, device: DeviceInfo, plans: Mapping[str, Sequence[CompiledModel]]
) -> Path:
    """Write a prepared file with some models, each with its plans for a device."""
    draft = Draft()
    for name, several in plans.items():
        number = draft.add_model(name, name, 1)
        for compiled in several:
            draft.add_compiled(number, device, compiled, {})
    draft.write(path)
    return path


def stepped(name: str = "line_bytes") -> CompiledModel:
    """Return the line as a persistent kernel, with offsets in bytes."""
    compiled = line()
    (launch,) = compiled.plan.launches
    plan = replace(compiled.plan, launches=(launch._replace(entry=name, stages=2),))
    return with_plan(compiled, plan)


def flagged() -> CompiledModel:
    """Return the line as a kernel that waits for its input in host memory."""
    compiled = stepped("line_flags")
    (launch,) = compiled.plan.launches
    arena, constants, x, y = compiled.plan.buffers
    hosts = (x._replace(kind="host"), y._replace(kind="host"))
    plan = replace(
        compiled.plan,
        buffers=(arena, constants, *hosts, Buffer("flags", "host_protocol", 192)),
        launches=(launch._replace(arguments=(*launch.arguments, BufferUse(4, 0))),),
        requirements=Requirements(resident_groups=4, reaches_host=True, address_bits=64),
    )
    return with_plan(compiled, plan)


def everything() -> CompiledModel:
    """Return a plan with each kind of buffer, argument and port, and empty kernels."""
    constants = np.arange(4096, dtype=np.uint8)
    buffers = (
        Buffer("arena", "arena", 640),
        Buffer("one", "constants", 3072, 0),
        Buffer("two", "constants", 1024, 3072),
        Buffer("x", "input", 48),
        Buffer("picture", "input", 75),
        Buffer("y", "output", 64),
        Buffer("begun", "variable", 128, 256),
        Buffer("empty", "variable", 64),
        Buffer("counters", "state", 256),
        Buffer("none", "output", 0),
    )
    half, full = TensorType(DType.F16, (40, 4)), TensorType(DType.F32, (32, 4))
    images = (BufferUse(1, 0, full), BufferUse(1, 960, half), BufferUse(2, 32, full))
    uses = (*(BufferUse(number, 0) for number in range(len(buffers))), *images, 7, -(2**31))
    launches = (
        Launch("first", uses, (64, 4, 2), (16, 2, 1), "first", "a = first(x)"),
        Launch("second", (BufferUse(0, 100), 3), (8,), (8,), "second", 'b = "second"(a)', 3),
    )
    ports = (
        Port("x", TensorType(DType.I8, (1, 48)), 3, Quantization((0.5,), (-3,))),
        Port("picture", TensorType(DType.U8, (1, 5, 5, 3)), 4),
    )
    scales = Quantization((0.5, 0.25), (1, 2), 0)
    outputs = (
        Port("y", TensorType(DType.I16, (2, 16)), 5, scales),
        Port("state", TensorType(DType.F32, (32,)), 6),
        Port("none", TensorType(DType.I64, (0, 3)), 9),
    )
    needs = Requirements(
        half_arithmetic=True,
        subgroups="khr",
        dot_products="khr",
        work_group=32,
        local_memory=1024,
        buffer_bytes=3072,
        alignment=64,
        images=(ImageNeed(280, 40, 8), ImageNeed(40, 32, 16)),
    )
    plan = replace(
        line().plan,
        buffers=buffers,
        launches=launches,
        inputs=ports,
        outputs=outputs,
        constants=constants,
        precision="mixed",
        requirements=needs,
    )
    names = (("x", "picture"), ("y", "the state", "none"))
    return CompiledModel.of_plan(
        plan, *names, {"a choice": None}, pixels={"picture": "rgb from 0 to 1"}
    )


EVERYTHING: dict[str, Fact] = {
    "half_arithmetic": True,
    "subgroups": "khr",
    "dot_products": "khr",
    "image_texels": 65536,
    "image_windows": True,
    "self_test": "",
}
