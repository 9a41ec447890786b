"""From a model's outputs to its answer: which family it is of, and what the numbers say."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING

import numpy as np

from fourfold.errors import InputError
from fourfold.pixels.frame_fit import FrameFit
from fourfold.results.answer import Answer
from fourfold.results.families.body import movenet, posenet
from fourfold.results.families.classification import embedding, labelled_scores, single_row
from fourfold.results.families.fastestdet import fastestdet
from fourfold.results.families.mediapipe import mediapipe_detector, mediapipe_landmarks
from fourfold.results.families.processed import processed_outputs
from fourfold.results.families.segmentation import large_output
from fourfold.results.families.ssd import picked_detections, raw_ssd
from fourfold.results.families.ultraface import ultraface
from fourfold.results.families.yolo import picked_rows, yolo_boxes_of_cells
from fourfold.results.families.yolo_heads import yolo_raw_heads
from fourfold.results.found import Size
from fourfold.results.frames import answer_in_frame, clip_answer
from fourfold.results.meaning import Described, Meaning, Reading
from fourfold.results.shapes import before_frames, model_size
from fourfold.results.ultralytics import read_export_notes

if TYPE_CHECKING:
    from fourfold.runtime.tensor_info import TensorInfo

# What says most stands first; what has to be told by numbers alone comes last.
FAMILIES: tuple[Callable[[Described], Meaning | None], ...] = (
    processed_outputs,
    picked_detections,
    labelled_scores,
    embedding,
    mediapipe_detector,
    mediapipe_landmarks,
    raw_ssd,
    ultraface,
    yolo_boxes_of_cells,
    yolo_raw_heads,
    picked_rows,
    fastestdet,
    posenet,
    movenet,
    large_output,
    single_row,
)

_VAST = 1e6  # what stands for infinite numbers


def find_meaning(model: Described) -> Meaning | None:
    """What a model's outputs mean, by its metadata, its shapes and the families that are known;
    None where nothing tells. `model` is a session, or what takes and gives the same.
    """
    opened = before_frames(model)
    return next((found for family in FAMILIES if (found := family(opened)) is not None), None)


def read_answer(
    model: Described,
    outputs: Mapping[str, np.ndarray],
    labels: Sequence[str] = (),
    *,
    top: int = 5,
    score: float | None = None,
    fit: FrameFit | None = None,
    frame: Size | None = None,
) -> Answer:
    """What the outputs of a run mean: those that `session.run` gave, by name.

    `labels` are names of classes, if not those of the model's metadata; `top` is how many classes
    are told, `score` the least that counts. `fit` says where the photograph of the size `frame`
    lay in the model's picture, if it was not all of it.
    """
    model = before_frames(model)
    meaning = find_meaning(model)
    unknown = _unknown(model, meaning, outputs)
    if meaning is None:
        return Answer(unknown=unknown, size=frame)
    real = {name: _real(info, outputs) for name, info in _infos(model, meaning.outputs).items()}
    numbers, note = _finite(real)
    texts = tuple(labels) or read_export_notes(model.metadata).names
    reading = Reading(numbers, texts, bool(labels), model_size(model), score, top)
    found = meaning.decode(reading).noting(note)
    unknown = (*found.unknown, *unknown)
    known = {one.name: getattr(found, one.name) for one in fields(found)} | {"unknown": unknown}
    if found.unknown:  # the numbers are not what shapes made likely
        return Answer(**known, size=frame)
    answer = Answer(**known, family=meaning.family, told_by=meaning.told_by, kinds=meaning.kinds)
    answer = replace(answer, size=frame)
    if fit is not None and frame is not None:
        answer = answer_in_frame(answer, fit, frame)
    return clip_answer(answer) if meaning.clips else answer


def _infos(model: Described, names: Sequence[str]) -> dict[str, TensorInfo]:
    known = {info.name: info for info in model.outputs}
    return {name: known[name] for name in names}


def _unknown(
    model: Described, meaning: Meaning | None, outputs: Mapping[str, np.ndarray]
) -> tuple[str, ...]:
    told = () if meaning is None else meaning.outputs
    for name in told:
        if name not in outputs:
            what, why = (
                f"output {name!r} is missing",
                f"{meaning.family if meaning else ''} needs it",
            )
            raise InputError(what, why, "pass all that session.run gave")
    return tuple(info.name for info in model.outputs if info.name not in told)


def _real(info: TensorInfo, outputs: Mapping[str, np.ndarray]) -> np.ndarray:
    """Real numbers, calibrated where the model says how."""
    numbers = info.dequantize(outputs[info.name])
    calibration = None if info.metadata is None else info.metadata.calibration
    return numbers if calibration is None else calibration.apply(numbers)


def _finite(real: Mapping[str, np.ndarray]) -> tuple[dict[str, np.ndarray], str]:
    """The same with numbers only, and a note where some were none: a model that fails, or halves
    that are too small for it.
    """
    broken = {name: int(np.count_nonzero(~np.isfinite(array))) for name, array in real.items()}
    numbers = {
        name: np.nan_to_num(array, nan=0.0, posinf=_VAST, neginf=-_VAST) if broken[name] else array
        for name, array in real.items()
    }
    told = ", ".join(f"{count} of {name}" for name, count in broken.items() if count)
    return numbers, f"no numbers, or infinite ones, are {told}" if told else ""
