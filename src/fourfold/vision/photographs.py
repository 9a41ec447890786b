"""Feed photographs to models and to sessions that take frames (`pixels=`)."""

from __future__ import annotations

from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, overload

import numpy as np

from fourfold.errors import InputError
from fourfold.processing.pictures import picture_bytes, resize_picture
from fourfold.processing.pixels import Pixels
from fourfold.processing.pixels.frame_fit import FrameFit, fit_frame
from fourfold.processing.pixels.stated import StatedPixels
from fourfold.vision.answer import Answer
from fourfold.vision.found import Size
from fourfold.vision.meaning import Described, PictureScaling
from fourfold.vision.preprocessing import DEFAULT_SCALING, FIT_WORDS, find_picture_input
from fourfold.vision.read import find_meaning, read_answer
from fourfold.vision.shapes import as_opened, picture_input, picture_size

if TYPE_CHECKING:
    from PIL.Image import Image

    from fourfold.session import Session

    Photograph: TypeAlias = str | PathLike[str] | np.ndarray | Image

AS_OPENED = "as the session was opened"
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

    def to_json(self) -> dict[str, Any]:
        """Return the preprocessing as plain data."""
        fit = self.scaling.fit if self.pixels.fit is None else self.pixels.fit
        return {
            "input": self.name,
            "size": list(self.size),
            "mean": self.pixels.mean,
            "std": self.pixels.std,
            "order": self.pixels.model_order if self.channels > 1 else "gray",
            "fit": fit,
            "source": AS_OPENED,
            "text": str(self),
        }

    def __str__(self) -> str:
        fit = self.scaling.fit if self.pixels.fit is None else self.pixels.fit
        return f"pixels{FIT_WORDS.get(fit, '')}, {AS_OPENED}: {self.pixels}"


def find_frame_input(model: Described) -> FrameInput | None:
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
    meaning = find_meaning(model)
    scaling = None if meaning is None else meaning.scaling
    return FrameInput(info.name, info.shape[0], size, pixels, scaling or DEFAULT_SCALING)


@overload
def ask(
    session: Session,
    photograph: list[Photograph] | tuple[Photograph, ...],
    *,
    labels: Any = ...,
    top: int = ...,
    score: float | None = ...,
    stated: StatedPixels | None = ...,
) -> list[Answer]: ...


@overload
def ask(
    session: Session,
    photograph: Photograph,
    *,
    labels: Any = ...,
    top: int = ...,
    score: float | None = ...,
    stated: StatedPixels | None = ...,
) -> Answer: ...


def ask(
    session: Session,
    photograph: Any,
    *,
    labels: Any = (),
    top: int = 5,
    score: float | None = None,
    stated: StatedPixels | None = None,
) -> Answer | list[Answer]:
    """Run a session on a photograph and decode its outputs. A list of photographs returns a list of
    answers; the session runs once for each.

    Pixels are scaled as the caller states, as the model's metadata say, as its family does, or from
    0 to 1. The answer's notes say which. A session that was opened with `pixels=` gets the
    photograph as a frame.

    Args:
        session: A session whose only input is a picture.
        photograph: A path, a Pillow image, a uint8 array [height, width, 3], or a list of these.
        labels: Class labels; by default those of the model's metadata.
        top: Number of classes to return.
        score: Minimum score; by default that of the model family.
        stated: Scaling, fit or channel order that override those of the model.
    """
    port = find_frame_input(session) or find_picture_input(session, stated)
    if port is None:
        raise _no_picture(session)

    def answer(one: Photograph) -> Answer:
        frame = picture_bytes(one, port.channels)
        outputs = session.run({port.name: port.array(frame)})
        size = (frame.shape[0], frame.shape[1])
        decoded = read_answer(
            session, outputs, labels, top=top, score=score, fit=port.fit(frame), frame=size
        )
        return replace(decoded.with_notes(str(port)), photograph=one)

    if isinstance(photograph, list | tuple):
        return [answer(one) for one in photograph]
    return answer(photograph)


def _no_picture(model: Described) -> InputError:
    what, fix = "the model does not take a photograph", "pass the results of a run to read_answer"
    shapes = ", ".join(f"{info.name} {list(info.shape)}" for info in model.inputs)
    return InputError(what, f"its inputs are {shapes}", fix)
