"""Feed photographs to a session that takes frames (`pixels=`)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fourfold.errors import InputError
from fourfold.pictures import resize_picture
from fourfold.pixels import Pixels
from fourfold.pixels.frame_fit import FrameFit, fit_frame
from fourfold.results.found import Size
from fourfold.results.meaning import Described, Meaning, PictureScaling
from fourfold.results.shapes import before_frames, picture_input, picture_size

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
    info = picture_input(before_frames(model).inputs)
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
