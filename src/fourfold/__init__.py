"""fourfold compiles neural networks to GPU kernels, caches them, and runs them."""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

from fourfold.backends import devices
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
from fourfold.options import SessionOptions
from fourfold.runtime.tensor_info import TensorInfo
from fourfold.session import Session
from fourfold.support.lazy import lazy_import as _lazy_import
from fourfold.support.version import VERSION

if TYPE_CHECKING:
    from fourfold import litert as litert
    from fourfold import processing as processing
    from fourfold import vision as vision
    from fourfold.compiler.convert.torch_module import from_torch
    from fourfold.custom import register_op
    from fourfold.export.optimize.optimize import optimize
    from fourfold.export.quantize.quantize import quantize
    from fourfold.plan.placement import Placement
    from fourfold.processing.pixels import Pixels
    from fourfold.tools.capabilities import best_options, is_supported
    from fourfold.tools.prepare import prepare
    from fourfold.tools.report.benchmark import benchmark
    from fourfold.tools.report.check import check
    from fourfold.tools.report.estimate import estimate
    from fourfold.tools.report.verify import verify
    from fourfold.tools.samples import sample

__version__ = VERSION
_LAZY = {
    "Pixels": _lazy_import("fourfold.processing.pixels"),
    "Placement": _lazy_import("fourfold.plan.placement"),
    "benchmark": _lazy_import("fourfold.tools.report.benchmark"),
    "best_options": _lazy_import("fourfold.tools.capabilities"),
    "check": _lazy_import("fourfold.tools.report.check"),
    "estimate": _lazy_import("fourfold.tools.report.estimate"),
    "from_torch": _lazy_import("fourfold.compiler.convert.torch_module"),
    "is_supported": _lazy_import("fourfold.tools.capabilities"),
    "optimize": _lazy_import("fourfold.export.optimize.optimize"),
    "prepare": _lazy_import("fourfold.tools.prepare"),
    "quantize": _lazy_import("fourfold.export.quantize.quantize"),
    "register_op": _lazy_import("fourfold.custom"),
    "sample": _lazy_import("fourfold.tools.samples"),
    "verify": _lazy_import("fourfold.tools.report.verify"),
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
    "SessionOptions",
    "TensorInfo",
    "UnsupportedError",
    "benchmark",
    "best_options",
    "check",
    "devices",
    "estimate",
    "from_torch",
    "is_supported",
    "optimize",
    "prepare",
    "quantize",
    "register_op",
    "sample",
    "verify",
]


def __getattr__(name: str) -> object:
    """Import a name that a run does not need when it is first used."""
    if name in _LAZY:
        return getattr(_LAZY[name], name)
    if not name.startswith("_"):
        try:
            return _import_module(f"fourfold.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"fourfold.{name}":
                raise
    raise AttributeError(f"module 'fourfold' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
