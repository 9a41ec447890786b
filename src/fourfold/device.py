"""What is known of a device: plain facts, probed by the player, read by everyone else."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class DeviceInfo:
    """Facts about one device. Decisions are made from these, never from a vendor's name."""

    name: str
    vendor: str
    platform: str
    driver: str
    version: str
    kind: str  # 'gpu', 'cpu' or 'other'
    compute_units: int
    memory: int
    max_allocation: int
    max_work_group: int
    local_memory: int
    alignment: int  # bytes at which sub-allocations may start
    half_arithmetic: bool
    unified_memory: bool
    # Who adds four products of bytes at once: 'x86' (an instruction of the processor), 'khr' (an
    # extension), 'ptx' (an instruction of NVIDIA's GPUs), or ''.
    dot_products: str = field(default="", compare=False)
    # Who exchanges numbers between the work-items of a sub-group: 'khr' (an extension), 'ptx' (an
    # instruction of NVIDIA's GPUs), or ''.
    subgroups: str = field(default="", compare=False)
    # Probed, so not part of identity: tensor cores that kernels can use (16 x 8 x 16 halves), one
    # group of work-items a unit at once that can wait for each other, host memory by its address.
    matrix_units: bool = field(default=False, compare=False)
    resident: bool = field(default=False, compare=False)
    reaches_host: bool = field(default=False, compare=False)
    # How many vectors of four an image of a buffer can have (0: no images; tried before it is
    # relied on), whether such an image may begin within a buffer, and whether weights are better
    # read by images as far as others know.
    image_texels: int = field(default=0, compare=False)
    image_windows: bool = field(default=False, compare=False)
    prefers_images: bool = field(default=False, compare=False)
    api: str = "opencl"  # who plays plans on it: a folder of players
    language: str = "opencl"  # what its programs are written in: a folder of kernel
    ordinal: int = 0  # its number among the devices of its API
    index: int = field(default=0, compare=False)  # its number among all devices

    @property
    def is_cpu(self) -> bool:
        return self.kind == "cpu"

    @property
    def packs_bytes(self) -> bool:
        """Whether there are instructions that round sixteen numbers to bytes."""
        return self.dot_products == "x86"

    @property
    def address(self) -> str:
        """How to ask for this very device: 'opencl:0'."""
        return f"{self.api}:{self.ordinal}"

    def __str__(self) -> str:
        return f"{self.name} ({self.platform}, driver {self.driver})"
