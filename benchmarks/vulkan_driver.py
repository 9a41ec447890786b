"""NVIDIA's Vulkan driver in a container, where its own manifest names a library that does not load.

It is in two libraries; that for X11 needs X11's own, the other one nothing. A manifest that names
one which loads is what Vulkan's loader, and so wgpu and ncnn, are told to read.
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
    """Write the manifest and tell the loader, for this process and its children, unless a caller
    told it already. Gives in words what is used.
    """
    os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.gettempdir())
    told = next((os.environ[name] for name in VARIABLES if name in os.environ), None)
    if told is not None:
        return f"the manifest {told}"
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
        CDLL(name).vk_icdGetInstanceProcAddr  # noqa: B018 - whether it is there
    except (OSError, AttributeError):
        return False
    return True
