"""Detect objects in a webcam, a video or a folder of pictures, and print the frame rate.

python examples/video.py ssd_mobilenet.tflite street.mp4 frames/
python examples/video.py ssd_mobilenet.tflite 0 frames/        (the first webcam)
python examples/video.py ssd_mobilenet.tflite http://camera/stream.mjpg frames/

Frames are read with OpenCV if it is installed, else with imageio. Webcams of imageio are named
'<video0>', and videos need imageio-ffmpeg.
"""

import sys
import time
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import fourfold
from fourfold import vision
from fourfold.processing.pictures import picture_bytes


def frames(source: str) -> Iterator[np.ndarray]:
    """Yield uint8 frames [height, width, 3] in RGB order."""
    if Path(source).is_dir():
        yield from (picture_bytes(path) for path in sorted(Path(source).iterdir()))
    elif find_spec("cv2"):
        camera = import_module("cv2").VideoCapture(int(source) if source.isdigit() else source)
        if not camera.isOpened():
            sys.exit(f"OpenCV cannot open {source} as a camera or video")
        while (read := camera.read())[0]:
            yield read[1][..., ::-1]
    else:
        yield from import_module("imageio.v3").imiter(source)


model, source, folder = sys.argv[1:]
Path(folder).mkdir(parents=True, exist_ok=True)
with fourfold.Session(model) as session:
    for number, frame in enumerate(frames(source)):
        began = time.perf_counter()
        answer = vision.ask(session, frame)
        rate = 1 / (time.perf_counter() - began)
        print(f"frame {number}: {len(answer.boxes)} boxes, {rate:.1f} frames per second")
        answer.draw(frame).save(Path(folder) / f"{number:05}.png")
