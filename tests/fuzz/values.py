"""Run every op that looks up or scatters elements with many hostile input values.

Each op runs in the interpreter, which reports every access outside of a tensor, and on the first
device, where a crash of the process is the finding. Results are compared with the reference.

Usage: PYTHONPATH=src:tests python -m fuzz.values --runs 1000
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import numpy as np
from hostile_values import ADDRESSED, hostile_trial
from interpreted_devices import NVIDIA, PLAIN, X86

import fourfold
from fourfold.backends import make_player
from fourfold.codegen.context import KernelOptions
from fourfold.compiler.lower import make_plan
from fourfold.compiler.rewrite import rewrite
from fourfold.device import DeviceInfo
from fourfold.ops.base import registry

INTERPRETED = (PLAIN, NVIDIA, X86)
TOLERANCE = 2e-5


def try_op(name: str, device: DeviceInfo, seeds: range) -> str:
    """Return what is wrong with an op on a device, or ''."""
    op = registry()[name]
    graph = rewrite(hostile_trial(op, 0).graph, verify=True)
    player = make_player(device, make_plan(graph, device, KernelOptions(form="list")))
    try:
        for seed in seeds:
            only_indices = op.indices is not None and seed % 2 == 0
            item = hostile_trial(op, seed, only_indices)
            player.poison()
            results = player.run([np.ascontiguousarray(array) for array in item.inputs])
            if only_indices:
                item.check(results, TOLERANCE)
    except (AssertionError, fourfold.FourfoldError) as error:
        return f"{name} on {device.name}, seed {seed}: {error}"
    finally:
        player.close()
    return ""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1000, help="runs of each op on the device")
    parser.add_argument(
        "--interpreted", type=int, default=50, help="runs of each op in the interpreter"
    )
    parser.add_argument("--seed", type=int, default=0, help="first seed")
    options = parser.parse_args(arguments)
    devices = [(device, options.interpreted) for device in INTERPRETED]
    devices += [(device, options.runs) for device in fourfold.devices()[:1]]
    findings = []
    for name in ADDRESSED:
        for device, runs in devices:
            finding = try_op(name, device, range(options.seed, options.seed + runs))
            findings += [finding] if finding else []
        print(f"{name}: {len(findings)} findings so far", flush=True)
    print("\n".join(findings) or f"{len(ADDRESSED)} ops: nothing found")
    return int(bool(findings))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
