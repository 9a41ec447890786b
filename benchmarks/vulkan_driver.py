"""Finds NVIDIA's Vulkan driver in a container whose manifest names a library that cannot load.

The driver consists of two libraries, one of which needs X11. A manifest that names a library that
loads is passed to the Vulkan loader, which wgpu and ncnn use.
"""

from __future__ import annotations

import json
import os
import tempfile
from ctypes import CDLL
from pathlib import Path

LIBRARIES = ("libEGL_nvidia.so.0", "libGLX_nvidia.so.0")  # the latter needs an X server
VARIABLES = ("VK_DRIVER_FILES", "VK_ICD_FILENAMES")


def find_vulkan_driver(folder: Path, library: str = "") -> str:
    """Write the manifest and set it for this process and its children, unless the environment
    names one. Returns a description of what is used.
    """
    os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.gettempdir())
    manifest = next((os.environ[name] for name in VARIABLES if name in os.environ), None)
    if manifest is not None:
        return f"the manifest {manifest}"
    name = library or next(filter(_loads, LIBRARIES), "")
    if not name:
        return "whatever manifests the loader finds"
    path = folder / "nvidia_icd.json"
    entry = {"library_path": name, "api_version": "1.3.0"}
    path.write_text(json.dumps({"file_format_version": "1.0.0", "ICD": entry}))
    for variable in VARIABLES:
        os.environ[variable] = str(path)
    return f"a manifest that names {name}"


def _loads(name: str) -> bool:
    try:
        CDLL(name).vk_icdGetInstanceProcAddr  # noqa: B018 - checks that it exists
    except (OSError, AttributeError):
        return False
    return True
