"""Registry of CPU engines: each subpackage is one, found by its name."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from fourfold.backends import cpu
from fourfold.backends.cpu.protocol import CpuEngine
from fourfold.custom import CUSTOM_OPS
from fourfold.errors import DeviceError, nearest
from fourfold.plan.targets import NUMPY
from fourfold.support.lazy import lazy_import

isolation = lazy_import("fourfold.backends.cpu.isolated")


def engine_names() -> tuple[str, ...]:
    """Return the names of all engines."""
    return tuple(info.name for info in iter_modules(cpu.__path__) if info.ispkg)


@cache
def find_engine(name: str, isolate: bool = False) -> CpuEngine:
    """Return the engine with this name; only its package is imported. With `isolate`, a runtime
    opens models in another process.
    """
    if isolate and name != NUMPY:
        isolated: CpuEngine = isolation.IsolatedEngine(find_engine(name))
        return isolated
    if name not in engine_names():
        why = f"the CPU engines are {', '.join(engine_names())}"
        raise DeviceError(f"no CPU engine is called {name!r}", why, nearest(name, engine_names()))
    engine: CpuEngine = import_module(f"{cpu.__name__}.{name}").ENGINE
    return engine


def runtime_versions() -> tuple[str, ...]:
    """Return names and versions of the installed runtimes, except NumPy, without importing them."""
    versions = (find_engine(name).version() for name in engine_names() if name != NUMPY)
    return tuple(version for version in versions if version != "none")


def placement_environment(threads: int) -> dict[str, str]:
    """Return the environment that a placement with CPU parts depends on, in addition to its
    options.
    """
    return {
        "threads": str(threads),
        "CPU engines": ", ".join(runtime_versions()),
        "custom ops": ", ".join(sorted(CUSTOM_OPS)),
    }


def usable_engine(name: str | None, isolate: bool = False) -> CpuEngine:
    """Return the engine of a format if it is installed, else NumPy."""
    if name is not None and find_engine(name).installed():
        return find_engine(name, isolate)
    return find_engine(NUMPY)
