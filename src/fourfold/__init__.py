"""fourfold runs neural networks on any GPU, and starts hot."""

from fourfold.capabilities import BestOptions, Support, best_options, is_supported
from fourfold.custom import register_op
from fourfold.device import DeviceInfo
from fourfold.errors import (
    BuildError,
    DeviceError,
    FourfoldError,
    InputError,
    ModelError,
    Refusal,
    UnsupportedError,
)
from fourfold.feeding import TensorInfo
from fourfold.players.opencl import devices
from fourfold.ready import KernelTime
from fourfold.session import Session
from fourfold.version import VERSION

__version__ = VERSION
del VERSION

__all__ = [
    "BestOptions",
    "BuildError",
    "DeviceError",
    "DeviceInfo",
    "FourfoldError",
    "InputError",
    "KernelTime",
    "ModelError",
    "Refusal",
    "Session",
    "Support",
    "TensorInfo",
    "UnsupportedError",
    "best_options",
    "devices",
    "is_supported",
    "register_op",
]
