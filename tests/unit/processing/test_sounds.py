"""Sounds are read from .wav files and resampled without aliases."""

from __future__ import annotations

import struct
import wave
from pathlib import Path

import numpy as np
import pytest

from fourfold.errors import InputError
from fourfold.processing.sounds import fit_length, read_sound, resample

EDGE = 0.05  # seconds at both ends, where the filter sees the silence around the sound


def write_sound(path: Path, samples: np.ndarray, rate: int, width: int = 2) -> Path:
    """Write samples from -1 to 1, [frames] or [frames, channels], as PCM."""
    scaled = np.rint(samples.astype(np.float64) * (2 ** (8 * width - 1) - 1)).astype(np.int64)
    scaled = scaled + 128 if width == 1 else scaled
    rows = scaled.reshape(-1, 1).astype("<i8").view(np.uint8).reshape(-1, 8)[:, :width]
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1 if samples.ndim == 1 else samples.shape[1])
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(rows.tobytes())
    return path


def sine(frequency: float, rate: int, seconds: float = 0.5) -> np.ndarray:
    return np.sin(2 * np.pi * frequency * np.arange(round(seconds * rate)) / rate)


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_reads_samples_of_all_widths(tmp_path: Path, width: int) -> None:
    samples = 0.9 * sine(440, 8000)
    sound = read_sound(write_sound(tmp_path / "a.wav", samples, 8000, width))
    assert (sound.rate, sound.channels, sound.samples.dtype) == (8000, 1, np.float32)
    np.testing.assert_allclose(sound.samples, samples, atol=max(2.0 ** (2 - 8 * width), 1e-6))


def test_reads_the_extensible_form(tmp_path: Path) -> None:
    path = write_sound(tmp_path / "a.wav", sine(440, 8000), 8000, 3)
    content = path.read_bytes()
    subtype = bytes.fromhex("0100000000001000800000aa00389b71")  # PCM
    more = struct.pack("<HHI", 22, 24, 4) + subtype
    form = struct.pack("<4sIH", b"fmt ", 40, 0xFFFE) + content[22:36] + more
    body = b"WAVE" + form + content[36:]
    (tmp_path / "b.wav").write_bytes(struct.pack("<4sI", b"RIFF", len(body)) + body)
    expected, sound = read_sound(path), read_sound(tmp_path / "b.wav")
    assert sound[1:] == expected[1:]
    np.testing.assert_array_equal(sound.samples, expected.samples)


def test_mixes_channels_to_one(tmp_path: Path) -> None:
    left, right = 0.8 * sine(440, 8000), 0.4 * sine(1000, 8000)
    sound = read_sound(write_sound(tmp_path / "a.wav", np.stack([left, right], 1), 8000))
    assert sound.channels == 2
    np.testing.assert_allclose(sound.samples, (left + right) / 2, atol=1e-4)


@pytest.mark.parametrize(
    ("rate", "target"),
    [(44100, 16000), (48000, 16000), (8000, 16000), (22050, 16000), (16000, 22050), (11025, 8000)],
)
def test_resampled_sines_stay_sines(rate: int, target: int) -> None:
    nyquist = min(rate, target) / 2
    cut = round(EDGE * target)
    for frequency in (100.0, 0.3 * nyquist, 0.8 * nyquist):
        result = resample(sine(frequency, rate), rate, target)
        expected = sine(frequency, target)
        assert abs(result.size - expected.size) <= 1
        inner = slice(cut, expected.size - cut)
        np.testing.assert_allclose(result[inner], expected[inner], atol=1e-3)


@pytest.mark.parametrize("frequency", [9000.0, 12000.0, 20000.0])
def test_frequencies_above_the_new_limit_vanish(frequency: float) -> None:
    result = resample(sine(frequency, 44100), 44100, 16000)
    cut = round(EDGE * 16000)
    assert np.abs(result[cut:-cut]).max() < 1e-3


def test_constant_sounds_stay_constant() -> None:
    result = resample(np.ones(4000, np.float32), 44100, 16000)
    np.testing.assert_allclose(result[200:-200], 1.0, atol=1e-6)


def test_computes_only_as_many_samples_as_needed() -> None:
    samples = sine(440, 44100)
    whole, part = resample(samples, 44100, 16000), resample(samples, 44100, 16000, 1000)
    np.testing.assert_array_equal(part, whole[:1000])
    assert resample(samples, 16000, 16000) is samples
    assert resample(np.empty(0, np.float32), 8000, 16000).size == 0


def test_fits_the_length_of_an_input() -> None:
    np.testing.assert_array_equal(fit_length(np.arange(5.0), 3), [0, 1, 2])
    np.testing.assert_array_equal(fit_length(np.arange(2.0), 4), [0, 1, 0, 0])


def test_other_files_are_errors(tmp_path: Path) -> None:
    (tmp_path / "text.wav").write_text("no sound")
    (tmp_path / "empty.wav").write_bytes(b"")
    slow = write_sound(tmp_path / "slow.wav", sine(10, 100), 100)
    for path in (tmp_path / "text.wav", tmp_path / "empty.wav", tmp_path / "no.wav", slow):
        with pytest.raises(InputError, match="cannot be read as a sound"):
            read_sound(path)


def test_reads_a_file_that_was_cut(tmp_path: Path) -> None:
    path = write_sound(tmp_path / "a.wav", np.stack([sine(440, 8000)] * 2, 1), 8000)
    path.write_bytes(path.read_bytes()[:-3])
    assert read_sound(path).samples.size == 3999
