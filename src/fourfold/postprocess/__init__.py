"""Puts nodes behind a model that make of its outputs what a caller asked for.

attach: which option is for which outputs, and what the model gives with them.
grown_graph: a graph to which nodes are added behind its outputs.
picture: the size of the picture that a model sees.
outputs: which of a detector's outputs are boxes, and which scores.
classes, pick, boxes, mediapipe, yolo: the nodes of each option.
"""

from __future__ import annotations

from fourfold.postprocess.attach import attach_postprocess

__all__ = ["attach_postprocess"]
