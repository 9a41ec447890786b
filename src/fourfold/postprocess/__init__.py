"""Append post-processing nodes to a model's graph.

attach: matches options with outputs, and the metadata of the result. grown_graph: a graph to which
nodes are appended. outputs: finds boxes and scores among a detector's outputs. classes, pick,
boxes, mediapipe, yolo: the nodes of each option.
"""

from __future__ import annotations

from fourfold.postprocess.attach import attach_postprocess

__all__ = ["attach_postprocess"]
