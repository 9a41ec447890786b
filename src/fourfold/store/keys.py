"""What an entry is good for: labelled parts, and the digest of all of them that is its key."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from mmap import mmap

from fourfold.device import MEASURED, PROBED, DeviceInfo, facts_for_plans
from fourfold.plan import Program
from fourfold.support.version import VERSION
from fourfold.types import Shape

try:
    from _blake2 import blake2b  # hashlib's own; hashlib itself loads OpenSSL, for milliseconds
except ImportError:
    from hashlib import blake2b

Parts = dict[str, str]
FORMAT = "1"  # of the entries; another number, and nothing kept before is used
# Limits are not in keys: what a plan needs of them is in its requirements, and is compared.
LIMITS = (
    *("max_allocation", "max_work_group", "local_memory", "asked_local_memory"),
    "image_texels",
)
# Nor is where a device is found, how much is left of it, and what it only claims.
NOT_IN_KEYS = (
    *("index", "ordinal", "others", "uuid", "memory", "claims", "probed", "present", "remote"),
    *("shared_context", "shared_queue"),
    *LIMITS,
    *PROBED,
    *MEASURED,
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


def engine_parts(sources: str) -> Parts:
    """Which fourfold this is: its version, and the digest of the sources that make plans."""
    return {"format": FORMAT, "engine": VERSION, "sources": sources}


def device_parts(device: DeviceInfo) -> Parts:
    """Which device this is, and its driver."""
    return {
        "platform": device.platform,
        "device": device.name,
        "driver": device.driver,
        "version": device.version,
    }


def facts_key(device: DeviceInfo, engine: Parts) -> str:
    """Under which probed facts are kept: the device, its driver, and who tries."""
    parts = (device.api, *device_parts(device).values(), device.compute_units)
    return " / ".join(map(str, (*parts, engine["engine"], engine["sources"])))


def fact_parts(device: DeviceInfo) -> Parts:
    """The probed facts that plans for a device depend on. What was not tried counts as plans take
    it, as absent; only who multiplies bytes, which quantised graphs alone ask, as it is claimed.
    Of a limit, only whether there is any.
    """
    names = chain.from_iterable(facts_for_plans(device, quantised=True))
    facts = {name: getattr(device, name) for name in names}
    told = {name: str(bool(fact) if name in LIMITS else fact) for name, fact in facts.items()}
    if not device.knows("dot_products"):
        told["dot_products"] = str(device.claims.get("dot_products", ""))
    return told


def device_key(device: DeviceInfo) -> str:
    """Under which tuned choices are kept: the device, whatever its driver is today."""
    return f"{device.platform} / {device.name} / {device.compute_units} units"


def compiled_parts(
    model: Mapping[str, str],
    shapes: Mapping[str, Shape],
    device: DeviceInfo,
    options: Mapping[str, str],
) -> Parts:
    """Return what a compiled model depends on, except the version of fourfold, tuned choices and
    limits; `model` and `options` are labelled parts, too.
    """
    stated = {name: str(value) for name, value in vars(device).items() if name not in NOT_IN_KEYS}
    facts = {**stated, **fact_parts(device)}
    sizes = ";".join(f"{name}={list(shape)}" for name, shape in sorted(shapes.items()))
    return {**facts, **model, **options, "kind of entry": "compiled", "shapes": sizes}


def conversion_parts(model: str, converter: str, script: str) -> Parts:
    """What a converted model depends on: all files of the model, the versions of who converts, and
    what we tell it to do.
    """
    own = {"model": model, "converter": converter, "script": script}
    return {"kind of entry": "converted", "format": FORMAT, **own}


def program_parts(program: Program, device: DeviceInfo) -> Parts:
    """What a binary depends on: the device and its driver, or the architecture alone, where a
    compiler beside the driver builds it.
    """
    return loadable_parts(program, device)[0]


def loadable_parts(program: Program, device: DeviceInfo) -> list[Parts]:
    """The same of all binaries that a device can load: its own first, then those of older
    architectures, which its driver translates.
    """
    text = digest(program.text.encode())
    own = {"kind of entry": "binary", "text": text, "options": program.options, "format": FORMAT}
    built_for = [{"architecture": name} for name in device.architectures]
    return [{**own, **one} for one in built_for or [device_parts(device)]]
