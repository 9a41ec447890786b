"""Graph rewriting: the passes that fold, drop, merge and fuse nodes, in order."""

from __future__ import annotations

from collections.abc import Callable

from fourfold.compiler.rewrite.check_graph import check
from fourfold.compiler.rewrite.drop_identities import drop_identities
from fourfold.compiler.rewrite.drop_roundings import drop_roundings
from fourfold.compiler.rewrite.drop_unused import drop_unused
from fourfold.compiler.rewrite.find_hard_swish import find_hard_swish
from fourfold.compiler.rewrite.find_mean import find_mean
from fourfold.compiler.rewrite.find_prelu import find_prelu
from fourfold.compiler.rewrite.find_softmax import find_softmax
from fourfold.compiler.rewrite.find_spectrum import find_spectrum
from fourfold.compiler.rewrite.find_variance import find_variance
from fourfold.compiler.rewrite.fold_channel_pads import fold_channel_pads
from fourfold.compiler.rewrite.fold_constants import fold_constants
from fourfold.compiler.rewrite.fold_dilation import fold_dilation
from fourfold.compiler.rewrite.fold_scales import fold_scales
from fourfold.compiler.rewrite.fuse_diamonds import fuse_diamonds
from fourfold.compiler.rewrite.fuse_pointwise import fuse_pointwise
from fourfold.compiler.rewrite.hoist_roundings import hoist_roundings
from fourfold.compiler.rewrite.hoist_transposes import hoist_transposes
from fourfold.compiler.rewrite.inline_pointwise import inline_pointwise
from fourfold.compiler.rewrite.keep_axes import keep_axes
from fourfold.compiler.rewrite.keep_integer_steps import keep_integer_steps
from fourfold.compiler.rewrite.merge_pads import merge_pads
from fourfold.compiler.rewrite.merge_reshapes import merge_reshapes
from fourfold.compiler.rewrite.merge_roundings import merge_roundings
from fourfold.compiler.rewrite.read_planes import read_planes
from fourfold.compiler.rewrite.share_equal import share_equal
from fourfold.compiler.rewrite.sink_reshapes import sink_reshapes
from fourfold.compiler.rewrite.sink_transposes import sink_transposes
from fourfold.compiler.rewrite.split_detection import split_detection
from fourfold.compiler.rewrite.split_transposed import split_transposed
from fourfold.compiler.rewrite.write_planes import write_planes
from fourfold.graph import Graph
from fourfold.support.log import Log
from fourfold.types import silent_arithmetic

log = Log("compiler.rewrite")
Pass = Callable[[Graph], Graph]

PIPELINE: tuple[Pass, ...] = (
    fold_constants,  # values that depend on no input become constants
    split_detection,  # boxes are decoded in parallel before they are selected one by one
    keep_axes,  # reductions keep the rank of their input
    sink_transposes,  # transposes move after other nodes, if that moves less data
    drop_identities,  # nodes that return their input are dropped, except copies to outputs
    hoist_transposes,  # transposes move before pads
    # consecutive reshapes or transposes become one; those without effect are dropped
    merge_reshapes,
    find_prelu,  # prelu written as other ops
    find_hard_swish,  # hard_swish written as other ops
    find_softmax,  # softmax over the channels written as other ops
    find_spectrum,  # magnitudes of a one-dimensional Fourier transform
    find_mean,  # average pooling over all pixels becomes a mean
    find_variance,  # variance written as other ops
    read_planes,  # transposes of inputs become reads of channel planes
    share_equal,  # nodes that compute the same become one
    hoist_roundings,  # concatenations of quantized values have inputs on the grid of their output
    drop_roundings,  # roundings of values that are already on the grid are dropped
    merge_roundings,  # values that are stored as integers are rounded once
    drop_unused,  # unused nodes go, because the passes below count readers
    fold_dilation,  # space_to_batch around a convolution becomes dilation
    merge_pads,  # pads become the padding of the node that reads them
    fold_channel_pads,  # channel pads before an addition are folded into it
    fold_scales,  # scales and shifts per channel are folded into weights
    split_transposed,  # transposed convolutions that are products become products
    keep_integer_steps,  # weighted sums of quantized numbers become sums of integers
    fuse_diamonds,  # pointwise nodes that branch after a node and join again become one
    sink_reshapes,  # reshapes move after the pointwise nodes that read them
    fuse_pointwise,  # pointwise nodes become the tail of the node before them
    inline_pointwise,  # pointwise nodes are computed inside the node that reads them
    write_planes,  # transposes of outputs become writes of channel planes
)
# Passes for graphs that are written to files: without those that fuse nodes or create ops that only
# kernels know.
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
    """Return an equivalent graph with fewer nodes. `verify` checks the graph after every pass."""
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
