"""fourfold runs neural networks on any GPU, and starts hot."""

from typing import TYPE_CHECKING

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
from fourfold.lazy import lazy_import as _lazy_import
from fourfold.players import devices
from fourfold.runtime.tensor_info import TensorInfo
from fourfold.session import Session
from fourfold.version import VERSION

if TYPE_CHECKING:
    from fourfold.capabilities import best_options, is_supported
    from fourfold.convert.torch_module import from_torch
    from fourfold.custom import register_op
    from fourfold.optimization.optimize import optimize
    from fourfold.pixels import Pixels
    from fourfold.placement import Placement
    from fourfold.quantization.quantize import quantize
    from fourfold.report.estimate import estimate
    from fourfold.samples import sample

__version__ = VERSION
_LAZY = {
    "Pixels": _lazy_import("fourfold.pixels"),
    "Placement": _lazy_import("fourfold.placement"),
    "best_options": _lazy_import("fourfold.capabilities"),
    "estimate": _lazy_import("fourfold.report.estimate"),
    "from_torch": _lazy_import("fourfold.convert.torch_module"),
    "is_supported": _lazy_import("fourfold.capabilities"),
    "optimize": _lazy_import("fourfold.optimization.optimize"),
    "quantize": _lazy_import("fourfold.quantization.quantize"),
    "register_op": _lazy_import("fourfold.custom"),
    "sample": _lazy_import("fourfold.samples"),
}
del VERSION

__all__ = [
    "BuildError",
    "DeviceError",
    "DeviceInfo",
    "FourfoldError",
    "InputError",
    "ModelError",
    "Pixels",
    "Placement",
    "Refusal",
    "Session",
    "TensorInfo",
    "UnsupportedError",
    "best_options",
    "devices",
    "estimate",
    "from_torch",
    "is_supported",
    "optimize",
    "quantize",
    "register_op",
    "sample",
]


def __getattr__(name: str) -> object:
    """What a run does not need is imported when it is asked for."""
    if name in _LAZY:
        return getattr(_LAZY[name], name)
    raise AttributeError(f"module 'fourfold' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
