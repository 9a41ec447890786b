"""Keys of entries: labelled parts that an entry depends on, and the digest of all of them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from mmap import mmap

from fourfold.device import MEASURED, PROBED, DeviceInfo, facts_for_plans
from fourfold.plan import Program
from fourfold.support.version import VERSION
from fourfold.types import Shape

try:
    from _blake2 import blake2b  # used by hashlib, whose import of OpenSSL takes milliseconds
except ImportError:
    from hashlib import blake2b

Parts = dict[str, str]
FORMAT = "1"  # format of entries; entries with another number are not used
# Limits are not part of keys: a plan's requirements have the limits it needs, and are compared.
LIMITS = (
    *("max_allocation", "max_work_group", "local_memory", "asked_local_memory"),
    "image_texels",
)
# Neither are the address of a device, its free memory and its unverified claims.
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
    """Return the digest of all parts with their labels."""
    total = blake2b(digest_size=16)
    for label, value in sorted(parts.items()):
        data = value.encode()
        total.update(f"{label}:{len(data)}:".encode() + data)
    return total.hexdigest()


def engine_parts(sources: str) -> Parts:
    """Return the version of fourfold, and the digest of the sources that plans depend on."""
    return {"format": FORMAT, "engine": VERSION, "sources": sources}


def device_parts(device: DeviceInfo) -> Parts:
    """Return the identity of a device and its driver."""
    return {
        "platform": device.platform,
        "device": device.name,
        "driver": device.driver,
        "version": device.version,
    }


def facts_key(device: DeviceInfo, engine: Parts) -> str:
    """Return the key of a device's probed facts: the device, its driver, and the version of
    fourfold.
    """
    parts = (device.api, *device_parts(device).values(), device.compute_units)
    return " / ".join(map(str, (*parts, engine["engine"], engine["sources"])))


def fact_parts(device: DeviceInfo) -> Parts:
    """Return the probed facts that plans for a device depend on.

    Facts that were not probed count as absent, except int8 dot products, which only quantized
    graphs need: the device's claim counts for them. Of a limit only its existence counts.
    """
    names = chain.from_iterable(facts_for_plans(device, quantised=True))
    facts = {name: getattr(device, name) for name in names}
    texts = {name: str(bool(fact) if name in LIMITS else fact) for name, fact in facts.items()}
    if not device.knows("dot_products"):
        texts["dot_products"] = str(device.claims.get("dot_products", ""))
    return texts


def device_key(device: DeviceInfo) -> str:
    """Return the key of a device's tuned choices, which does not depend on its driver."""
    return f"{device.platform} / {device.name} / {device.compute_units} units"


def compiled_parts(
    model: Mapping[str, str],
    shapes: Mapping[str, Shape],
    device: DeviceInfo,
    options: Mapping[str, str],
) -> Parts:
    """Return the parts that a compiled model depends on, except the version of fourfold, tuned
    choices and limits. `model` and `options` are labelled parts, too.
    """
    attributes = {
        name: str(value) for name, value in vars(device).items() if name not in NOT_IN_KEYS
    }
    facts = {**attributes, **fact_parts(device)}
    sizes = ";".join(f"{name}={list(shape)}" for name, shape in sorted(shapes.items()))
    return {**facts, **model, **options, "kind of entry": "compiled", "shapes": sizes}


def conversion_parts(model: str, converter: str, script: str) -> Parts:
    """Return the parts that a converted model depends on: all files of the model, the versions of
    the converter, and the script it runs.
    """
    own = {"model": model, "converter": converter, "script": script}
    return {"kind of entry": "converted", "format": FORMAT, **own}


def program_parts(program: Program, device: DeviceInfo) -> Parts:
    """Return the parts that a binary depends on: the device and its driver, or only the
    architecture if a compiler outside the driver builds it.
    """
    return loadable_parts(program, device)[0]


def loadable_parts(program: Program, device: DeviceInfo) -> list[Parts]:
    """Return the parts of all binaries that a device can load: its own first, then those of older
    architectures, which its driver translates.
    """
    text = digest(program.text.encode())
    own = {"kind of entry": "binary", "text": text, "options": program.options, "format": FORMAT}
    built_for = [{"architecture": name} for name in device.architectures]
    return [{**own, **one} for one in built_for or [device_parts(device)]]
