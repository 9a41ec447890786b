"""Recognize one of twelve words in a .wav file of one second.

python examples/keywords.py kws_ref_model.tflite yes.wav

The model is that of MLPerf Tiny; its features are ten cepstral coefficients every 20 ms.
"""

import sys
import wave

import numpy as np

import fourfold
from fourfold import vision

RATE, WINDOW, STEP, BANDS, COEFFICIENTS = 16000, 480, 320, 40, 10
WORDS = ("down", "go", "left", "no", "off", "on", "right", "stop", "up", "yes", "silence", "other")


def mel(frequency: np.ndarray) -> np.ndarray:
    return np.asarray(1127 * np.log1p(frequency / 700))


def cepstrum(sound: np.ndarray) -> np.ndarray:
    """Return [steps, coefficients] of one second of sound, whose loudest sample is 1."""
    windows = np.lib.stride_tricks.sliding_window_view(sound, WINDOW)[::STEP]
    spectrum = np.abs(np.fft.rfft(windows * np.hanning(WINDOW + 1)[:-1], 512))
    edges = np.linspace(mel(np.array(20)), mel(np.array(4000)), BANDS + 2)
    at = mel(np.fft.rfftfreq(512, 1 / RATE))[:, None]
    rise, fall = (at - edges[:-2]) / np.diff(edges[:-1]), (edges[2:] - at) / np.diff(edges[1:])
    bands = np.log(spectrum @ np.clip(np.minimum(rise, fall), 0, None) + 1e-6)
    angles = np.pi / BANDS * np.outer(np.arange(BANDS) + 0.5, np.arange(COEFFICIENTS))
    return np.asarray(bands @ np.cos(angles) * np.sqrt(2 / BANDS))


model, path = sys.argv[1:]
with wave.open(path) as file:
    samples = np.frombuffer(file.readframes(RATE), "<i2").astype(np.float32)
sound = np.pad(samples, (0, RATE))[:RATE] / max(samples.max(initial=0), 1)
with fourfold.Session(model) as session:
    info = session.inputs[0]
    features = info.quantize(cepstrum(sound).reshape(info.shape).astype(np.float32))
    answer = vision.read_answer(session, session.run(features), WORDS, top=3)
for one in answer.classes:
    print(f"{one.score:.3f}  {one.name}")
