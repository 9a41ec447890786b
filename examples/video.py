"""Draw boxes on each frame of a webcam, of a video or of a folder of pictures, and say how fast.

python examples/video.py ssd_mobilenet.tflite street.mp4 frames/
python examples/video.py ssd_mobilenet.tflite 0 frames/        (the first webcam)
python examples/video.py ssd_mobilenet.tflite http://camera/stream.mjpg frames/

Frames come from OpenCV where it is installed, else from imageio: its webcams are '<video0>', and it
needs imageio-ffmpeg for videos.
"""

import sys
import time
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import fourfold
from fourfold import results
from fourfold.pictures import picture_bytes


def frames(source: str) -> Iterator[np.ndarray]:
    """Bytes [height, width, 3], red first."""
    if Path(source).is_dir():
        yield from (picture_bytes(path) for path in sorted(Path(source).iterdir()))
    elif find_spec("cv2"):
        camera = import_module("cv2").VideoCapture(int(source) if source.isdigit() else source)
        if not camera.isOpened():
            sys.exit(f"{source} is no camera and no video that OpenCV can open")
        while (read := camera.read())[0]:
            yield read[1][..., ::-1]
    else:
        yield from import_module("imageio.v3").imiter(source)


model, source, folder = sys.argv[1:]
Path(folder).mkdir(parents=True, exist_ok=True)
with fourfold.Session(model) as session:
    for number, frame in enumerate(frames(source)):
        began = time.perf_counter()
        answer = results.ask(session, frame)
        rate = 1 / (time.perf_counter() - began)
        print(f"frame {number}: {len(answer.boxes)} boxes, {rate:.1f} frames a second")
        answer.draw(frame).save(Path(folder) / f"{number:05}.png")
