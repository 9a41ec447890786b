"""Every knob, in one frozen record; the only reader of the environment."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Literal, get_args

from fourfold.errors import InputError, nearest

Precision = Literal["fp32", "mixed", "fp16"]
PlacementName = Literal["auto", "measure", "gpu", "cpu"]
PRECISIONS: tuple[str, ...] = get_args(Precision)
PLACEMENTS: tuple[str, ...] = get_args(PlacementName)
LAUNCHES = ("auto", "list", "one")
SIZES = ("auto", "literal", "argument")
BINARIES = ("auto", "always", "never")
LOG_LEVELS = ("off", "warning", "info", "debug")
UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
PREFIX = "FOURFOLD_"
NO_CACHE = "none"


def default_cache(environment: Mapping[str, str] | None = None) -> str:
    """The folder that this user's programs keep such files in."""
    variables, home = os.environ if environment is None else environment, os.path.expanduser("~")
    if sys.platform == "win32":
        local = variables.get("LOCALAPPDATA") or os.path.join(home, "AppData", "Local")
        return os.path.join(local, "fourfold", "Cache")
    if sys.platform == "darwin":
        return os.path.join(home, "Library", "Caches", "fourfold")
    wanted = variables.get("XDG_CACHE_HOME", "")
    return os.path.join(wanted if os.path.isabs(wanted) else f"{home}/.cache", "fourfold")


@dataclass(frozen=True)
class Config:
    """What can be set. Each field is also FOURFOLD_<NAME> in the environment."""

    device: str = "auto"  # 'auto', an index, or part of a device's name
    precision: str = "fp32"
    cache: str | None = field(default_factory=default_cache)  # None: keep nothing
    sizes: str = "auto"  # tensor sizes in kernels: literals, arguments, or as the device likes
    cache_limit: int = 2 << 30  # bytes; what was not used for the longest time goes first
    binaries: str = "auto"  # keep them: where the driver gives them without work, always, never
    launches: str = "auto"  # a plan as a list of launches, as one, or as the device likes
    kept_shapes: int = 8  # for how many shapes a session keeps a model ready
    conversion_limit: float = 600.0  # seconds that another framework may take to convert a model
    memory_limit: int | None = None  # bytes that a session may take on the device
    threads: int | None = None  # of the processor, where that runs a model; None: all of them
    log: str = "off"  # what is shown of the log, and from which level on

    def __post_init__(self) -> None:
        _one_of("precision", self.precision, PRECISIONS)
        _one_of("sizes", self.sizes, SIZES)
        _one_of("launches", self.launches, LAUNCHES)
        _one_of("binaries", self.binaries, BINARIES)
        _one_of("log", self.log, LOG_LEVELS)

    @staticmethod
    def from_environment(environment: Mapping[str, str] | None = None) -> Config:
        """The settings of this process, or of the mapping given instead."""
        variables = os.environ if environment is None else environment
        known = {PREFIX + item.name.upper() for item in fields(Config)}
        for name in variables:
            if name.startswith(PREFIX) and name not in known:
                raise InputError(
                    f"the environment sets {name}, which is no setting of fourfold",
                    f"variables that start with {PREFIX} must be known, so that slips show",
                    nearest(name, sorted(known)),
                )
        cache_limit = _byte_size(variables, "FOURFOLD_CACHE_LIMIT")
        return Config(
            device=variables.get("FOURFOLD_DEVICE") or "auto",
            precision=_choice(variables, "FOURFOLD_PRECISION", PRECISIONS),
            cache=_folder(variables.get("FOURFOLD_CACHE", "")),
            sizes=_choice(variables, "FOURFOLD_SIZES", SIZES),
            launches=_choice(variables, "FOURFOLD_LAUNCHES", LAUNCHES),
            cache_limit=Config.cache_limit if cache_limit is None else cache_limit,
            binaries=_choice(variables, "FOURFOLD_BINARIES", BINARIES),
            kept_shapes=_count(variables, "FOURFOLD_KEPT_SHAPES") or Config.kept_shapes,
            conversion_limit=_seconds(variables, "FOURFOLD_CONVERSION_LIMIT"),
            memory_limit=_byte_size(variables, "FOURFOLD_MEMORY_LIMIT"),
            threads=_count(variables, "FOURFOLD_THREADS"),
            log=_choice(variables, "FOURFOLD_LOG", LOG_LEVELS),
        )


def _choice(variables: Mapping[str, str], name: str, known: tuple[str, ...]) -> str:
    return _one_of(name, variables.get(name) or known[0], known)


def log_level() -> str | None:
    """From which level on this process shows its log; None where it does not."""
    level = _choice(os.environ, "FOURFOLD_LOG", LOG_LEVELS)
    return None if level == LOG_LEVELS[0] else level


def _byte_size(variables: Mapping[str, str], name: str) -> int | None:
    """A size; None where there is none."""
    text = variables.get(name, "")
    return byte_size(name, text) if text else None


def byte_size(name: str, size: str | int) -> int:
    """'500M' or '2 GiB' as bytes; a number of bytes as it is."""
    text = str(size)
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", text.strip().lower())
    if match is None:
        raise InputError(f"{name} is {text!r}", "it must be a size", "write it as 500M or 2GiB")
    return int(float(match[1]) * UNITS[match[2]])


def count(name: str, value: object) -> int:
    """Return a whole number of 1 or more; InputError for anything else."""
    if isinstance(value, bool) or not str(value).isdecimal() or int(str(value)) < 1:
        why = "it must be a whole number of 1 or more"
        raise InputError(f"{name} is {value!r}", why, "pass 1 or more")
    return int(str(value))


def _count(variables: Mapping[str, str], name: str) -> int | None:
    """Return a whole number of 1 or more; None where the variable is not set."""
    return count(name, variables[name]) if variables.get(name) else None


def _seconds(variables: Mapping[str, str], name: str) -> float:
    """A time; the default where there is none."""
    text = variables.get(name, "")
    if not text:
        return Config.conversion_limit
    if re.fullmatch(r"\d+(\.\d+)?", text) is None or not float(text):
        raise InputError(f"{name} is {text!r}", "it must be a number of seconds", "write it as 600")
    return float(text)


def _one_of(name: str, value: str, known: tuple[str, ...]) -> str:
    if value not in known:
        raise InputError(
            f"{name} is {value!r}", f"it must be one of {', '.join(known)}", nearest(value, known)
        )
    return value


def _folder(text: str) -> str | None:
    if text.lower() == NO_CACHE:
        return None
    return os.path.expanduser(text) if text else default_cache()


def tell_loader(folder: str) -> None:
    """The library that pyopencl's wheels bring finds drivers beside itself by this, as pyopencl
    tells it when it is imported; without it, it reads from nowhere and dies.
    """
    os.environ["PYOPENCL_HOME"] = folder


def limit_driver() -> None:
    """Where the settings limit threads, PoCL is told so before it is loaded: some versions of it
    cannot part a device afterwards.
    """
    threads = _count(os.environ, "FOURFOLD_THREADS")
    if threads is not None:
        os.environ.setdefault("POCL_MAX_PTHREAD_COUNT", str(threads))


def android_folders(
    environment: Mapping[str, str] | None = None,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The folders of Android's NDK that variables name, and those where its SDK may be."""
    variables, home = os.environ if environment is None else environment, os.path.expanduser("~")
    kits = [
        variables.get(name, "") for name in ("ANDROID_NDK_HOME", "ANDROID_NDK_ROOT", "NDK_HOME")
    ]
    named = [variables.get(name, "") for name in ("ANDROID_HOME", "ANDROID_SDK_ROOT")]
    usual = [f"{home}/Android/Sdk", f"{home}/Library/Android/sdk"]
    if variables.get("LOCALAPPDATA"):
        usual.append(os.path.join(variables["LOCALAPPDATA"], "Android", "Sdk"))
    return tuple(filter(None, kits)), tuple(filter(None, [*named, *usual]))


def calm_frameworks() -> None:
    """For a process that only converts: no GPU is taken for it, and little is said."""
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"
