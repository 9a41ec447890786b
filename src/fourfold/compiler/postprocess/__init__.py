"""Append post-processing nodes to a model's graph.

attach: matches options with outputs, and nodes for classification. grown_graph: a graph to which
nodes are appended. outputs: finds boxes and scores among a detector's outputs. boxes, yolo:
nodes for detectors.
"""

from __future__ import annotations

from fourfold.compiler.postprocess.attach import attach_postprocess

__all__ = ["attach_postprocess"]
