"""Image buffers: probing them on a device, and plans with images in the cache and in files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tiny_matrix import WEIGHTS, matrix, numbers

import fourfold
from fourfold import backends
from fourfold.backends import determine_facts, probe
from fourfold.backends.opencl import binding as cl
from fourfold.backends.opencl import feature_probes
from fourfold.backends.opencl.devices import context_of, facts_of
from fourfold.codegen.opencl import probes
from fourfold.device import IMAGES, DeviceInfo
from fourfold.options import CompileOptions
from fourfold.store.draft import Draft
from fourfold.tools.preparation import prepare_model


@pytest.fixture
def image_device(device: DeviceInfo, monkeypatch: pytest.MonkeyPatch) -> DeviceInfo:
    """Return a device that prefers images, with one launch for each kernel."""
    result = replace(determine_facts(device, IMAGES), prefers_images=True)
    if not result.image_texels:
        pytest.skip(f"{device.name} has no image buffers")
    monkeypatch.setattr(backends, "probe", lambda info, quantised: result)
    monkeypatch.setenv("FOURFOLD_LAUNCHES", "list")
    return result


def test_wrong_image_reads_disable_images(
    device: DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = probes.IMAGES.text.replace("halves_at + item", "halves_at + item + 1")
    monkeypatch.setattr(probes, "IMAGES", probes.IMAGES._replace(text=text))
    eager = replace(device, claims={"image_texels": 65536, "prefers_images": True})
    assert feature_probes.try_images(eager) == dict(zip(IMAGES, (0, False, False), strict=True))


def test_device_without_images_is_not_probed(
    device: DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feature_probes, "_reads_images", None)
    assert feature_probes.try_images(replace(device, claims={}))["image_texels"] == 0


def test_unprobed_images_are_not_used(device: DeviceInfo) -> None:
    gone = replace(device, name="gone", kind="gpu", probed=(), claims={"image_texels": 65536})
    result = probe(gone)
    assert (result.image_texels, result.knows("image_texels")) == (0, False)


def test_known_vendors_prefer_images(device: DeviceInfo, monkeypatch: pytest.MonkeyPatch) -> None:
    handle = context_of(device).device
    assert not facts_of(handle).claims["prefers_images"]
    monkeypatch.setattr(handle, "name", "QUALCOMM Adreno(TM) 740")
    assert facts_of(handle).claims["prefers_images"]


def test_sub_buffers_share_memory(device: DeviceInfo) -> None:
    context = context_of(device)
    queue, values = cl.Queue(context), numbers(3, rows=97)
    buffer = cl.Buffer.of(context, values, writable=True)
    start = device.alignment
    part = buffer.part(start, values.nbytes - start)
    result = np.full(values.size - start // 4, np.nan, np.float32)
    queue.read(part, result)
    assert np.array_equal(result, values.reshape(-1)[start // 4 :])


def image_arguments(session: fourfold.Session) -> list[str]:
    arguments = [one for launch in session.plan.launches for one in launch.arguments]
    return [str(one) for one in arguments if " as " in str(one)]


def test_plans_with_images_are_cached(image_device: DeviceInfo, tmp_path: Path) -> None:
    (tmp_path / "m.tflite").write_bytes(matrix())
    x, origins = numbers(1), []
    for _ in range(2):
        with fourfold.Session(
            tmp_path / "m.tflite", image_device, cache=tmp_path / "store"
        ) as session:
            assert len(image_arguments(session)) == 1
            (y,) = session.run({"x": x}).values()
            np.testing.assert_allclose(y, x @ WEIGHTS.T, atol=1e-5)
            origins.append(session.origin)
    assert origins == ["model", "store"]


def test_prepared_files_contain_plans_with_images(image_device: DeviceInfo, tmp_path: Path) -> None:
    model, path, draft, x = tmp_path / "m.tflite", tmp_path / "m.fourfold", Draft(), numbers(2)
    model.write_bytes(matrix())
    prepare_model(draft, model, image_device, CompileOptions(launches="list"), {})
    draft.write(path)
    with fourfold.Session(path, image_device, cache=None) as session:
        assert session.origin == "file"
        assert len(image_arguments(session)) == 1
        (y,) = session.run({"x": x}).values()
        np.testing.assert_allclose(y, x @ WEIGHTS.T, atol=1e-5)
    with pytest.raises(fourfold.InputError, match="can run on"):
        fourfold.Session(path, replace(image_device, name="another", image_texels=0), cache=None)
