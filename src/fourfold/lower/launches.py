"""From nodes to kernels: picks a variant for each node and lets it write its kernels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from fourfold.device import DeviceInfo
from fourfold.errors import Refusal, UnsupportedError
from fourfold.graph import Graph, Node
from fourfold.kernel.kernel import Kernel
from fourfold.kernel.place import (
    Layout,
    Place,
    Stored,
    own_place,
    region_place,
    reshaped_place,
    slice_channels,
)
from fourfold.kernel.site import Options, Site
from fourfold.op import Op, Variant
from fourfold.ops import registry
from fourfold.ops._parts import tail_step
from fourfold.ops._pointwise import byte_kernel, pointwise_kernel, refuses_bytes
from fourfold.types import DType


@dataclass(frozen=True)
class Built:
    """A kernel of a node, before it is text."""

    kernel: Kernel
    node: Node


def constant_places(graph: Graph) -> dict[str, Place]:
    """Constants that kernels read as tensors are kept in slices of four, in full precision."""
    return {
        name: own_place(name, Layout.SLICED, graph.types[name], Stored(graph.types[name].dtype))
        for name in graph.constants
    }


def constant_storage(array: np.ndarray) -> np.ndarray:
    return slice_channels(np.asarray(array))


def sites(
    graph: Graph, places: dict[str, Place], device: DeviceInfo, options: Options
) -> Iterator[Site]:
    """One site a node."""
    known = {**constant_places(graph), **places}
    for node in graph.nodes:
        tail = tuple(tail_step(step) for step in node.tail)
        yield Site(node, graph.types, graph.constants, known, tail, device, options)


def variants_of(op: Op) -> tuple[Variant, ...]:
    """Every way to run an op, the preferred one first."""
    if op.pointwise is None:
        return op.variants
    pointwise = op.pointwise
    bytes_ = Variant("bytes", lambda site: byte_kernel(site, op.name, pointwise), refuses_bytes)
    plain = Variant(op.name, lambda site: pointwise_kernel(site, op.name, pointwise))
    return (*op.variants, bytes_, plain)


@dataclass(frozen=True)
class Way:
    """The variant that runs a node, and the form its kernels take (None: the variant's own
    default).
    """

    variant: Variant
    choice: str | None = None

    def __str__(self) -> str:
        return f"{self.variant.name}: {self.choice or 'default'}"


def choose_way(site: Site, choices: Mapping[str, str]) -> Way | Refusal:
    """The tuned way for what this node computes, else the first variant that takes and suits it; or
    why none does.
    """
    unusable = _unusable_types(site)
    reasons = [unusable] if unusable else []
    if not reasons:
        name, _, choice = choices.get(site.key, "").partition(": ")
        for variant in variants_of(registry()[site.node.op]):
            reason = variant.refuses(site)
            if reason is not None:
                reasons.append(reason)
            elif variant.name == name or (not name and variant.suits(site)):
                return Way(variant, choice or None)
        if name:
            # The stored choice names a variant that is no more, or that refuses: decide anew.
            return choose_way(site, {})
    title = site.node.name or site.node.outputs[0]
    return Refusal(title, site.node.op, "; ".join(reasons) or "no kernel")


def is_free(site: Site) -> bool:
    """Whether the result already lies where its reader looks for it: a view costs no kernel."""
    node, op = site.node, registry()[site.node.op]
    if op.view is None or node.tail or node.inputs[0] not in site.places:
        return False
    alias = op.view(node, (site.input,), (site.output,))
    before, after = site.places[str(node.inputs[0])], site.places[node.outputs[0]]
    if alias is None or alias.kind == "join":
        return False
    if alias.converts:
        return after == alias.converted(before)
    if alias.kind == "same":
        return after == reshaped_place(before, site.input, site.output)
    region = alias.regions[0]
    return after == region_place(before, site.input, site.output, region.axis, region.start)


_TYPES = (DType.F32, DType.F16, DType.I8, DType.U8, DType.I16, DType.I32, DType.I64, DType.BOOL)


def _unusable_types(site: Site) -> str | None:
    for name in (*site.node.reads, *site.node.outputs):
        dtype = site.types[name].dtype
        if dtype not in _TYPES:
            return f"'{name}' holds {dtype.value}, which has no form on a GPU"
    return None


def build_kernels(
    graph: Graph,
    places: dict[str, Place],
    device: DeviceInfo,
    options: Options,
    choices: Mapping[str, str],
) -> list[Built]:
    """The kernels of all nodes in order; every node that cannot run is named at once."""
    chosen: list[tuple[Site, Way]] = []
    refusals: list[Refusal] = []
    for site in sites(graph, places, device, options):
        way = choose_way(site, choices)
        if isinstance(way, Refusal):
            refusals.append(way)
        elif not is_free(site):
            chosen.append((site, way))
    if refusals:
        what = f"{len(refusals)} of {len(graph.nodes)} nodes cannot run on {device.name}"
        raise UnsupportedError(what, refusals, "see 'fourfold ops' for what is supported")
    return [built for site, way in chosen for built in build_site(site, way)]


def build_site(site: Site, way: Way) -> list[Built]:
    """The kernels of one node, written in one way."""
    site.choice, site.kernels = way.choice, []
    way.variant.build(site)
    return [Built(kernel, site.node) for kernel in site.kernels]
