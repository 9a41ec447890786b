"""From graph to graph: the passes that fold, drop, merge and fuse, in their order."""

from __future__ import annotations

from collections.abc import Callable

from fourfold.graph import Graph
from fourfold.log import Log
from fourfold.rewrite.check_graph import check
from fourfold.rewrite.drop_identities import drop_identities
from fourfold.rewrite.drop_roundings import drop_roundings
from fourfold.rewrite.drop_unused import drop_unused
from fourfold.rewrite.find_hard_swish import find_hard_swish
from fourfold.rewrite.find_mean import find_mean
from fourfold.rewrite.find_prelu import find_prelu
from fourfold.rewrite.find_softmax import find_softmax
from fourfold.rewrite.find_spectrum import find_spectrum
from fourfold.rewrite.find_variance import find_variance
from fourfold.rewrite.fold_channel_pads import fold_channel_pads
from fourfold.rewrite.fold_constants import fold_constants
from fourfold.rewrite.fold_dilation import fold_dilation
from fourfold.rewrite.fold_scales import fold_scales
from fourfold.rewrite.fuse_diamonds import fuse_diamonds
from fourfold.rewrite.fuse_pointwise import fuse_pointwise
from fourfold.rewrite.hoist_roundings import hoist_roundings
from fourfold.rewrite.hoist_transposes import hoist_transposes
from fourfold.rewrite.inline_pointwise import inline_pointwise
from fourfold.rewrite.keep_axes import keep_axes
from fourfold.rewrite.keep_integer_steps import keep_integer_steps
from fourfold.rewrite.merge_pads import merge_pads
from fourfold.rewrite.merge_reshapes import merge_reshapes
from fourfold.rewrite.merge_roundings import merge_roundings
from fourfold.rewrite.read_planes import read_planes
from fourfold.rewrite.share_equal import share_equal
from fourfold.rewrite.sink_reshapes import sink_reshapes
from fourfold.rewrite.sink_transposes import sink_transposes
from fourfold.rewrite.split_detection import split_detection
from fourfold.rewrite.split_transposed import split_transposed
from fourfold.rewrite.write_planes import write_planes
from fourfold.types import silent_arithmetic

log = Log("rewrite")
Pass = Callable[[Graph], Graph]

PIPELINE: tuple[Pass, ...] = (
    fold_constants,  # what depends on no input is a constant
    split_detection,  # boxes are decoded side by side before they are picked one after the other
    keep_axes,  # reductions keep the rank of their input
    sink_transposes,  # no transpose stands before what could stand before it, if that moves less
    drop_identities,  # every node changes its input, except copies to outputs
    hoist_transposes,  # no transpose stands behind a pad that it could stand before
    merge_reshapes,  # no reshape reads a reshape, no transpose a transpose; each does something
    find_prelu,  # no prelu is spelled out in other ops
    find_hard_swish,  # nor a hard_swish
    find_softmax,  # nor a softmax over the channels
    find_spectrum,  # nor the absolute values of a transform in one direction
    find_mean,  # nor a mean of pixels
    find_variance,  # nor a variance
    read_planes,  # no transpose stands where planes of an input could be read as they lie
    share_equal,  # no two nodes compute the same
    hoist_roundings,  # joins of integers read them on the grid that they give
    drop_roundings,  # nothing is rounded to a grid on which it lies
    merge_roundings,  # what is stored as integers is rounded once
    drop_unused,  # everything is read: the passes below count readers
    fold_dilation,  # no convolution works on blocks of a batch that gaps could stand for
    merge_pads,  # no pad stands before what could pad for itself
    fold_channel_pads,  # nor before an addition that could do without
    fold_scales,  # no scale or shift by channel stands behind a weighted sum that could take it in
    split_transposed,  # no transposed convolution stands where a product does
    keep_integer_steps,  # weighted sums of quantised numbers are sums of whole numbers
    fuse_diamonds,  # pointwise nodes that part behind a node and meet again are one
    sink_reshapes,  # no reshape stands between a pointwise node and one that could take it
    fuse_pointwise,  # no pointwise node stands behind a node that could take it as its tail
    inline_pointwise,  # nor before one that could compute it on the way
    write_planes,  # no transpose stands where planes of an output could be written as they lie
)
# For graphs that are written to files: the same order, without what fuses nodes or makes ops that
# only kernels know.
WRITABLE: tuple[Pass, ...] = (
    fold_constants,
    keep_axes,
    sink_transposes,
    drop_identities,
    hoist_transposes,
    merge_reshapes,
    find_prelu,
    find_hard_swish,
    find_softmax,
    find_mean,
    share_equal,
    drop_unused,
    fold_dilation,
    merge_pads,
    fold_scales,
)


@silent_arithmetic()
def rewrite(graph: Graph, verify: bool = False) -> Graph:
    """The same function in fewer nodes. `verify` checks the graph after every pass."""
    if verify:
        check(graph)
    for pass_ in PIPELINE:
        before, graph = graph, pass_(graph)
        if len(graph.nodes) != len(before.nodes):
            log.debug("%s: %d nodes, now %d", pass_.__name__, len(before.nodes), len(graph.nodes))
        if verify:
            check(graph)
            _check_ports(before, graph, pass_.__name__)
    return graph


def _check_ports(before: Graph, after: Graph, name: str) -> None:
    for ports in ("inputs", "outputs"):
        old = [(port, before.types[port]) for port in getattr(before, ports)]
        new = [(port, after.types[port]) for port in getattr(after, ports)]
        assert old == new, f"{name} changed the {ports} of '{after.name}'"


__all__ = ["PIPELINE", "WRITABLE", "Pass", "check", "rewrite"]
