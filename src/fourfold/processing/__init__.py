"""Post-processing that runs on the device, so that little data is downloaded.

`Session(model, postprocess=...)` takes one of these options, or a dict of them by output name.
Classification: `TopK`, `ArgMax`, `Softmax`. Detection with non-maximum suppression: `SsdBoxes`,
`MediaPipeBoxes`, `YoloBoxes`, `YoloHeads`, and `DecodedBoxes` for models that decode boxes
themselves.

Detections are returned as `boxes` f32[batch,most,4] (top, left, bottom and right as fractions of
the model's input picture), `scores` and `classes` [batch,most], best first, and `count` [batch].
Rows after `count` are zeros.
"""

from __future__ import annotations

from fourfold.processing.anchors import SsdAnchors
from fourfold.processing.boxes import (
    DecodedBoxes,
    MediaPipeBoxes,
    SsdBoxes,
    YoloBoxes,
    YoloHeads,
)
from fourfold.processing.classes import ArgMax, Softmax, TopK

__all__ = [
    "ArgMax",
    "DecodedBoxes",
    "MediaPipeBoxes",
    "Softmax",
    "SsdAnchors",
    "SsdBoxes",
    "TopK",
    "YoloBoxes",
    "YoloHeads",
]
