"""fourfold runs neural networks on any GPU, and starts hot."""

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
from fourfold.players.opencl import devices
from fourfold.session import KernelTime, Session, TensorInfo
from fourfold.version import VERSION

__version__ = VERSION
del VERSION

__all__ = [
    "BuildError",
    "DeviceError",
    "DeviceInfo",
    "FourfoldError",
    "InputError",
    "KernelTime",
    "ModelError",
    "Refusal",
    "Session",
    "TensorInfo",
    "UnsupportedError",
    "devices",
    "register_op",
]
