"""Images of buffers: what a trial tells of a device, and plans that have them, kept and shipped."""

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
def able(device: DeviceInfo, monkeypatch: pytest.MonkeyPatch) -> DeviceInfo:
    """A device that plans are made for with images, one launch for each kernel."""
    found = replace(determine_facts(device, IMAGES), prefers_images=True)
    if not found.image_texels:
        pytest.skip(f"{device.name} has no images of buffers")
    monkeypatch.setattr(backends, "probe", lambda info, quantised: found)
    monkeypatch.setenv("FOURFOLD_LAUNCHES", "list")
    return found


def test_a_device_that_reads_something_else_has_no_images(
    device: DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = probes.IMAGES.text.replace("halves_at + item", "halves_at + item + 1")
    monkeypatch.setattr(probes, "IMAGES", probes.IMAGES._replace(text=text))
    eager = replace(device, claims={"image_texels": 65536, "prefers_images": True})
    assert feature_probes.try_images(eager) == dict(zip(IMAGES, (0, False, False), strict=True))


def test_a_device_without_images_is_not_tried(
    device: DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feature_probes, "_reads_images", None)
    assert feature_probes.try_images(replace(device, claims={}))["image_texels"] == 0


def test_a_gpu_is_tried_before_plans_are_made_for_it(device: DeviceInfo) -> None:
    gone = replace(device, name="gone", kind="gpu", probed=(), claims={"image_texels": 65536})
    found = probe(gone)
    assert (found.image_texels, found.knows("image_texels")) == (0, False)


def test_whose_texture_cache_is_known(device: DeviceInfo, monkeypatch: pytest.MonkeyPatch) -> None:
    handle = context_of(device).device
    assert not facts_of(handle).claims["prefers_images"]
    monkeypatch.setattr(handle, "name", "QUALCOMM Adreno(TM) 740")
    assert facts_of(handle).claims["prefers_images"]


def test_a_part_of_a_buffer_is_the_same_memory(device: DeviceInfo) -> None:
    context = context_of(device)
    queue, values = cl.Queue(context), numbers(3, rows=97)
    buffer = cl.Buffer.of(context, values, writable=True)
    start = device.alignment
    part = buffer.part(start, values.nbytes - start)
    found = np.full(values.size - start // 4, np.nan, np.float32)
    queue.read(part, found)
    assert np.array_equal(found, values.reshape(-1)[start // 4 :])


def images(session: fourfold.Session) -> list[str]:
    arguments = [one for launch in session.plan.launches for one in launch.arguments]
    return [str(one) for one in arguments if " as " in str(one)]


def test_the_store_keeps_them(able: DeviceInfo, tmp_path: Path) -> None:
    (tmp_path / "m.tflite").write_bytes(matrix())
    x, origins = numbers(1), []
    for _ in range(2):
        with fourfold.Session(tmp_path / "m.tflite", able, cache=tmp_path / "store") as session:
            assert len(images(session)) == 1
            (y,) = session.run({"x": x}).values()
            np.testing.assert_allclose(y, x @ WEIGHTS.T, atol=1e-5)
            origins.append(session.origin)
    assert origins == ["model", "store"]


def test_a_prepared_file_has_them(able: DeviceInfo, tmp_path: Path) -> None:
    model, path, draft, x = tmp_path / "m.tflite", tmp_path / "m.fourfold", Draft(), numbers(2)
    model.write_bytes(matrix())
    prepare_model(draft, model, able, CompileOptions(launches="list"), {})
    draft.write(path)
    with fourfold.Session(path, able, cache=None) as session:
        assert session.origin == "file"
        assert len(images(session)) == 1
        (y,) = session.run({"x": x}).values()
        np.testing.assert_allclose(y, x @ WEIGHTS.T, atol=1e-5)
    with pytest.raises(fourfold.InputError, match="can run on"):
        fourfold.Session(path, replace(able, name="another", image_texels=0), cache=None)
