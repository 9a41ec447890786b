"""Shared by the benchmarks: paths, the description of the environment, and errors of results."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

import fourfold

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"
WORK = ROOT / "build" / "benchmarks"
PACKAGES = ("numpy", "pyopencl", "pocl-binary-distribution", "ai-edge-litert")


def describe_setting(device: fourfold.DeviceInfo) -> dict[str, Any]:
    """Describe the environment of a measurement: device, driver, versions and commit."""
    return {
        "device": device.name,
        "platform": device.platform,
        "driver": device.driver,
        "processors": os.cpu_count(),
        "python": platform.python_version(),
        "fourfold": fourfold.__version__,
        "packages": {name: installed(name) for name in PACKAGES},
        "commit": commit(),
    }


def installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def commit() -> str | None:
    """Return the current commit, followed by a plus sign if the sources differ from it."""
    try:
        name = _git("rev-parse", "--short=12", "HEAD")
        return name + ("+" if _git("status", "--porcelain", "--", "src") else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def relative_error(ours: Sequence[np.ndarray], theirs: Sequence[np.ndarray]) -> float:
    """Return the largest difference over all outputs, each relative to its range."""
    return max((_error(a, b) for a, b in zip(ours, theirs, strict=True)), default=0.0)


def _error(ours: np.ndarray, theirs: np.ndarray) -> float:
    """Return the error of one output, relative to its range or, if constant, to its size."""
    if ours.shape != theirs.shape:
        return float("inf")
    a, b = ours.astype(np.float64), theirs.astype(np.float64)
    difference = float(np.abs(a - b).max(initial=0.0))
    reach = float(np.ptp(b)) if b.size else 0.0
    reach = reach or max(1.0, float(np.abs(b).max(initial=0.0)))
    return difference / reach if np.isfinite(difference) else float("inf")


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")


def replace_section(path: Path, heading: str, text: str) -> None:
    """Replace the section of a page that has this heading, or append it."""
    page = path.read_text(encoding="utf-8") if path.is_file() else "# Coverage\n"
    section = re.search(rf"^{re.escape(heading)}\n.*?(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    if section:
        page = page[: section.start()] + text + "\n" + page[section.end() :]
    else:
        page = f"{page.rstrip()}\n\n{text}"
    path.write_text(page.rstrip() + "\n", encoding="utf-8")
