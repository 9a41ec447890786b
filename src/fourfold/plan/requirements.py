"""Requirements: the features and limits that a plan needs of a device, as data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

from fourfold.device import LOOP_SELF_TEST, DeviceInfo


class ImageNeed(NamedTuple):
    """A constant that is read through an image: its end in texels from the start of its buffer, its
    number of texels, and the bytes of a texel.
    """

    end: int
    texels: int
    texel_bytes: int

    def fits(self, device: DeviceInfo) -> bool:
        """Return whether a device supports the image, from the start of the buffer or from a nearby
        offset.
        """
        near = self.texels + device.alignment // self.texel_bytes
        needed = min(self.end, near) if device.image_windows else self.end
        return needed <= device.image_texels

    def covers(self, other: ImageNeed) -> bool:
        """Return whether a device that supports this image also supports the other."""
        longer = self.end >= other.end and self.texels >= other.texels
        return longer and self.texel_bytes <= other.texel_bytes


# A check of a requirement: whether the device meets it, the message if not, and the probed fact it
# depends on, or ''.
_Check = tuple[bool, str, str]


class Requirements(NamedTuple):
    """The features and limits that a device needs to run a plan. Every device meets the
    defaults.
    """

    language: str = "opencl"  # kernel language, and its version
    language_version: str = "1.2"
    half_arithmetic: bool = False
    matrix_units: bool = False  # fp16 matrix products of 16 x 8 x 16
    warpgroups: str = ""  # architecture of warpgroup instructions: `DeviceInfo.warpgroups`
    subgroups: str = ""  # source of sub-group functions: `DeviceInfo.subgroups`
    dot_products: str = ""  # source of int8 dot products: `DeviceInfo.dot_products`
    packs_bytes: bool = False  # instructions that round sixteen numbers to bytes
    resident_groups: int = 0  # work-groups that wait for each other and must run at once
    forward_progress: bool = False  # a started group makes progress while others wait for it
    reaches_host: bool = False  # kernels access host memory by its address
    address_bits: int = 0  # size of pointers, if addresses are passed as numbers
    work_group: int = 1  # work-items in the largest work-group
    local_memory: int = 0  # bytes per work-group
    loop_rounds: int = 0  # iterations per work-item, if not every device completes them
    buffer_bytes: int = 0  # size of the largest buffer
    alignment: int = 1  # bytes at which buffers must start
    images: tuple[ImageNeed, ...] = ()  # images that cover all others

    def unmet(self, device: DeviceInfo) -> tuple[str, ...]:
        """Return the reasons why a device cannot run the plan; () if it can. Unknown facts count as
        absent.
        """
        return tuple(reason for met, reason, _ in self._checks(device) if not met)

    def over_limits(self, device: DeviceInfo) -> tuple[str, ...]:
        """Return the reasons that are limits of the device, for a device that otherwise equals the
        one that the plan was compiled for.
        """
        checks = (*self._size_checks(device), self._image_check(device))
        return tuple(reason for met, reason, _ in checks if not met)

    def undecided(self, device: DeviceInfo) -> tuple[str, ...]:
        """Return the facts that have to be probed to decide whether a device can run the plan; ()
        if that is already decided.
        """
        failed = [fact for met, _, fact in self._checks(device) if not met]
        unknown = [fact for fact in failed if fact and not device.knows(fact)]
        return tuple(dict.fromkeys(unknown)) if len(unknown) == len(failed) else ()

    def joined(self, other: Requirements) -> Requirements:
        """Return the combined requirements of two plans in the same language."""
        both = Requirements._make(map(max, zip(self, other, strict=True)))
        newer = max(self.language_version, other.language_version, key=_numbers)
        images = hardest_images((*self.images, *other.images))
        return both._replace(language=self.language, language_version=newer, images=images)

    def _checks(self, device: DeviceInfo) -> Iterator[_Check]:
        yield from self._language_checks(device)
        yield from self._instruction_checks(device)
        yield from self._waiting_checks(device)
        yield from self._size_checks(device)
        yield self._image_check(device)

    def _language_checks(self, device: DeviceInfo) -> Iterator[_Check]:
        required = _numbers(self.language_version)
        supported = _numbers(device.language_version)
        met = self.language == device.language and required <= supported
        needs = f"its kernels are written in {self.language} {self.language_version}"
        yield met, f"{needs}, and the device takes {device.language} {device.language_version}", ""

    def _instruction_checks(self, device: DeviceInfo) -> Iterator[_Check]:
        half = device.half_arithmetic or not self.half_arithmetic
        yield half, "it uses fp16 arithmetic", "half_arithmetic"
        matrix = device.matrix_units or not self.matrix_units
        yield matrix, "it uses matrix units", "matrix_units"
        warpgroups = self.warpgroups in ("", device.warpgroups)
        yield warpgroups, f"it uses instructions of {self.warpgroups} only", "matrix_units"
        exchange = self.subgroups in ("", device.subgroups)
        yield exchange, f"it uses sub-groups with {self.subgroups}", "subgroups"
        dots = self.dot_products in ("", device.dot_products)
        yield dots, f"it uses dot products with {self.dot_products}", "dot_products"
        loops = not self.loop_rounds or LOOP_SELF_TEST not in device.self_test.split(", ")
        yield loops, f"its loops have {self.loop_rounds} iterations, and the device aborts them", ""
        packs = device.packs_bytes or not self.packs_bytes
        yield packs, "it uses x86 instructions that pack bytes", "dot_products"

    def _waiting_checks(self, device: DeviceInfo) -> Iterator[_Check]:
        groups, units = self.resident_groups, device.compute_units
        waits = f"{groups} of its work-groups wait for each other"
        yield groups <= units or not groups, f"{waits}, and the device has {units} units", ""
        resident = device.resident or not groups
        yield resident, f"{waits}, which must be resident at once", "resident"
        goes_on = device.forward_progress or not self.forward_progress
        yield goes_on, "its work-groups wait for work that others have started", "forward_progress"
        reaches = device.reaches_host or not self.reaches_host
        yield reaches, "its kernels access host memory directly", "reaches_host"
        bits = f"it passes addresses of {self.address_bits} bits"
        met = self.address_bits <= device.address_bits
        yield met, f"{bits}, and the device's have {device.address_bits}", ""

    def _size_checks(self, device: DeviceInfo) -> Iterator[_Check]:
        sizes = (
            ("work-groups of {} work-items", self.work_group, device.max_work_group),
            ("{} bytes of local memory", self.local_memory, device.max_local_memory),
            ("{} bytes in one buffer", self.buffer_bytes, device.max_allocation),
            ("buffers that start at multiples of {} bytes", self.alignment, device.alignment),
        )
        for what, needed, limit in sizes:
            yield needed <= limit, f"it needs {what.format(needed)}, and the device has {limit}", ""

    def _image_check(self, device: DeviceInfo) -> _Check:
        met = all(image.fits(device) for image in self.images)
        longest = max((image.texels for image in self.images), default=0)
        reason = f"it reads images of {longest} texels, and the device has {device.image_texels}"
        return met, reason, "image_texels"

    def __str__(self) -> str:
        return "; ".join(self._phrases())

    def _phrases(self) -> Iterator[str]:
        yield f"{self.language} {self.language_version}"
        flags = (
            (self.half_arithmetic, "fp16 arithmetic"),
            (self.matrix_units, "matrix units"),
            (self.warpgroups, f"warpgroups of {self.warpgroups}"),
            (self.subgroups, f"sub-groups with {self.subgroups}"),
            (self.dot_products, f"dot products with {self.dot_products}"),
            (self.packs_bytes, "byte packing with x86 instructions"),
            (self.resident_groups, f"{self.resident_groups} resident groups"),
            (self.forward_progress, "forward progress"),
            (self.reaches_host, "host memory"),
            (self.address_bits, f"{self.address_bits}-bit addresses"),
            (self.local_memory, f"{self.local_memory} bytes of local memory"),
            (self.loop_rounds, f"loops of {self.loop_rounds} iterations"),
            (self.images, "images of constants"),
        )
        yield from (words for needed, words in flags if needed)
        yield f"groups of {self.work_group}, buffers of {self.buffer_bytes} bytes"


def join_requirements(several: Sequence[Requirements]) -> Requirements:
    """Return the combined requirements of several plans."""
    return reduce(Requirements.joined, several) if several else Requirements()


def hardest_images(images: Iterable[ImageNeed]) -> tuple[ImageNeed, ...]:
    """Return the images that cover all others."""
    kept: list[ImageNeed] = []
    for image in sorted(set(images), key=lambda one: (-one.end, -one.texels, one.texel_bytes)):
        if not any(other.covers(image) for other in kept):
            kept.append(image)
    return tuple(kept)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def requirements_record(needed: Requirements) -> dict[str, Any]:
    """Return the language, and the requirements that differ from their defaults."""
    default = Requirements._field_defaults
    always = ("language", "language_version")
    fields = needed._asdict().items()
    return {name: value for name, value in fields if name in always or value != default[name]}


def read_requirements(record: Mapping[str, Any]) -> Requirements:
    """Read requirements. Unknown names raise KeyError, because they could not be checked."""
    default = Requirements._field_defaults
    for name, value in record.items():
        if name != "images" and type(value) is not type(default[name]):
            raise TypeError(f"{value!r} is not a valid {name}")
    _version(record["language"], record["language_version"])
    images = (ImageNeed(*_texels(one)) for one in record.get("images", ()))
    return Requirements(**{**record, "images": tuple(images)})


def _version(language: str, version: str) -> None:
    if not version.replace(".", "").isdecimal() or ".." in f".{version}.":
        raise ValueError(f"{version!r} is not a version of {language}")


def _texels(items: Sequence[Any]) -> tuple[int, ...]:
    if any(type(one) is not int or not 1 <= one < 2**40 for one in items):
        raise ValueError(f"{items!r} is not the size of an image")
    return tuple(items)
