"""All settings in one frozen record. Only this module reads the environment."""

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
BINARIES = ("auto", "always")
BY_EXTENSION, DATA, SIGNED, ALL = "extension", "data", "signed", "all"
TRUSTS = (BY_EXTENSION, DATA, SIGNED, ALL)
LOG_LEVELS = ("off", "warning", "info", "debug")
UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
PREFIX = "FOURFOLD_"
NO_CACHE = "none"
MAX_COUNT = 2**31 - 1


def default_cache(environment: Mapping[str, str] | None = None) -> str:
    """Return the user's cache folder for fourfold."""
    variables, home = os.environ if environment is None else environment, os.path.expanduser("~")
    if sys.platform == "win32":
        local = variables.get("LOCALAPPDATA") or os.path.join(home, "AppData", "Local")
        return os.path.join(local, "fourfold", "Cache")
    if sys.platform == "darwin":
        return os.path.join(home, "Library", "Caches", "fourfold")
    base = variables.get("XDG_CACHE_HOME", "")
    return os.path.join(base if os.path.isabs(base) else f"{home}/.cache", "fourfold")


@dataclass(frozen=True)
class Config:
    """Settings. Each field can also be set as FOURFOLD_<NAME> in the environment."""

    device: str = "auto"  # 'auto', an index, or part of a device's name
    precision: str = "fp32"
    cache: str | None = field(default_factory=default_cache)  # None: no cache
    sizes: str = (
        "auto"  # tensor sizes in kernels: literals, arguments, or whichever suits the device
    )
    cache_limit: int = 2 << 30  # bytes; the least recently used entries are removed first
    binaries: str = "auto"  # cache binaries if the driver returns them cheaply, or always
    trust: str = BY_EXTENSION  # files whose code may run: see `checked_trust`
    launches: str = "auto"  # a plan as a list of launches, as one, or whichever suits the device
    kept_shapes: int = 8  # number of input shapes that a session stays ready for
    conversion_limit: float = 600.0  # seconds; time limit of a conversion by another framework
    memory_limit: int | None = None  # bytes; largest device memory of a session
    threads: int | None = None  # number of CPU threads; None: all processors
    log: str = "off"  # lowest level of log messages to show

    def __post_init__(self) -> None:
        _one_of("precision", self.precision, PRECISIONS)
        _one_of("sizes", self.sizes, SIZES)
        _one_of("launches", self.launches, LAUNCHES)
        _one_of("binaries", self.binaries, BINARIES)
        _one_of("log", self.log, LOG_LEVELS)
        checked_trust("trust", self.trust)

    @staticmethod
    def from_environment(environment: Mapping[str, str] | None = None) -> Config:
        """Return the settings of this process, or of a mapping."""
        variables = os.environ if environment is None else environment
        settings = {PREFIX + item.name.upper() for item in fields(Config)}
        for name in variables:
            if name.startswith(PREFIX) and name not in settings:
                raise InputError(
                    f"the environment sets {name}, which is not a setting of fourfold",
                    f"variables that start with {PREFIX} must be settings, to find typing errors",
                    nearest(name, sorted(settings)),
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
            trust=checked_trust("FOURFOLD_TRUST", variables.get("FOURFOLD_TRUST") or BY_EXTENSION),
            kept_shapes=_count(variables, "FOURFOLD_KEPT_SHAPES") or Config.kept_shapes,
            conversion_limit=_seconds(variables, "FOURFOLD_CONVERSION_LIMIT"),
            memory_limit=_byte_size(variables, "FOURFOLD_MEMORY_LIMIT"),
            threads=_count(variables, "FOURFOLD_THREADS"),
            log=_choice(variables, "FOURFOLD_LOG", LOG_LEVELS),
        )


def _choice(variables: Mapping[str, str], name: str, known: tuple[str, ...]) -> str:
    return _one_of(name, variables.get(name) or known[0], known)


def checked_trust(name: str, value: object) -> str:
    """Return a level of trust: which files may run the code that they hold.

    'extension' trusts prepared files and models that a framework converts if their extension says
    what they are, 'data' trusts no file, 'signed:KEY' prepared files that the holder of the key
    signed, and 'all' every file. KEY is a public Ed25519 key as 64 hexadecimal digits; several are
    separated by commas.
    """
    text = str(value)
    if text.startswith(SIGNED):
        if trusted_keys(text):
            return text
        what, why = f"{name} is {text!r}", "a key has 64 hexadecimal digits"
        raise InputError(what, why, f"write it as {SIGNED}:KEY; 'fourfold sign' prints the key")
    return _one_of(name, text, TRUSTS)


def trusted_keys(trust: str) -> tuple[str, ...]:
    """Return the public keys that a level of trust names, in lower case; () if it names none."""
    match = re.fullmatch(rf"{SIGNED}:([0-9a-f]{{64}}(?:,[0-9a-f]{{64}})*)", trust.lower())
    return () if match is None else tuple(match[1].split(","))


def log_level() -> str | None:
    """Return the lowest level of log messages to show; None if the log is not shown."""
    level = _choice(os.environ, "FOURFOLD_LOG", LOG_LEVELS)
    return None if level == LOG_LEVELS[0] else level


def _byte_size(variables: Mapping[str, str], name: str) -> int | None:
    """Return a size in bytes; None if the variable is not set."""
    text = variables.get(name, "")
    return byte_size(name, text) if text else None


def byte_size(name: str, size: str | int) -> int:
    """Return a size such as '500M' or '2 GiB', or a number of bytes, as bytes."""
    text = str(size)
    match = re.fullmatch(r"(\d{1,18}(?:\.\d{1,18})?)\s*([kmgt]?)(?:i?b)?", text.strip().lower())
    if match is None:
        what = f"{name} is {text[:40]!r}"
        raise InputError(what, "it must be a size", "write it as 500M or 2GiB")
    return int(float(match[1]) * UNITS[match[2]])


def count(name: str, value: object) -> int:
    """Return a whole number from 1 to MAX_COUNT; InputError for anything else."""
    text = str(value)
    is_number = not isinstance(value, bool) and text.isdecimal() and len(text) <= 10
    if not is_number or not 1 <= int(text) <= MAX_COUNT:
        why = f"it must be a whole number from 1 to {MAX_COUNT}"
        raise InputError(f"{name} is {repr(value)[:40]}", why, "pass 1 or more")
    return int(text)


def _count(variables: Mapping[str, str], name: str) -> int | None:
    """Return a whole number of 1 or more; None where the variable is not set."""
    return count(name, variables[name]) if variables.get(name) else None


def _seconds(variables: Mapping[str, str], name: str) -> float:
    """Return a time in seconds; the default if the variable is not set."""
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


def set_loader_folder(folder: str) -> None:
    """Set the folder in which the OpenCL loader of pyopencl's wheels finds drivers. pyopencl sets
    it when it is imported; without it the loader crashes.
    """
    os.environ["PYOPENCL_HOME"] = folder


def limit_driver_threads() -> None:
    """Set PoCL's thread limit before it is loaded, if the settings limit threads: some versions
    cannot partition a device.
    """
    threads = _count(os.environ, "FOURFOLD_THREADS")
    if threads is not None:
        os.environ.setdefault("POCL_MAX_PTHREAD_COUNT", str(threads))


def disable_telemetry() -> None:
    """Turn off ONNX Runtime's telemetry before it is imported, unless the user has decided. Its
    import would otherwise write an identifier of the machine, for events that it sends.
    """
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")


def pocl_cache(environment: Mapping[str, str] | None = None) -> str:
    """Return the folder in which PoCL caches kernels and writes temporary files."""
    variables, home = os.environ if environment is None else environment, os.path.expanduser("~")
    base = variables.get("XDG_CACHE_HOME") or os.path.join(home, ".cache")
    return variables.get("POCL_CACHE_DIR") or os.path.join(base, "pocl", "kcache")


def android_folders(
    environment: Mapping[str, str] | None = None,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the folders of Android's NDK that variables name, and possible folders of its SDK."""
    variables, home = os.environ if environment is None else environment, os.path.expanduser("~")
    kits = [
        variables.get(name, "") for name in ("ANDROID_NDK_HOME", "ANDROID_NDK_ROOT", "NDK_HOME")
    ]
    named = [variables.get(name, "") for name in ("ANDROID_HOME", "ANDROID_SDK_ROOT")]
    usual = [f"{home}/Android/Sdk", f"{home}/Library/Android/sdk"]
    if variables.get("LOCALAPPDATA"):
        usual.append(os.path.join(variables["LOCALAPPDATA"], "Android", "Sdk"))
    return tuple(filter(None, kits)), tuple(filter(None, [*named, *usual]))


def quiet_frameworks() -> None:
    """Configure frameworks for a process that only converts: no GPU, and little output."""
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"
