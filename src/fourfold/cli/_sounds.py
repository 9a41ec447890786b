"""Sounds as input arrays: mixed to mono, resampled, and cut or padded to the input."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fourfold.errors import InputError
from fourfold.processing.sound_files import MAX_RATE_HZ, MIN_RATE_HZ
from fourfold.processing.sounds import Sound, fit_length, read_sound, resample
from fourfold.types import Shape

if TYPE_CHECKING:
    from fourfold.runtime.tensor_info import TensorInfo

MIN_SAMPLES = 512  # shorter rows are features, not samples
DEFAULT_RATE = 16000
# Families by the number of samples that they take.
_FAMILIES = {15600: ("YAMNet", 16000), 43844: ("Basic Pitch", 22050)}
MAX_INT16 = 32767


def waveform(
    path: Path, info: TensorInfo, rate: int | None = None
) -> tuple[np.ndarray, dict[str, Any]]:
    """Read a sound for an input of samples, and return how it was converted.

    Args:
        path: A .wav file.
        info: The input.
        rate: Sample rate of the model in Hz; by default the model says it.
    """
    count = sample_count(info.shape)
    if count < MIN_SAMPLES or not _takes_samples(info):
        what = f"the sound {path.name} cannot become input '{info.name}' of {info.type_text}"
        why = f"a sound fits an input of [1, samples], with {MIN_SAMPLES} samples or more"
        raise InputError(what, why, "save the model's features of the sound in a .npy file")
    sound = read_sound(path)
    rate, source = (rate, "as stated") if rate is not None else model_rate(info, count)
    samples = resample(sound.samples, sound.rate, rate, count)
    text = f"{_converted(sound, rate, count)}, {source}"
    data = {"input": info.name, "rate": rate, "samples": count, "source": source, "text": text}
    return _as_input(fit_length(samples, count), info), data


def sample_count(shape: Shape) -> int:
    """Return the number of samples of an input with one row; 0 for other shapes."""
    sizes = [size for size in shape if size != 1]
    return sizes[0] if len(sizes) == 1 else 0


def _takes_samples(info: TensorInfo) -> bool:
    """Return whether an input takes real numbers or 16 bits. Inputs of 8 bits are features."""
    return info.dtype.kind == "f" or info.dtype == np.int16


def model_rate(info: TensorInfo, count: int) -> tuple[int, str]:
    """Return the sample rate of a model in Hz, and where it comes from."""
    properties = {} if info.metadata is None else info.metadata.properties
    stated = properties.get("sample rate", "")
    if stated.isdecimal() and MIN_RATE_HZ <= int(stated) <= MAX_RATE_HZ:
        return int(stated), "as the model's metadata say"
    if count in _FAMILIES:
        family, rate = _FAMILIES[count]
        return rate, f"as is usual for {family}"
    return DEFAULT_RATE, "which is a guess; change it with --rate HZ"


def _converted(sound: Sound, rate: int, count: int) -> str:
    """Return the conversion in words."""
    seconds, wanted = sound.samples.size / sound.rate, count / rate
    part = f"the first {wanted:.3g} of {seconds:.3g} s"
    if seconds <= wanted:
        part = f"{seconds:.3g} s" + (
            f", then silence to {wanted:.3g} s" if seconds < wanted else ""
        )
    mixed = f", {sound.channels} channels mixed to one" if sound.channels > 1 else ""
    resampled = f", resampled from {sound.rate} Hz" if sound.rate != rate else ""
    return f"{part}{mixed}{resampled}, at {rate} Hz"


def _as_input(samples: np.ndarray, info: TensorInfo) -> np.ndarray:
    """Return samples from -1 to 1 in the type and shape of an input."""
    if info.dtype.kind == "f":
        numbers = samples.astype(info.dtype)
    elif info.quantization is not None:
        numbers = info.quantize(samples)
    else:
        numbers = np.rint(samples * MAX_INT16).astype(info.dtype)
    return np.ascontiguousarray(numbers.reshape(info.shape))
