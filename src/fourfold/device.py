"""Facts about a device, as reported by its driver or determined by probes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from fourfold.support.lazy import lazy_import

if TYPE_CHECKING:
    from fourfold.support import display
else:
    display = lazy_import("fourfold.support.display")

Fact = bool | int | str
KINDS = ("gpu", "cpu", "other")
WAITING = ("resident", "reaches_host")
# Not guaranteed by OpenCL, but supported by some drivers: disabled until a probe confirms them.
HOST_ACCESS = ("persistent_mapping", "host_pointers")
UNPROMISED = (*HOST_ACCESS, "forward_progress")
# Parts of the self-test: buffers of fp32, fp16 and int8, branches, and copies through pinned host
# memory.
SELF_TESTS = ("floats", "halves", "bytes", "branches", "staging")
LOOP_SELF_TEST = (
    "loops"  # WebGPU only: some software implementations stop in the middle of long loops
)
MAX_LOOP_ITERATIONS = 65535  # limit for all loops of a work-item together on such implementations
IMAGES = ("image_texels", "image_windows", "prefers_images")
# Facts that drivers do not report reliably: what a driver claims is probed before it is relied on.
PROBED = (
    "half_arithmetic",
    "dot_products",
    "subgroups",
    "matrix_units",
    "self_test",
    *UNPROMISED,
    *WAITING,
    *IMAGES,
)
# Facts that are measured where a driver does not report them.
MEASURED = ("measured_units",)
WARPGROUPS = "sm_90"  # the only architecture that has warpgroup instructions
DEFAULT_COMPUTE_UNITS = 16  # assumed compute units of an unknown device


@dataclass(frozen=True)
class DeviceInfo:
    """Facts about one device. Decisions are made from these, never from a vendor's name."""

    name: str
    vendor: str
    platform: str
    driver: str
    version: str
    kind: str  # 'gpu', 'cpu' or 'other'
    compute_units: int  # 0 if the driver does not report it: see `units`
    memory: int
    max_allocation: int
    max_work_group: int
    local_memory: int
    alignment: int  # bytes at which buffers and parts of them may start
    unified_memory: bool
    # The following facts come from probes and are not part of the identity. A fact that is not
    # listed in `probed` is unknown and counts as absent, whatever the driver `claims`.
    half_arithmetic: bool = field(default=False, compare=False)
    # Source of the int8 dot product instruction: 'x86' (CPU instruction), 'khr' (OpenCL extension),
    # 'ptx' (instruction of NVIDIA GPUs), or ''.
    dot_products: str = field(default="", compare=False)
    # Source of the sub-group shuffles: 'khr' (OpenCL extension), 'ptx' (instruction of NVIDIA
    # GPUs), or ''.
    subgroups: str = field(default="", compare=False)
    # matrix_units: tensor cores that kernels can use (16 x 8 x 16 fp16). resident: one work-group
    # per unit is resident at a time, and the groups can wait for each other. reaches_host: kernels
    # access host memory by its address.
    matrix_units: bool = field(default=False, compare=False)
    resident: bool = field(default=False, compare=False)
    reaches_host: bool = field(default=False, compare=False)
    # Failed parts of the self-test: names of `SELF_TESTS` and `LOOP_SELF_TEST`, separated by
    # commas; '' if all passed.
    self_test: str = field(default="", compare=False)
    # persistent_mapping: a buffer may stay mapped while kernels use it, and both sides see each
    # other's writes. host_pointers: kernels read and write any host memory by its address.
    # forward_progress: a work-group that has started makes progress while others wait for it.
    persistent_mapping: bool = field(default=False, compare=False)
    host_pointers: bool = field(default=False, compare=False)
    forward_progress: bool = field(default=False, compare=False)
    # image_texels: maximum number of 4-vectors in an image of a buffer (0: no images).
    # image_windows: an image may start inside a buffer. prefers_images: weights are known to be
    # read faster through images.
    image_texels: int = field(default=0, compare=False)
    image_windows: bool = field(default=False, compare=False)
    prefers_images: bool = field(default=False, compare=False)
    measured_units: int = field(default=0, compare=False)  # if the driver reports none
    probed: tuple[str, ...] = field(default=(), compare=False)
    claims: Mapping[str, Fact] = field(default_factory=dict, compare=False)
    api: str = "opencl"  # API that runs plans on it: a subpackage of backends
    language: str = "opencl"  # language of its programs: a subpackage of codegen
    language_version: str = "1.2"
    # Architectures that a compiler outside the driver may build for, best first: 'sm_87', 'sm_86'.
    # Empty if the driver compiles.
    architectures: tuple[str, ...] = ()
    # Bytes of local memory available to a launch that requests them; 0: no more than
    # `local_memory`.
    asked_local_memory: int = 0
    address_bits: int = 64  # size of a pointer
    ordinal: int = 0  # number among the devices of its API
    # Handles of the API that the caller shares with sessions on the device: a context, and one of
    # its queues or streams. 0 is none.
    shared_context: int = field(default=0, compare=False)
    shared_queue: int = field(default=0, compare=False)
    uuid: str = field(default="", compare=False)  # of the hardware, if the driver reports it
    # Addresses of the same device in other APIs.
    others: tuple[str, ...] = field(default=(), compare=False)
    index: int = field(default=0, compare=False)  # number among all devices
    remote: str = ""  # machine the device is attached to, if not this one: 'adb:SERIAL', 'ssh:HOST'
    # False for a board that is not attached, which models are only prepared for.
    present: bool = True

    @property
    def units(self) -> int:
        """Number of compute units, reported or measured; 0 if unknown."""
        return self.compute_units or self.measured_units

    @property
    def is_cpu(self) -> bool:
        return self.kind == "cpu"

    @property
    def is_discrete(self) -> bool:
        """Return True for a GPU with its own memory."""
        return self.kind == "gpu" and not self.unified_memory

    @property
    def max_local_memory(self) -> int:
        """Maximum local memory of a work-group, in bytes."""
        return max(self.local_memory, self.asked_local_memory)

    @property
    def warpgroups(self) -> str:
        """Architecture whose warpgroup instructions multiply matrices in local memory; '' if it has
        none.
        """
        own = self.architectures[:1]
        return own[0] if self.matrix_units and own == (WARPGROUPS,) else ""

    @property
    def packs_bytes(self) -> bool:
        """Return True if there are instructions that round sixteen numbers to bytes."""
        return self.dot_products == "x86"

    @property
    def address(self) -> str:
        """Address that selects exactly this device: 'opencl:0', 'adb:SERIAL', 'adb:SERIAL/1'."""
        if self.remote:
            return f"{self.remote}/{self.ordinal}" if self.ordinal else self.remote
        return f"{self.api}:{self.ordinal}"

    def knows(self, fact: str) -> bool:
        """Return True if a probe has determined this fact."""
        return fact in self.probed

    def with_facts(self, facts: Mapping[str, Fact]) -> DeviceInfo:
        """Return a copy with these probed facts added."""
        every = (*PROBED, *MEASURED)
        names = tuple(name for name in every if name in facts or name in self.probed)
        return replace(self, probed=names, **facts) if facts else self  # type: ignore[arg-type]

    @property
    def summary(self) -> str:
        """Short description of the device."""
        units = display.count_text(self.units, "unit") if self.units else "unknown number of units"
        memory = display.size_text(self.memory) if self.memory else "unknown memory"
        return f"{self.kind}, {units}, {memory}"

    def __repr__(self) -> str:
        more = f"{self.summary}; {self.platform}, driver {self.driver}"
        return str(display.visible(f"<DeviceInfo {self.address} {self.name!r}: {more}>"))

    def _repr_html_(self) -> str:
        facts = [(name, getattr(self, name)) for name in self.probed]
        names = ("address", "kind", "platform", "driver", "version", "vendor")
        rows = [(name, getattr(self, name)) for name in names]
        title = f"{self.name}: {self.summary}"
        return str(display.html_table(title, (), [*rows, *facts]))

    def __str__(self) -> str:
        where = f" on {self.remote}" if self.remote else ""
        return str(display.visible(f"{self.name} ({self.platform}, driver {self.driver}){where}"))


class DeviceList(tuple[DeviceInfo, ...]):
    """Devices in the order of their numbers; the repr has one per line."""

    def __repr__(self) -> str:
        return "\n".join(f"{one.index}: {one!r}" for one in self) or "no devices"

    def _repr_html_(self) -> str:
        columns = (">", "device", "address", "kind", ">units", ">memory", "platform", "driver")
        title = "devices, chosen by number, by address, or by part of the name"
        return str(display.html_table(title, columns, [_row(one) for one in self]))


def _row(device: DeviceInfo) -> tuple[object, ...]:
    units = device.units or "unknown"
    memory = display.size_text(device.memory) if device.memory else "unknown"
    names = (device.index, device.name, device.address, device.kind)
    return (*names, units, memory, device.platform, device.driver)


def is_fact(name: str, value: object) -> bool:
    """Return True if a value that was read from a file is valid for a probed fact."""
    return name in (*PROBED, *MEASURED) and type(value) is type(getattr(DeviceInfo, name))


def facts_for_plans(device: DeviceInfo, quantised: bool) -> tuple[tuple[str, ...], ...]:
    """Return the probed facts that plans for a device depend on, grouped by the probe that
    determines them, ordered so that facts that decide about others come first.

    Only plans of a `quantised` graph depend on int8 dot products. On a CPU the only other relevant
    fact is whether work-groups may wait for each other. Kernels for a GPU where they may never read
    images.
    """
    bytes_ = (("dot_products",),) if quantised else ()
    units = () if device.compute_units else (MEASURED,)
    if device.is_cpu:
        return (*bytes_, ("forward_progress",))
    waiting = (WAITING,) if device.matrix_units else ()
    images = () if device.resident else (IMAGES,)
    return (*bytes_, *units, ("matrix_units",), *waiting, *images, ("subgroups",))


def facts_for_backends(device: DeviceInfo) -> tuple[str, ...]:
    """Return the probed facts that decide how any plan is run: the self-test, and how arrays are
    transferred. A backend on another machine probes the transfers itself.
    """
    reaches = device.is_cpu and not device.remote
    return ("self_test", *HOST_ACCESS) if reaches else ("self_test",)
