"""Read sounds from .wav files, and resample them."""

from __future__ import annotations

import io
import math
import wave
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fourfold.errors import InputError
from fourfold.processing.sound_files import MAX_RATE_HZ, MIN_RATE_HZ

EXTENSIBLE, PCM = b"\xfe\xff", b"\x01\x00"  # tags of formats
MAX_HEADER = 4096  # bytes before the format of a file
ZEROS = 32  # zero crossings of the resampling filter on each side
ROLLOFF = 0.945  # cutoff as a fraction of the lower Nyquist frequency; the rest is the transition
BETA = 9.0  # of the filter's Kaiser window: about 90 dB of attenuation
BLOCK = 1 << 12  # samples computed at a time
MAX_DENOMINATOR = MAX_RATE_HZ // MIN_RATE_HZ  # of the ratio of two rates; others are approximated


class Sound(NamedTuple):
    """Samples from -1 to 1, float32 [frames], and their rate in Hz. `channels` is the number that
    the file has, mixed to one.
    """

    samples: np.ndarray
    rate: int
    channels: int


def read_sound(path: Path) -> Sound:
    """Read a .wav file with PCM samples of 8, 16, 24 or 32 bits, mixed to one channel."""
    try:
        with wave.open(io.BytesIO(_as_plain_pcm(path.read_bytes())), "rb") as file:
            channels, width, rate = file.getnchannels(), file.getsampwidth(), file.getframerate()
            content = file.readframes(file.getnframes())
    except (wave.Error, EOFError, OSError) as error:
        fix = "pass a .wav file with PCM samples, or the samples in a .npy file"
        raise InputError(f"the file {path} cannot be read as a sound", str(error), fix) from error
    if width not in (1, 2, 3, 4) or not channels or not MIN_RATE_HZ <= rate <= MAX_RATE_HZ:
        why = f"it has {8 * width} bits per sample, {channels} channels and {rate} Hz"
        fix = f"pass a .wav file with 8 to 32 bits and {MIN_RATE_HZ} to {MAX_RATE_HZ} Hz"
        raise InputError(f"the file {path} cannot be read as a sound", why, fix)
    content = content[: len(content) // (width * channels) * width * channels]  # a cut file
    samples = _real_samples(content, width).reshape(-1, channels).mean(1)
    return Sound(samples.astype(np.float32), rate, channels)


def _as_plain_pcm(content: bytes) -> bytes:
    """Return the content of a file with the extensible form of PCM, which many programs write for
    24 bits, in the plain form. Python reads the former only since version 3.12.
    """
    begin = content.find(b"fmt ", 0, MAX_HEADER)
    tag, subtype = begin + 8, begin + 32
    is_pcm = content[tag : tag + 2] == EXTENSIBLE and content[subtype : subtype + 2] == PCM
    return content[:tag] + PCM + content[tag + 2 :] if begin >= 0 and is_pcm else content


def _real_samples(content: bytes, width: int) -> np.ndarray:
    """Return PCM samples as numbers from -1 to 1. Only samples of 8 bits are unsigned."""
    if width == 1:
        return np.frombuffer(content, np.uint8) / 128.0 - 1.0
    if width == 3:  # the upper bytes of int32
        padded = np.zeros((len(content) // 3, 4), np.uint8)
        padded[:, 1:] = np.frombuffer(content, np.uint8).reshape(-1, 3)
        return padded.view("<i4")[:, 0] / 2.0**31
    return np.frombuffer(content, f"<i{width}") / 2.0 ** (8 * width - 1)


def resample(
    samples: np.ndarray, rate: int, target: int, max_count: int | None = None
) -> np.ndarray:
    """Return samples at another rate, band-limited with a windowed sinc filter.

    Args:
        samples: Samples [frames].
        rate: Their rate in Hz, from `MIN_RATE_HZ` to `MAX_RATE_HZ`.
        target: The rate of the result in Hz, in the same limits.
        max_count: Number of samples to compute at most; by default all.
    """
    if rate == target or not samples.size:
        return samples
    ratio = Fraction(target, rate).limit_denominator(MAX_DENOMINATOR)
    count = math.ceil(samples.size * ratio)
    count = count if max_count is None else min(count, max_count)
    # The cutoff in cycles per sample of the source, and the half width of the filter.
    cutoff = ROLLOFF * min(1.0, float(ratio)) / 2
    reach = math.ceil(ZEROS / (2 * cutoff))
    padded = np.pad(samples.astype(np.float64), reach)
    # The position of a result between two samples repeats after `numerator` results.
    taps = np.arange(-reach + 1, reach + 1)
    phases = np.arange(ratio.numerator) * ratio.denominator % ratio.numerator / ratio.numerator
    distances = taps - phases[:, None]
    filters = np.sinc(2 * cutoff * distances) * _kaiser(distances / reach)
    filters /= filters.sum(1, keepdims=True)  # constant signals stay constant
    result = np.empty(count, np.float64)
    for begin in range(0, count, BLOCK):
        places = np.arange(begin, min(begin + BLOCK, count))
        first = places * ratio.denominator // ratio.numerator
        rows = padded[(first + reach)[:, None] + taps]
        result[places] = np.einsum("ij,ij->i", rows, filters[places % ratio.numerator])
    return result.astype(np.float32)


def _kaiser(positions: np.ndarray) -> np.ndarray:
    """Return the Kaiser window at positions from -1 to 1."""
    inside = np.clip(1 - positions**2, 0, None)
    return np.asarray(np.i0(BETA * np.sqrt(inside)) / np.i0(BETA))


def fit_length(samples: np.ndarray, count: int) -> np.ndarray:
    """Return the first `count` samples, with zeros after a shorter sound."""
    return np.pad(samples[:count], (0, max(count - samples.size, 0)))
