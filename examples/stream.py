"""Detect objects in a stream of camera frames: uploads, kernels, downloads and the camera overlap.

The camera is simulated: a bright disc on a dark background, in NV12. Frames are resized and boxes
are decoded on the device.

python examples/stream.py yolov8n.tflite --frames 300
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np

import fourfold
from fourfold import processing


def camera(frames: int, height: int, width: int) -> Iterator[np.ndarray]:
    """Yield frames [1, height * 3 / 2, width] of a circling disc, all in the same memory."""
    frame = np.empty((1, height * 3 // 2, width), np.uint8)
    down, across = np.indices((height, width), sparse=True)
    frame[:, height:] = 128  # no color
    for number in range(frames):
        angle = number / 10
        middle = (height * (0.5 + 0.3 * np.sin(angle)), width * (0.5 + 0.3 * np.cos(angle)))
        near = (down - middle[0]) ** 2 + (across - middle[1]) ** 2 < (height / 8) ** 2
        frame[0, :height] = np.where(near, 235, 16)
        yield frame


@click.command(help=__doc__)
@click.argument("model", type=click.Path(exists=True, path_type=Path))
@click.option("--frames", default=30, show_default=True, help="Number of frames to process.")
@click.option("--size", type=(int, int), default=(480, 640), help="Height and width of a frame.")
@click.option("--depth", default=3, show_default=True, help="Maximum number of runs in flight.")
@click.option("--score", default=0.25, show_default=True, help="Minimum score of a box.")
@click.option("--fractions", is_flag=True, help="The model's boxes are fractions, not pixels.")
@click.option("--device", default="auto", show_default=True)
def main(
    model: Path,
    frames: int,
    size: tuple[int, int],
    depth: int,
    score: float,
    fractions: bool,
    device: str,
) -> None:
    pixels = fourfold.Pixels(0, 255, "nv12", size=size, fit="letterbox")
    boxes = processing.YoloBoxes(score=score, normalized=fractions)
    with fourfold.Session(model, device, pixels=pixels, postprocess=boxes) as session:
        print(session.device)
        began = time.perf_counter()
        for number, outputs in enumerate(session.stream(camera(frames, *size), depth=depth)):
            count = int(outputs["count"][0])
            best = f", best score {outputs['scores'][0, 0]:.2f}" if count else ""
            print(f"frame {number}: {count} boxes{best}")
        print(f"{frames / (time.perf_counter() - began):.1f} frames per second")


if __name__ == "__main__":
    main()
