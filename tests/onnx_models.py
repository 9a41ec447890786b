"""ONNX models shared by tests, with sizes for their open inputs."""

from __future__ import annotations

from fourfold.types import Shape

SHAPES: dict[str, dict[str, Shape]] = {
    "FastestDet": {},
    "basic_pitch": {},
    "ch_PP-OCRv4_det_infer": {"x": (1, 3, 160, 192)},
    "ch_ppocr_mobile_v2.0_cls_mobile": {"x": (1, 3, 48, 192)},
    "magika_v1": {},
    "mnv3_detection_opt": {},
    "sig_bak_ovr": {},
    "silero_vad_16k_op15": {"input": (1, 576)},
    "super_resolution": {},
    "version-RFB-320": {},
}
BRANCHING = ("silero_vad_16k_op15",)  # the executed operators depend on the inputs
WRITABLE_ONNX = tuple(name for name in SHAPES if name not in BRANCHING)
