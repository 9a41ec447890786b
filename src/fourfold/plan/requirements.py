"""What a plan needs of a device, as data: compared with the device's facts, never guessed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from typing import NamedTuple

from fourfold.device import LONG_LOOPS, DeviceInfo


class ImageNeed(NamedTuple):
    """A constant that is read by an image: where it ends, counted in texels from the start of its
    buffer, how many texels it has, and the bytes of one.
    """

    end: int
    texels: int
    texel_bytes: int

    def fits(self, device: DeviceInfo) -> bool:
        """Whether a device has an image from the start of the buffer, or one that begins near."""
        near = self.texels + device.alignment // self.texel_bytes
        needed = min(self.end, near) if device.image_windows else self.end
        return needed <= device.image_texels

    def covers(self, other: ImageNeed) -> bool:
        """Whether a device that has this has the other."""
        longer = self.end >= other.end and self.texels >= other.texels
        return longer and self.texel_bytes <= other.texel_bytes


# One thing that a plan needs: whether a device has it, what to say if not, and the probed fact that
# the answer rests on, or ''.
_Check = tuple[bool, str, str]


class Requirements(NamedTuple):
    """What a device must have to play a plan. The defaults are what every device has."""

    language: str = "opencl"  # of its kernels, and the version that they are written in
    language_version: str = "1.2"
    half_arithmetic: bool = False
    matrix_units: bool = False  # products of 16 x 8 x 16 halves, and what goes with them
    warpgroups: str = ""  # whose instructions multiply for several warps: `DeviceInfo.warpgroups`
    subgroups: str = ""  # who exchanges numbers: `DeviceInfo.subgroups`
    dot_products: str = ""  # who multiplies bytes: `DeviceInfo.dot_products`
    packs_bytes: bool = False  # instructions that round sixteen numbers to bytes
    resident_groups: int = 0  # work-groups that wait for each other, all of them at once
    forward_progress: bool = False  # a group that has begun goes on while others wait for it
    reaches_host: bool = False  # kernels read and write host memory by its address
    address_bits: int = 0  # of a pointer, where addresses are passed as numbers
    work_group: int = 1  # work-items of the largest one
    local_memory: int = 0  # bytes of a work-group
    loop_rounds: int = 0  # of a work-item, where they are more than every device makes
    buffer_bytes: int = 0  # of the largest single buffer
    alignment: int = 1  # bytes at which buffers must start
    images: tuple[ImageNeed, ...] = ()  # those that cover all others

    def unmet(self, device: DeviceInfo) -> tuple[str, ...]:
        """Why a device cannot play the plan, in words; nothing where it can.

        A fact that is not known yet counts as absent.
        """
        return tuple(reason for met, reason, _ in self._checks(device) if not met)

    def over_limits(self, device: DeviceInfo) -> tuple[str, ...]:
        """Those of the reasons that are sizes: where a device is like the one that a plan was made
        for in all else, these decide.
        """
        checks = (*self._size_checks(device), self._image_check(device))
        return tuple(reason for met, reason, _ in checks if not met)

    def undecided(self, device: DeviceInfo) -> tuple[str, ...]:
        """The facts that must be probed before it is known whether a device can play the plan; none
        where that is known already.
        """
        failed = [fact for met, _, fact in self._checks(device) if not met]
        unknown = [fact for fact in failed if fact and not device.knows(fact)]
        return tuple(dict.fromkeys(unknown)) if len(unknown) == len(failed) else ()

    def joined(self, other: Requirements) -> Requirements:
        """What both need together; they are written in one language."""
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
        wanted, given = _numbers(self.language_version), _numbers(device.language_version)
        met = self.language == device.language and wanted <= given
        needs = f"its kernels are written in {self.language} {self.language_version}"
        yield met, f"{needs}, and the device takes {device.language} {device.language_version}", ""

    def _instruction_checks(self, device: DeviceInfo) -> Iterator[_Check]:
        half = device.half_arithmetic or not self.half_arithmetic
        yield half, "it computes in half precision", "half_arithmetic"
        matrix = device.matrix_units or not self.matrix_units
        yield matrix, "it uses matrix units", "matrix_units"
        warpgroups = self.warpgroups in ("", device.warpgroups)
        yield warpgroups, f"it has instructions of {self.warpgroups} alone", "matrix_units"
        exchange = self.subgroups in ("", device.subgroups)
        yield exchange, f"it uses sub-groups by {self.subgroups}", "subgroups"
        dots = self.dot_products in ("", device.dot_products)
        yield dots, f"it uses dot products by {self.dot_products}", "dot_products"
        loops = not self.loop_rounds or LONG_LOOPS not in device.self_test.split(", ")
        yield loops, f"its loops make {self.loop_rounds} rounds, and the device stops them", ""
        packs = device.packs_bytes or not self.packs_bytes
        yield packs, "it uses x86 instructions that pack bytes", "dot_products"

    def _waiting_checks(self, device: DeviceInfo) -> Iterator[_Check]:
        groups, units = self.resident_groups, device.compute_units
        waits = f"{groups} of its work-groups wait for each other"
        yield groups <= units or not groups, f"{waits}, and the device has {units} units", ""
        resident = device.resident or not groups
        yield resident, f"{waits}, which must be resident at once", "resident"
        goes_on = device.forward_progress or not self.forward_progress
        yield goes_on, "its work-groups wait for what others have begun", "forward_progress"
        reaches = device.reaches_host or not self.reaches_host
        yield reaches, "its kernels reach host memory by themselves", "reaches_host"
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
        for what, needed, most in sizes:
            yield needed <= most, f"it needs {what.format(needed)}, and the device has {most}", ""

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
            (self.half_arithmetic, "half arithmetic"),
            (self.matrix_units, "matrix units"),
            (self.warpgroups, f"warpgroups of {self.warpgroups}"),
            (self.subgroups, f"sub-groups by {self.subgroups}"),
            (self.dot_products, f"dot products by {self.dot_products}"),
            (self.packs_bytes, "packing of bytes by x86"),
            (self.resident_groups, f"{self.resident_groups} resident groups"),
            (self.forward_progress, "forward progress"),
            (self.reaches_host, "host memory"),
            (self.address_bits, f"{self.address_bits}-bit addresses"),
            (self.local_memory, f"{self.local_memory} bytes of local memory"),
            (self.loop_rounds, f"loops of {self.loop_rounds} rounds"),
            (self.images, "images of constants"),
        )
        yield from (words for needed, words in flags if needed)
        yield f"groups of {self.work_group}, buffers of {self.buffer_bytes} bytes"


def join_requirements(several: Sequence[Requirements]) -> Requirements:
    """What all of them need together."""
    return reduce(Requirements.joined, several) if several else Requirements()


def hardest_images(images: Iterable[ImageNeed]) -> tuple[ImageNeed, ...]:
    """Those that cover all others."""
    kept: list[ImageNeed] = []
    for image in sorted(set(images), key=lambda one: (-one.end, -one.texels, one.texel_bytes)):
        if not any(other.covers(image) for other in kept):
            kept.append(image)
    return tuple(kept)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
