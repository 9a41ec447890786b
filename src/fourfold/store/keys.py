"""What an entry is good for: labelled parts, and the digest of all of them that is its key."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from mmap import mmap

from fourfold.device import DeviceInfo
from fourfold.plan import BufferUse, Plan, Program
from fourfold.types import Shape
from fourfold.version import VERSION

try:
    from _blake2 import blake2b  # hashlib's own; hashlib itself loads OpenSSL, for milliseconds
except ImportError:
    from hashlib import blake2b

Parts = dict[str, str]
FORMAT = "1"  # of the entries; another number, and nothing kept before is used
PROBED = ("matrix_units", "resident", "reaches_host", "image_texels", "image_windows")
WHERE = ("index", "memory", *PROBED)  # not in keys: place, or told by what is
PACKAGE = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
MAKERS = (
    *("", "kernel", "kernels", "op", "ops", "plan", "formats", "rewrite", "lower", "split", "tune"),
    *("cpu", "compile"),
)


def digest(data: bytes | memoryview | mmap) -> str:
    return blake2b(data, digest_size=16).hexdigest()


def key_of(parts: Mapping[str, str]) -> str:
    """The digest of all parts with their labels."""
    total = blake2b(digest_size=16)
    for label, value in sorted(parts.items()):
        data = value.encode()
        total.update(f"{label}:{len(data)}:".encode() + data)
    return total.hexdigest()


@cache
def engine_parts() -> Parts:
    """Which fourfold this is: its version, and the state of the sources that make plans."""
    total = blake2b(digest_size=16)
    with suppress(OSError):  # no files, as in an archive: the version must do
        for line in _sources():
            total.update(line.encode())
    return {"format": FORMAT, "engine": VERSION, "sources": total.hexdigest()}


def _sources() -> Iterator[str]:
    """Name, size and time of every file that has a say in plans."""
    pending = [os.path.join(PACKAGE, name) for name in MAKERS]
    pending = [folder for folder in pending if os.path.isdir(folder)]
    for folder in pending:
        with os.scandir(folder) as entries:
            for entry in sorted(entries, key=lambda one: one.name):
                if entry.name.endswith((".py", ".json")):
                    state = entry.stat()
                    name = f"{os.path.basename(folder)}/{entry.name}"
                    yield f"{name}:{state.st_size}:{state.st_mtime_ns};"
                elif folder != pending[0] and entry.is_dir() and entry.name != "__pycache__":
                    pending.append(entry.path)


def device_parts(device: DeviceInfo) -> Parts:
    """What a binary depends on."""
    return {
        "platform": device.platform,
        "device": device.name,
        "driver": device.driver,
        "version": device.version,
    }


def device_key(device: DeviceInfo) -> str:
    """Under which tuned choices are kept: the device, whatever its driver is today."""
    return f"{device.platform} / {device.name} / {device.compute_units} units"


def plan_parts(
    model: Mapping[str, str],
    shapes: Mapping[str, Shape],
    device: DeviceInfo,
    how: Mapping[str, str],
) -> Parts:
    """All that a plan depends on but tuned choices; `model` and `how` are labelled parts, too."""
    facts = {name: str(value) for name, value in asdict(device).items() if name not in WHERE}
    sizes = ";".join(f"{name}={list(shape)}" for name, shape in sorted(shapes.items()))
    return {**engine_parts(), **facts, **model, **how, "kind of entry": "plan", "shapes": sizes}


def program_parts(program: Program, device: DeviceInfo) -> Parts:
    text = digest(program.text.encode())
    own = {"kind of entry": "binary", "text": text, "options": program.options, "format": FORMAT}
    return {**own, **device_parts(device)}


# What only one kind of device understands (`DeviceInfo.dot_products`).
_WORDS = {
    "__builtin_ia32": "x86",
    "vpdpbusd": "x86",
    "dot_4x8packed": "khr",
    "dp4a": "ptx",
}
# Instructions of NVIDIA's GPUs.
_PTX = ("mma.sync", "shfl.sync", ".release.gpu", "cvt.rn.f16x2")


def needs_of(plan: Plan) -> dict[str, int | bool | str]:
    """What a device must have to play a plan that was not made for it."""
    groups = [1]
    for launch in plan.launches:
        size = 1
        for side in launch.local:
            size *= side
        groups.append(size)
    largest = max((one.bytes for one in plan.buffers), default=0)
    text, half = plan.program.text, plan.precision == "fp16"
    ptx = any(word in text for word in _PTX)
    arguments = (argument for launch in plan.launches for argument in launch.arguments)
    ends = (use.end_of_image for use in arguments if isinstance(use, BufferUse))
    sizes = {"group": max(groups), "buffer": largest, "texels": max(ends, default=0)}
    subgroups = "sub_group_shuffle" in text
    return {**sizes, "half": half, "dots": _spelling(text), "ptx": ptx, "subgroups": subgroups}


def _spelling(text: str) -> str:
    """Who spells out the dot products of a program: no other device knows their words."""
    return next((name for word, name in _WORDS.items() if word in text), "")
