"""What is known of a device: plain facts, told by its driver or by trials."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from fourfold.lazy import lazy_import

if TYPE_CHECKING:
    from fourfold import display
else:
    display = lazy_import("fourfold.display")

Fact = bool | int | str
WAITING = ("resident", "reaches_host")
# What OpenCL does not promise, and some drivers bear: off until a trial has told that it holds.
HOST_ACCESS = ("persistent_mapping", "host_pointers")
UNPROMISED = (*HOST_ACCESS, "forward_progress")
# What a self-test tries: numbers of three sizes in buffers, and copies through pinned host memory.
SELF_TESTS = ("floats", "halves", "bytes", "branches", "staging")
LONG_LOOPS = "loops"  # what WebGPU's tries, too: some software stops in the middle of long ones
MOST_ROUNDS = 65535  # of all loops of a work-item, where it does
IMAGES = ("image_texels", "image_windows", "prefers_images")
# Facts that no driver tells reliably: what it claims is tried before it is relied on.
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
# Facts that are measured where a driver does not tell them.
MEASURED = ("measured_units",)
WARPGROUPS = "sm_90"  # whose instructions they are, and of no other, older or newer
PLAIN_UNITS = 16  # what a device is taken to have of which nobody knows


@dataclass(frozen=True)
class DeviceInfo:
    """Facts about one device. Decisions are made from these, never from a vendor's name."""

    name: str
    vendor: str
    platform: str
    driver: str
    version: str
    kind: str  # 'gpu', 'cpu' or 'other'
    compute_units: int  # 0 where its driver does not tell: see `units`
    memory: int
    max_allocation: int
    max_work_group: int
    local_memory: int
    alignment: int  # bytes at which buffers and parts of them may start
    unified_memory: bool
    # What follows is told by trials. It is not part of identity, and a fact that is not among the
    # `probed` ones is not known yet: it counts as absent, whatever the driver `claims`.
    half_arithmetic: bool = field(default=False, compare=False)
    # Who adds four products of bytes at once: 'x86' (an instruction of the processor), 'khr' (an
    # extension), 'ptx' (an instruction of NVIDIA's GPUs), or ''.
    dot_products: str = field(default="", compare=False)
    # Who exchanges numbers between the work-items of a sub-group: 'khr' (an extension), 'ptx' (an
    # instruction of NVIDIA's GPUs), or ''.
    subgroups: str = field(default="", compare=False)
    # Tensor cores that kernels can use (16 x 8 x 16 halves), one group of work-items a unit at once
    # that can wait for each other, host memory by its address.
    matrix_units: bool = field(default=False, compare=False)
    resident: bool = field(default=False, compare=False)
    reaches_host: bool = field(default=False, compare=False)
    # What a self-test found wrong, as words of `SELF_TESTS` and `LONG_LOOPS` with commas between;
    # '' if nothing.
    self_test: str = field(default="", compare=False)
    # Whether a buffer may stay mapped while kernels use it, and both sides see what the other
    # wrote; whether kernels read and write any host memory by its address; whether a group that
    # has begun goes on while others wait for it.
    persistent_mapping: bool = field(default=False, compare=False)
    host_pointers: bool = field(default=False, compare=False)
    forward_progress: bool = field(default=False, compare=False)
    # How many vectors of four an image of a buffer can have (0: no images), whether such an image
    # may begin within a buffer, and whether weights are better read by images as far as others
    # know.
    image_texels: int = field(default=0, compare=False)
    image_windows: bool = field(default=False, compare=False)
    prefers_images: bool = field(default=False, compare=False)
    measured_units: int = field(default=0, compare=False)  # where no driver tells of any
    probed: tuple[str, ...] = field(default=(), compare=False)
    claims: Mapping[str, Fact] = field(default_factory=dict, compare=False)
    api: str = "opencl"  # who plays plans on it: a folder of players
    language: str = "opencl"  # what its programs are written in: a folder of kernel
    language_version: str = "1.2"
    # What code for it may be built for by a compiler beside the driver, the best first: 'sm_87',
    # 'sm_86'. None where the driver builds.
    architectures: tuple[str, ...] = ()
    # Bytes of local memory that a group has where its launch asks for them; 0: no more than others.
    asked_local_memory: int = 0
    address_bits: int = 64  # of a pointer
    ordinal: int = 0  # its number among the devices of its API
    # What a caller shares with sessions on the device, as the API knows it: a context, and a queue
    # or stream of it. 0 is none.
    shared_context: int = field(default=0, compare=False)
    shared_queue: int = field(default=0, compare=False)
    uuid: str = field(default="", compare=False)  # of the hardware, where the driver tells
    others: tuple[str, ...] = field(default=(), compare=False)  # its addresses in other APIs
    index: int = field(default=0, compare=False)  # its number among all devices
    remote: str = ""  # the machine that it is on, if not this one: 'adb:SERIAL', 'ssh:HOST'
    present: bool = True  # false for a board that models are only prepared for

    @property
    def units(self) -> int:
        """How many compute units it has: told, or measured; 0 where neither is known."""
        return self.compute_units or self.measured_units

    @property
    def is_cpu(self) -> bool:
        return self.kind == "cpu"

    @property
    def is_discrete(self) -> bool:
        """Whether it is a GPU with memory of its own."""
        return self.kind == "gpu" and not self.unified_memory

    @property
    def most_local_memory(self) -> int:
        """The bytes of local memory that a group can have at all."""
        return max(self.local_memory, self.asked_local_memory)

    @property
    def warpgroups(self) -> str:
        """The architecture by whose instructions four warps multiply what lies in local memory; ''
        where it has none.
        """
        own = self.architectures[:1]
        return own[0] if self.matrix_units and own == (WARPGROUPS,) else ""

    @property
    def packs_bytes(self) -> bool:
        """Whether there are instructions that round sixteen numbers to bytes."""
        return self.dot_products == "x86"

    @property
    def address(self) -> str:
        """How to ask for this very device: 'opencl:0', 'adb:SERIAL', 'adb:SERIAL/1'."""
        if self.remote:
            return f"{self.remote}/{self.ordinal}" if self.ordinal else self.remote
        return f"{self.api}:{self.ordinal}"

    def knows(self, fact: str) -> bool:
        """Whether a trial has told this fact."""
        return fact in self.probed

    def with_facts(self, facts: Mapping[str, Fact]) -> DeviceInfo:
        """The same device, of which trials have told these facts, too."""
        every = (*PROBED, *MEASURED)
        names = tuple(name for name in every if name in facts or name in self.probed)
        return replace(self, probed=names, **facts) if facts else self  # type: ignore[arg-type]

    @property
    def summary(self) -> str:
        """What it is, in a few words."""
        units = display.count_text(self.units, "unit") if self.units else "units not told"
        memory = display.size_text(self.memory) if self.memory else "memory not told"
        return f"{self.kind}, {units}, {memory}"

    def __repr__(self) -> str:
        more = f"{self.summary}; {self.platform}, driver {self.driver}"
        return f"<DeviceInfo {self.address} {self.name!r}: {more}>"

    def _repr_html_(self) -> str:
        facts = [(name, getattr(self, name)) for name in self.probed]
        names = ("address", "kind", "platform", "driver", "version", "vendor")
        told = [(name, getattr(self, name)) for name in names]
        title = f"{self.name}: {self.summary}"
        return str(display.html_table(title, (), [*told, *facts]))

    def __str__(self) -> str:
        where = f" on {self.remote}" if self.remote else ""
        return f"{self.name} ({self.platform}, driver {self.driver}){where}"


class DeviceList(tuple[DeviceInfo, ...]):
    """Devices in the order in which they are numbered; each on a line of its own."""

    def __repr__(self) -> str:
        return "\n".join(f"{one.index}: {one!r}" for one in self) or "no devices"

    def _repr_html_(self) -> str:
        columns = (">", "device", "address", "kind", ">units", ">memory", "platform", "driver")
        title = "devices, chosen by number, by address, or by part of the name"
        return str(display.html_table(title, columns, [_row(one) for one in self]))


def _row(device: DeviceInfo) -> tuple[object, ...]:
    units = device.units or "not told"
    memory = display.size_text(device.memory) if device.memory else "not told"
    names = (device.index, device.name, device.address, device.kind)
    return (*names, units, memory, device.platform, device.driver)


def is_fact(name: str, value: object) -> bool:
    """Whether a value that was read from somewhere can be that of a probed fact."""
    return name in (*PROBED, *MEASURED) and type(value) is type(getattr(DeviceInfo, name))


def facts_for_plans(device: DeviceInfo, quantised: bool) -> tuple[tuple[str, ...], ...]:
    """The probed facts that plans for a device are made from, those together that one trial tells,
    as far as facts that are known say which matter; those that decide over others come first.

    Only a plan of a `quantised` graph asks who multiplies bytes. On a CPU all else that matters is
    whether groups may wait for each other. No kernel for a GPU where they may reads an image.
    """
    bytes_ = (("dot_products",),) if quantised else ()
    units = () if device.compute_units else (MEASURED,)
    if device.is_cpu:
        return (*bytes_, ("forward_progress",))
    waiting = (WAITING,) if device.matrix_units else ()
    images = () if device.resident else (IMAGES,)
    return (*bytes_, *units, ("matrix_units",), *waiting, *images, ("subgroups",))


def facts_for_players(device: DeviceInfo) -> tuple[str, ...]:
    """The probed facts that decide how a plan is played, whatever plan it is: whether the device
    computes right, and how arrays go in and out. The player on another machine tries the latter
    for itself.
    """
    reaches = device.is_cpu and not device.remote
    return ("self_test", *HOST_ACCESS) if reaches else ("self_test",)
