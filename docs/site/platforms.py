"""The table of platforms in README.md and docs/devices.md: what was tested, and what was not.

`python docs/site/platforms.py` writes it into both files.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
APIS = ("OpenCL", "CUDA", "Vulkan", "Metal", "DX12", "WebGPU in a browser")
GPU, FEW_MODELS, CPU, UNTESTED, NONE = "GPU", "CPU; GPU: 3 models", "CPU only", "not tested", "-"

# What was tested on each system, by API. NONE: fourfold has no player for it there.
PLATFORMS = {
    "Linux": (GPU, GPU, FEW_MODELS, NONE, NONE, CPU),
    "Windows": (UNTESTED, UNTESTED, UNTESTED, NONE, UNTESTED, UNTESTED),
    "macOS": (UNTESTED, NONE, NONE, UNTESTED, NONE, UNTESTED),
    "Android": (UNTESTED, NONE, NONE, NONE, NONE, UNTESTED),
    "iOS": (NONE, NONE, NONE, NONE, NONE, UNTESTED),
}

# What was run for each cell that is tested, and for some that are not, with links from docs/.
EVIDENCE = {
    ("Linux", "OpenCL"): "an NVIDIA H200 ([GPUs](#gpus)), and x86-64 CPUs with PoCL, rusticl, "
    "Intel's runtime and Oclgrind ([implementations](#implementations)). On ARM64, the C player "
    "ran four small models [under emulation](internals/c-player.md).",
    (
        "Linux",
        "CUDA",
    ): "an NVIDIA H200 ([operators and models](guide/cuda.md#what-was-run)). Nothing "
    "was run on a [Jetson](guide/jetson.md).",
    (
        "Linux",
        "Vulkan",
    ): "Mesa's lavapipe on a CPU, with every op and 55 models, and three models on "
    "an NVIDIA H200 ([what was run](guide/webgpu.md#what-was-run)).",
    (
        "Linux",
        "WebGPU in a browser",
    ): "Chromium with SwiftShader, which runs on the CPU; no browser "
    "on a GPU ([what was run](guide/web.md#what-was-run)).",
    (
        "Android",
        "OpenCL",
    ): "the [C player](guide/android.md) only, built with the NDK; it has not run on a phone.",
}


def table() -> str:
    """Return the table as Markdown."""
    rows = [("runs on", *APIS), *(("---",) * (len(APIS) + 1),)]
    rows += [(system, *cells) for system, cells in PLATFORMS.items()]
    return "\n".join(f"| {' | '.join(row)} |".replace("| --- ", "|---") for row in rows)


def table_with_evidence() -> str:
    """Return the table, and what was run."""
    lines = [f"- {system}, {api}: {text}" for (system, api), text in EVIDENCE.items()]
    return "\n".join([table(), "", *lines])


# The text that each file has to contain, and where it begins and ends.
FILES = {
    "README.md": (table, re.compile(r"\| runs on \|.*?(?=\n\n)", re.DOTALL)),
    "docs/devices.md": (table_with_evidence, re.compile(r"\| runs on \|.*?(?=\n\n## )", re.DOTALL)),
}


def updated(name: str) -> str:
    """Return the content of a file with the table as it should be."""
    make, place = FILES[name]
    content = (ROOT / name).read_text(encoding="utf-8")
    return place.sub(lambda _: make(), content, count=1)


if __name__ == "__main__":
    for file in FILES:
        (ROOT / file).write_text(updated(file), encoding="utf-8")
