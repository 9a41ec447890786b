"""Feed photographs to models and to sessions that take frames (`pixels=`).

Pixels are scaled as the metadata say, as the model family does, or by default.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fourfold.errors import InputError
from fourfold.processing.pictures import picture_bytes, resize_picture
from fourfold.processing.pixels import Pixels
from fourfold.processing.pixels.frame_fit import FrameFit, fit_frame
from fourfold.types import DType, TensorType
from fourfold.vision.answer import Answer
from fourfold.vision.found import Size
from fourfold.vision.meaning import Described, Meaning, PictureScaling
from fourfold.vision.read import find_meaning, read_answer
from fourfold.vision.shapes import as_opened, picture_channels, picture_input, picture_size

if TYPE_CHECKING:
    from fourfold.runtime.tensor_info import TensorInfo
    from fourfold.session import Session


FIT_WORDS = {"letterbox": " in a letterbox", "crop": " of the photograph's middle"}
_STRETCHED = PictureScaling(0.0, 1.0)
_OPAQUE = 255


class FrameInput(NamedTuple):
    """The input of a session that takes frames.

    `size` is the size of the model's input picture. If the session takes only pictures of this
    size, `scaling` says how photographs are fitted into them.
    """

    name: str
    batch: int
    size: Size
    pixels: Pixels
    scaling: PictureScaling

    @property
    def channels(self) -> int:
        """Number of channels that a photograph must have before it is converted to a frame."""
        return self.pixels.channels

    def array(self, photograph: np.ndarray) -> np.ndarray:
        """Convert a uint8 photograph [height, width, channels] to a batch of frames."""
        frame = self._fitted(photograph) if self.pixels.fit is None else photograph
        if self.pixels.order.startswith("bgr"):
            frame = frame[..., ::-1]
        if self.pixels.bytes > frame.shape[2]:
            opaque = np.full((*frame.shape[:2], 1), _OPAQUE, np.uint8)
            frame = np.concatenate([frame, opaque], 2)
        return np.ascontiguousarray(np.broadcast_to(frame, (self.batch, *frame.shape)))

    def _fitted(self, photograph: np.ndarray) -> np.ndarray:
        """Fit the photograph into a picture of the model's size, with bars around it."""
        fit = self.fit(photograph)
        top, left, height, width = fit.box
        part = resize_picture(photograph[top : top + height, left : left + width], fit.size)
        picture = np.full((*self.size, photograph.shape[2]), round(self.scaling.fill), np.uint8)
        down, along = fit.offset
        picture[down : down + fit.size[0], along : along + fit.size[1]] = part
        return picture

    def fit(self, photograph: np.ndarray) -> FrameFit:
        """Return where the photograph lies in the model's input picture."""
        frame = (photograph.shape[0], photograph.shape[1])
        if self.pixels.fit is None:
            return fit_frame(frame, self.size, self.scaling.fit)
        if self.pixels.size not in (None, frame):
            what = f"a photograph of {frame[0]}x{frame[1]} does not fit the session"
            why = f"the session was opened for frames of {self.pixels.size}"
            raise InputError(what, why, "resize the photograph, or open it without size= in pixels")
        return self.pixels.fit_frame(frame, self.size)

    def __str__(self) -> str:
        fit = self.scaling.fit if self.pixels.fit is None else self.pixels.fit
        return f"pixels{FIT_WORDS.get(fit, '')}, as the session was opened: {self.pixels}"


def find_frame_input(model: Described, meaning: Meaning | None = None) -> FrameInput | None:
    """Return the input of a session that takes frames, or None if it takes none.

    Raises InputError if a photograph cannot be a frame of the session, or if the size of the
    model's input picture is unknown.
    """
    info = picture_input(as_opened(model).inputs)
    if info is None or not info.pixels:
        return None
    pixels, size = Pixels.parse(info.pixels), picture_size(info)
    what = "the session cannot take a photograph"
    run = "run it and pass the results to read_answer"
    if pixels.is_yuv:
        why = f"it takes camera frames in {pixels.order}, not RGB or BGR pixels"
        raise InputError(what, why, f"open it with another pixel order, or {run}")
    if size is None:
        why = "the size of the model's input picture is unknown"
        raise InputError(what, why, f"open it with Pixels(into=(640, 640), ...), or {run}")
    scaling = None if meaning is None else meaning.scaling
    return FrameInput(info.name, info.shape[0], size, pixels, scaling or _STRETCHED)


DEFAULT_SCALING = PictureScaling(0.0, 1.0)
FROM_METADATA, GUESSED = "as the model's metadata say", "which is a guess"
_ORDERS = {1: "gray", 3: "rgb"}


@dataclass(frozen=True)
class PictureInput:
    """The input that takes a photograph.

    `pixels` says how pixels are converted, and `told_by` where that comes from.
    """

    name: str
    type: TensorType
    size: Size
    pixels: Pixels
    told_by: str

    @property
    def channels(self) -> int:
        return self.pixels.bytes

    @property
    def is_real(self) -> bool:
        """True if the input takes real numbers. Otherwise it takes bytes unchanged."""
        return self.type.dtype.is_float

    def array(self, frame: np.ndarray) -> np.ndarray:
        """Convert a uint8 photograph [height, width, channels] to the model's input array."""
        fit = self.fit(frame)
        top, left, height, width = fit.box
        frame = frame[top : top + height, left : left + width]
        frame = resize_picture(frame, fit.size)  # resize first, so that conversion is cheap
        if self.is_real:
            real = self.pixels.real(frame[None], self.type.shape)
            return real.astype(self.type.dtype.numpy, copy=False)
        return self.pixels.numbers(frame[None], self.type)

    def fit(self, frame: np.ndarray) -> FrameFit:
        """Return where the photograph lies in the model's input picture."""
        return self.pixels.fit_frame((frame.shape[0], frame.shape[1]), self.size)

    def __str__(self) -> str:
        fit = FIT_WORDS.get(self.pixels.fit or "", "")
        if not self.is_real:
            return f"pixels as bytes{fit}, which the model scales itself"
        order = ", in BGR order" if self.pixels.model_order == "bgr" else ""
        return f"{format_range(self.pixels)}{fit}{order}, {self.told_by}"


def format_range(pixels: Pixels) -> str:
    """Return 'pixels from -1 to 1', or mean and std if these differ by channel."""
    if isinstance(pixels.mean, float) and isinstance(pixels.std, float):
        low, high = (0.0 - pixels.mean) / pixels.std, (255 - pixels.mean) / pixels.std
        return f"pixels from {low:.3g} to {high:.3g}"
    return f"pixels minus {pixels.mean}, divided by {pixels.std}"


def find_picture_input(model: Described, meaning: Meaning | None = None) -> PictureInput | None:
    """Return the only input of a model if it is a picture, and how photographs are converted.

    Args:
        model: A session, or another description of a model.
        meaning: The meaning of the outputs, whose family may define the scaling.
    """
    info = picture_input(model.inputs)
    size = None if info is None else picture_size(info)
    if info is None or size is None or info.pixels or picture_channels(info) not in _ORDERS:
        return None
    scaling = None if meaning is None else meaning.scaling
    pixels, told_by = _pixels(info, scaling, "" if meaning is None else meaning.family)
    type_ = TensorType(DType.of(np.empty(0, info.dtype)), info.shape)
    return PictureInput(info.name, type_, size, pixels, told_by)


def _pixels(info: TensorInfo, scaling: PictureScaling | None, family: str) -> tuple[Pixels, str]:
    scale = scaling or DEFAULT_SCALING
    order = _ORDERS[picture_channels(info)]
    fitted: dict[str, Any] = {"fit": scale.fit, "fill": scale.fill, "resize": "antialias"}
    fitted["model_order"] = scale.order
    if info.dtype.kind != "f":
        return Pixels(order=order, **fitted), "as bytes"
    normalization = None if info.metadata is None else info.metadata.normalization
    if (
        normalization is not None
        and normalization.mean
        and normalization.std
        and all(normalization.std)
    ):
        return Pixels(normalization.mean, normalization.std, order, **fitted), FROM_METADATA
    std = 255 / (scale.high - scale.low)
    told_by = f"as is usual for {family}" if scaling else GUESSED
    return Pixels(-scale.low * std, std, order, **fitted), told_by


def ask(
    session: Session,
    photograph: Any,
    *,
    labels: Any = (),
    top: int = 5,
    score: float | None = None,
) -> Answer:
    """Run a session on a photograph and decode its outputs.

    Pixels are scaled as the model's metadata say, as its family does, or from 0 to 1. The answer's
    notes say which. A session that was opened with `pixels=` gets the photograph as a frame.

    Args:
        session: A session whose only input is a picture.
        photograph: A path, a Pillow image, or a uint8 array [height, width, 3].
        labels: Class labels; by default those of the model's metadata.
        top: Number of classes to return.
        score: Minimum score; by default that of the model family.
    """
    meaning = find_meaning(session)
    port = find_frame_input(session, meaning) or find_picture_input(session, meaning)
    if port is None:
        raise _no_picture(session)
    frame = picture_bytes(photograph, port.channels)
    outputs = session.run({port.name: port.array(frame)})
    size = (frame.shape[0], frame.shape[1])
    answer = read_answer(
        session, outputs, labels, top=top, score=score, fit=port.fit(frame), frame=size
    )
    return answer.with_notes(str(port))


def _no_picture(model: Described) -> InputError:
    what, fix = "the model does not take a photograph", "pass the results of a run to read_answer"
    shapes = ", ".join(f"{info.name} {list(info.shape)}" for info in model.inputs)
    return InputError(what, f"its inputs are {shapes}", fix)
