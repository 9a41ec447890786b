"""Every CPU engine by name: each folder here is one, found by its name; nothing keeps a list."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from fourfold.backends import cpu
from fourfold.backends.cpu.protocol import CpuEngine
from fourfold.custom import CUSTOM_OPS
from fourfold.errors import DeviceError, nearest
from fourfold.plan.targets import NUMPY


def engine_names() -> tuple[str, ...]:
    """The names of all engines."""
    return tuple(info.name for info in iter_modules(cpu.__path__) if info.ispkg)


@cache
def find_engine(name: str) -> CpuEngine:
    """The engine of this name: only its folder is imported."""
    if name not in engine_names():
        why = f"what stays on the CPU can run in {', '.join(engine_names())}"
        raise DeviceError(f"no CPU engine is called {name!r}", why, nearest(name, engine_names()))
    found: CpuEngine = import_module(f"{cpu.__name__}.{name}").ENGINE
    return found


def runtime_versions() -> tuple[str, ...]:
    """The engines that are runtimes of their own and installed, with their versions; NumPy always
    is there. None of them is imported for it.
    """
    found = (find_engine(name).version() for name in engine_names() if name != NUMPY)
    return tuple(version for version in found if version != "none")


def placement_environment(threads: int) -> dict[str, str]:
    """Return what the placement of a model with CPU parts depends on, besides its options."""
    return {
        "threads": str(threads),
        "CPU engines": ", ".join(runtime_versions()),
        "custom ops": ", ".join(sorted(CUSTOM_OPS)),
    }


def usable_engine(name: str | None) -> CpuEngine:
    """The engine that a format names, where it names one that is installed; else NumPy."""
    if name is not None and find_engine(name).installed():
        return find_engine(name)
    return find_engine(NUMPY)
