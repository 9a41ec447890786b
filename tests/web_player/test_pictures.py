"""Pictures in the browser: sources, fits, scaling and types, compared with NumPy."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import MISSING, browser_path, open_browser
from web_player.conftest import Stage, open_stage
from web_player.web_plans import copy_plan, write_prepared

from fourfold.processing.pixels.frame_fit import FrameFit, fit_frame
from fourfold.types import Quantization

HEIGHT, WIDTH = 6, 10
OPEN = "const model = await fourfold.open('model.fourfold');"
# An opaque picture in which all channels differ; sources made from it hold the same bytes.
PIXELS = np.random.default_rng(7).integers(0, 256, (HEIGHT, WIDTH, 4), np.uint8)
PIXELS[..., 3] = 255
DATA = (
    f"const bytes = Uint8ClampedArray.from(atob('{base64.b64encode(PIXELS.tobytes()).decode()}'),"
    f"(letter) => letter.charCodeAt(0)); const data = new ImageData(bytes, {WIDTH}, {HEIGHT});"
    f"const canvas = new OffscreenCanvas({WIDTH}, {HEIGHT});"
    "canvas.getContext('2d').putImageData(data, 0, 0);"
    "const element = document.createElement('canvas');"
    f"Object.assign(element, {{width: {WIDTH}, height: {HEIGHT}}});"
    "element.getContext('2d').putImageData(data, 0, 0);"
    "const bitmap = await createImageBitmap(data);"
    "const image = new Image(); image.src = element.toDataURL(); await image.decode();"
    "const frame = new VideoFrame(canvas, {timestamp: 0});"
)


def made(stage: Stage, kind: str, source: str = "data", how: str = "{}") -> np.ndarray:
    """Return the values that a model gets for a picture."""
    script = f"{DATA}{OPEN} const {{y}} = await model.run({source}, {{picture: {how}}});"
    numbers = stage.run(f"{script} frame.close(); return Array.from(y, Number);")
    shape = [int(side) for side in kind.partition("[")[2][:-1].split(",")]
    return np.array(numbers).reshape(shape)


def open_model(stage: Stage, kind: str, how: Quantization | None = None) -> None:
    write_prepared(stage.folder / "model.fourfold", copy_plan(kind, how))


@pytest.mark.parametrize("source", ["data", "canvas", "element", "bitmap", "image", "frame"])
def test_all_sources_hold_the_same(stage: Stage, source: str) -> None:
    kind = f"u8[1,{HEIGHT},{WIDTH},3]"
    open_model(stage, kind)
    found = made(stage, kind, source)[0]
    # The colors of a frame were converted to video colors and back.
    assert np.abs(found - PIXELS[..., :3]).max() <= (0 if source != "frame" else 3)


COUNTED = """
    const count = { import: 0, copy: 0 }, { device } = model, { queue } = device;
    const imported = device.importExternalTexture.bind(device);
    device.importExternalTexture = (how) => {
      const made = imported(how);
      count.import++;
      return made;
    };
    const copied = queue.copyExternalImageToTexture.bind(queue);
    queue.copyExternalImageToTexture = (...how) => { count.copy++; return copied(...how); };
"""


def test_frames_of_videos_are_read_where_they_are(tmp_path: Path) -> None:
    """Frames of a playing video too: the first run waits for kernels, then takes the
    current frame.
    """
    if browser_path() is None:
        pytest.skip(MISSING)
    kind = f"u8[1,{HEIGHT},{WIDTH},3]"
    script = f"""{DATA}{OPEN}{COUNTED}
      const {{y}} = await model.run(frame); frame.close();
      const video = document.createElement('video');
      video.srcObject = await navigator.mediaDevices.getUserMedia({{video: true}});
      video.muted = true;
      await video.play();
      const fresh = await fourfold.open('model.fourfold', {{device}}), seen = [];
      for (let run = 0; run < 2; run++) seen.push(new Set((await fresh.run(video)).y).size);
      video.srcObject.getTracks().forEach((track) => track.stop());
      return [Array.from(y, Number), count, Math.min(...seen)];"""
    # Chromium keeps frames as textures only if a single kind of driver does all of its drawing.
    flags = ("--use-angle=swiftshader", "--use-vulkan=swiftshader", "--ignore-gpu-blocklist")
    with (
        open_browser(*flags) as browser,
        open_stage(browser, tmp_path / "served") as stage,
    ):
        open_model(stage, kind)
        numbers, count, kinds = stage.run(script)
    assert count == {"import": 3, "copy": 0}
    assert np.abs(np.array(numbers).reshape(PIXELS[..., :3].shape) - PIXELS[..., :3]).max() <= 3
    assert kinds > 1


def test_frames_are_copied_where_they_cannot_be_read(stage: Stage) -> None:
    kind = f"u8[1,{HEIGHT},{WIDTH},3]"
    open_model(stage, kind)
    script = f"{DATA}{OPEN}{COUNTED} await model.run(frame); frame.close(); return count;"
    assert stage.run(script) == {"import": 0, "copy": 1}


def test_floats_by_mean_and_std(stage: Stage) -> None:
    kind = f"f32[1,{HEIGHT},{WIDTH},3]"
    open_model(stage, kind)
    how = "{mean: [10, 20, 30], std: [2, 4, 8]}"
    expected = (PIXELS[..., :3] - np.array([10.0, 20, 30])) / np.array([2.0, 4, 8])
    np.testing.assert_allclose(made(stage, kind, how=how)[0], expected, atol=1e-4)
    np.testing.assert_allclose(made(stage, kind)[0], PIXELS[..., :3] / 255, atol=1e-6)


def test_channels_first_in_fp16_and_bgr(stage: Stage) -> None:
    kind = f"f16[1,3,{HEIGHT},{WIDTH}]"
    open_model(stage, kind)
    found = made(stage, kind, how="{order: 'bgr', mean: 0, std: 255}")[0]
    np.testing.assert_allclose(found, PIXELS[..., 2::-1].transpose(2, 0, 1) / 255, atol=5e-4)


def test_gray_and_mirrored(stage: Stage) -> None:
    kind = f"f32[1,{HEIGHT},{WIDTH},1]"
    open_model(stage, kind)
    found = made(stage, kind, how="{mirror: true, std: 1}")[0, :, :, 0]
    expected = PIXELS[:, ::-1, :3] @ np.array([0.299, 0.587, 0.114])
    np.testing.assert_allclose(found, expected, atol=1e-3)


def test_quantised_inputs_by_their_scale(stage: Stage) -> None:
    kind = f"i8[1,{HEIGHT},{WIDTH},3]"
    open_model(stage, kind, Quantization((0.0078125,), (-1,)))
    found = made(stage, kind, how="{mean: 127.5, std: 127.5}")[0]
    real = (PIXELS[..., :3] - 127.5) / 127.5
    assert np.abs(found - np.clip(np.rint(real / 0.0078125) - 1, -128, 127)).max() <= 1
    assert (made(stage, kind)[0] == PIXELS[..., :3].astype(int) - 128).all()


def resized(where: FrameFit, fill: float) -> np.ndarray:
    """Resize by definition: each pixel of the frame is weighted by its distance."""
    made = np.full((*where.target, 3), float(fill))
    top, left, height, width = where.box
    for y in range(where.size[0]):
        for x in range(where.size[1]):
            weights = np.outer(near(y, where.size[0], height), near(x, where.size[1], width))
            part = PIXELS[top : top + height, left : left + width, :3]
            value = (weights[..., None] * part).sum((0, 1)) / weights.sum()
            made[y + where.offset[0], x + where.offset[1]] = value
    return made


def near(place: int, size: int, pixels: int) -> Any:
    reach = max(1.0, pixels / size)
    centre = (place + 0.5) * pixels / size
    return np.maximum(0, 1 - np.abs(np.arange(pixels) + 0.5 - centre) / reach)


@pytest.mark.parametrize("fit", ["stretch", "letterbox", "crop"])
@pytest.mark.parametrize("size", [(3, 4), (9, 8)])
def test_pictures_of_another_size(stage: Stage, fit: str, size: tuple[int, int]) -> None:
    kind = f"f32[1,{size[0]},{size[1]},3]"
    open_model(stage, kind)
    found = made(stage, kind, how=f"{{fit: '{fit}', std: 1, fill: 50}}")[0]
    expected = resized(fit_frame((HEIGHT, WIDTH), size, fit), 50)
    np.testing.assert_allclose(found, expected, atol=0.05)


def test_coordinates_map_back_to_the_picture(stage: Stage) -> None:
    open_model(stage, "f32[1,9,8,3]")
    script = (
        f"{DATA}{OPEN} const fit = model.fit(data, {{fit: 'letterbox'}}); frame.close();"
        "return fourfold.toFrame(fit, 4, 4.5);"
    )
    where = fit_frame((HEIGHT, WIDTH), (9, 8), "letterbox")
    expected = [float(one) for one in where.to_frame(np.array(4.0), np.array(4.5))]
    assert stage.run(script) == pytest.approx(expected)


def test_pictures_at_once_keep_apart(stage: Stage) -> None:
    kind = "u8[1,1,4,1]"
    open_model(stage, kind)
    script = (
        f"{OPEN} const pictures = [10, 200].map((gray) => new ImageData("
        "new Uint8ClampedArray(16).fill(gray), 4, 1));"
        "const found = await Promise.all(pictures.map((one) => model.run(one)));"
        "return found.map(({y}) => y[0]);"
    )
    assert stage.run(script) == [10, 200]
