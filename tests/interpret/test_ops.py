"""Cases of every op as several devices run them, in the interpreter: correct and without faults."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from itertools import product

import numpy as np
import pytest
from fake_devices import target_of
from interpreted_devices import IMAGES, KHR, NVIDIA, PLAIN, X86
from op_kernels import WITH_KERNELS
from op_trials import IN_HALVES, TOLERANCE, Trial, trial

from fourfold.backends import make_player
from fourfold.codegen.context import KernelOptions
from fourfold.compiler.lower import make_plan
from fourfold.compiler.lower.kernels import KernelChoice, node_contexts, variants_of
from fourfold.compiler.lower.locations import choose_locations
from fourfold.compiler.lower.specialise import specialise_graph, specialise_target
from fourfold.compiler.rewrite import rewrite
from fourfold.device import DeviceInfo
from fourfold.graph import Graph
from fourfold.ops.base import registry

SETTINGS = {
    "plain": (PLAIN, KernelOptions("fp32", form="list")),
    "halves": (PLAIN, KernelOptions("fp16", form="list")),
    "nvidia": (NVIDIA, KernelOptions("mixed", form="one")),
    "khr": (KHR, KernelOptions("mixed", form="list")),
    "images": (IMAGES, KernelOptions("mixed", form="list")),
    "x86": (X86, KernelOptions("fp32", form="list")),
}


@lru_cache(maxsize=1)  # the settings of an op are tested one after the other
def ready(name: str) -> tuple[Trial, Graph]:
    """Return the cases of an op, and their graph as it is lowered."""
    item = trial(registry()[name])
    return item, rewrite(item.graph, verify=True)


def check(
    name: str, device: DeviceInfo, options: KernelOptions, choices: Mapping[str, str]
) -> None:
    item, graph = ready(name)
    player = make_player(device, make_plan(graph, device, options, choices))
    player.poison()
    results = player.run([np.ascontiguousarray(array) for array in item.inputs])
    player.close()
    item.check(results, TOLERANCE[options.precision])


def runs(names: list[str]) -> list[tuple[str, str]]:
    pairs = product(names, SETTINGS)
    return [(name, one) for name, one in pairs if one != "halves" or name in IN_HALVES]


@pytest.mark.parametrize(("name", "setting"), runs(WITH_KERNELS))
def test_cases(name: str, setting: str) -> None:
    check(name, *SETTINGS[setting], {})


def all_choices(
    graph: Graph, device: DeviceInfo, options: KernelOptions
) -> dict[str, list[KernelChoice]]:
    """Map each node's key to all of its kernels, in the default form and in some of the listed
    ones.
    """
    target = specialise_target(graph, target_of(device, options))
    graph = specialise_graph(graph, target)
    result: dict[str, list[KernelChoice]] = {}
    for context in node_contexts(graph, choose_locations(graph, target.options), target):
        for variant in variants_of(registry()[context.node.op]):
            if variant.refuses(context) is None:
                listed = variant.choices(context)
                some = (listed[:1], listed[len(listed) // 2 :][:1], listed[-1:])
                forms = dict.fromkeys((None, *(form for one in some for form in one)))
                ways = result.setdefault(context.key, [])
                ways += [KernelChoice(variant, form) for form in forms]
    return result


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "setting"), runs([name for name in WITH_KERNELS if registry()[name].variants])
)
def test_cases_by_all_kernels(name: str, setting: str) -> None:
    device, options = SETTINGS[setting]
    ways = all_choices(ready(name)[1], device, options)
    for turn in range(1, max(map(len, ways.values()), default=1)):
        chosen = {key: str(some[turn % len(some)]) for key, some in ways.items()}
        check(name, device, options, chosen)
