"""Measures the preprocessing of NV12 camera frames on the device, in NumPy and in Pillow.

floats: the network alone, on a preprocessed image. frames: `Session(pixels=...)`. NumPy:
`Pixels.real`, which converts only the pixels that are used, then the network. Pillow: the whole
frame is converted to RGB, resized, padded and normalized, then the network. Runs are interleaved in
turns; the first run of each turn is discarded.

python benchmarks/frames.py mobilenet_v1.tflite --size 1080x1920 --fit letterbox
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import click
import numpy as np
from PIL import Image
from pixels import in_turns, show_times
from setting import describe_setting, relative_error, write_json

import fourfold
from fourfold.processing.pixels.frame_fit import FITS, RESIZES
from fourfold.tools.report.timing import Call, warm_up

MEAN, STD, FILL = 127.5, 127.5, 114
PILLOW = {"bilinear": "BILINEAR", "antialias": "BILINEAR", "nearest": "NEAREST", "area": "BOX"}


def camera_frame(size: tuple[int, int]) -> np.ndarray:
    """Return a smooth random frame of shape [1, height * 3 / 2, width]."""
    height, width = size
    small = np.random.default_rng(0).integers(0, 256, (height // 24, width // 24, 3), np.uint8)
    large = Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)
    y, u, v = (np.asarray(one) for one in large.convert("YCbCr").split())
    colors = np.stack([u[::2, ::2], v[::2, ::2]], axis=-1).reshape(height // 2, width)
    return np.concatenate([y, colors])[None]


def by_pillow(frame: np.ndarray, pixels: fourfold.Pixels, shape: tuple[int, ...]) -> np.ndarray:
    """Preprocess a frame as a program without `pixels=` would; JPEG uses bt601-full."""
    _, rows, width = frame.shape
    height = rows // 3 * 2
    colors = frame[0, height:].reshape(height // 2, width // 2, 2)
    planes = [Image.fromarray(np.ascontiguousarray(colors[..., n])) for n in (0, 1)]
    chroma = [one.resize((width, height), Image.Resampling.NEAREST) for one in planes]
    image = Image.merge("YCbCr", [Image.fromarray(frame[0, :height]), *chroma]).convert("RGB")
    fit = pixels.fit_frame((height, width), (shape[1], shape[2]))
    top, left, tall, wide = fit.box
    filter_ = Image.Resampling[PILLOW[pixels.resize]]
    part = image.resize(fit.size[::-1], filter_, box=(left, top, left + wide, top + tall))
    picture = Image.new("RGB", (shape[2], shape[1]), (FILL, FILL, FILL))
    picture.paste(part, fit.offset[::-1])
    return (np.asarray(picture, np.float32)[None] - np.float32(MEAN)) / np.float32(STD)


def contestants(
    plain: fourfold.Session, session: fourfold.Session, frame: np.ndarray, pixels: fourfold.Pixels
) -> dict[str, Call]:
    """Return the calls to time, after checking that NumPy and the device agree."""
    shape = plain.inputs[0].shape
    floats = pixels.real(frame, shape)
    expected = list(plain.run(floats).values())
    error = relative_error(list(session.run(frame).values()), expected)
    if not error < (1e-4 if plain.precision == "fp32" else 2e-2):
        raise click.ClickException(f"frames give a different result: the error is {error:.1e}")
    return {
        "floats": lambda: plain.run(floats),
        "NumPy": lambda: plain.run(pixels.real(frame, shape)),
        "Pillow": lambda: plain.run(by_pillow(frame, pixels, shape)),
        "frames": lambda: session.run(frame),
    }


@click.command(help=__doc__)
@click.argument("models", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--size", default="1080x1920", show_default=True, help="Height and width of frames.")
@click.option("--fit", type=click.Choice(FITS), default="letterbox", show_default=True)
@click.option("--resize", type=click.Choice(RESIZES), default="bilinear", show_default=True)
@click.option("--device", default="auto", show_default=True)
@click.option("--runs", default=2000, show_default=True, help="Maximum number of runs.")
@click.option("--seconds", default=10.0, show_default=True, help="Time limit per model.")
@click.option(
    "--json", "output", type=click.Path(path_type=Path), help="Write the results to this JSON file."
)
def main(
    models: tuple[Path, ...],
    size: str,
    device: str,
    runs: int,
    seconds: float,
    output: Path | None,
    **how: str,
) -> None:
    height, width = map(int, size.split("x"))
    pixels = fourfold.Pixels(MEAN, STD, "nv12", (height, width), fill=FILL, matrix="bt601-full")
    pixels = replace(pixels, **how)  # type: ignore[arg-type]
    frame, report = camera_frame((height, width)), {}
    for model in models:
        with ExitStack() as stack:
            plain, session = (
                stack.enter_context(fourfold.Session(model, device=device, pixels=given))
                for given in (None, pixels)
            )
            calls = contestants(plain, session, frame, pixels)
            for call in calls.values():
                warm_up(call, limit=seconds / 4)
            times = in_turns(calls, runs, seconds)
            report["setting"] = describe_setting(session.device)
            about = f"{model.stem}, {size} {' '.join(how.values())}, {session.device.name}"
        report[model.stem] = {name: found.as_data() for name, found in times.items()}
        show_times(about, times, "Pillow")
    if output is not None:
        write_json(output, report)


if __name__ == "__main__":
    main()
