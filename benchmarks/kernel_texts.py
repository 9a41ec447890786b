"""Compare the kernel texts of two checkouts of fourfold: a refactoring must not change them.

OTHER is another checkout, as `git worktree add ../before COMMIT` creates it. Each model is compiled
by both for a generic OpenCL GPU, CUDA and WebGPU, without a device. Texts are compared byte by
byte; an error counts as its message.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import click
from networks import NETWORKS, network_file
from setting import ROOT, WORK

TARGETS = (("null", "fp32"), ("cuda:sm_90", "mixed"), ("cuda:sm_87", "mixed"))
TARGETS += (("webgpu:any", "fp32"),)
# Runs in both checkouts, old and new, so it uses only names that both have.
DIGESTS = """
import hashlib, json, sys
from fourfold.errors import FourfoldError
from fourfold.options import CompileOptions
from fourfold.session import explain_stage

targets, models = json.loads(sys.argv[1]), sys.argv[2:]
digests = {}
for model in models:
    for device, precision in targets:
        try:
            text = explain_stage(model, "kernels", device, CompileOptions(precision=precision))
        except FourfoldError as error:
            digests[f"{model} for {device} in {precision}"] = f"error: {error.what}"
            continue
        digest = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
        digests[f"{model} for {device} in {precision}"] = digest
print(json.dumps(digests))
"""


def start_digests(root: Path, models: Sequence[str]) -> subprocess.Popen[str]:
    """Start a process that prints the digests of all kernel texts of a checkout."""
    environment = {**os.environ, "PYTHONPATH": str(root / "src"), "FOURFOLD_CACHE": "none"}
    command = [sys.executable, "-c", DIGESTS, json.dumps(TARGETS), *models]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


@click.command(help=__doc__)
@click.argument("other", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("models", nargs=-1)
def main(other: Path, models: tuple[str, ...]) -> None:
    WORK.mkdir(parents=True, exist_ok=True)
    names = models or tuple(NETWORKS)
    paths = [str(network_file(name, WORK)) if name in NETWORKS else name for name in names]
    processes = [start_digests(root, paths) for root in (other.resolve(), ROOT)]
    outputs = [process.communicate()[0] for process in processes]
    if any(process.returncode for process in processes):
        raise click.ClickException("a checkout could not compile the models")
    before, after = (json.loads(output) for output in outputs)
    changed = [key for key in before if before[key] != after[key]]
    for key in changed:
        click.echo(f"changed: {key}")
    errors = sum(digest.startswith("error") for digest in after.values())
    click.echo(f"{len(changed)} of {len(before)} kernel texts differ; {errors} are errors")
    sys.exit(1 if changed else 0)


if __name__ == "__main__":
    main()
