"""`fourfold run MODEL FILES...` runs a model on each file."""

from __future__ import annotations

import json
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from docs.tiny_model import tiny_described_model
from PIL import Image
from tflite_writer import Operator, Tensor, write

from fourfold.cli import INTERRUPTED, main
from fourfold.device import DeviceInfo
from fourfold.session import Session


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working folder, with a model and a folder of pictures, arrays and other files."""
    (tmp_path / "m.tflite").write_bytes(tiny_described_model())
    inside = tmp_path / "inputs"
    inside.mkdir()
    random = np.random.default_rng(0)
    for name in ("a.png", "b.jpg"):
        Image.fromarray(random.integers(0, 256, (40, 60, 3), np.uint8)).save(inside / name)
    np.save(inside / "c.npy", random.standard_normal((1, 32, 32, 3)).astype(np.float32))
    (inside / "notes.md").write_text("no input")
    (inside / ".hidden.png").write_text("no picture")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(device: DeviceInfo, *words: object) -> Result:
    command = ["run", "m.tflite", "--device", device.index, *words]
    return CliRunner().invoke(main, [str(word) for word in command])


def results(result: Result) -> list[dict[str, Any]]:
    report = json.loads(result.stdout)
    listed: list[dict[str, Any]] = report["results"]
    return listed


def test_one_file_is_the_same_as_a_named_input(folder: Path, device: DeviceInfo) -> None:
    positional = json.loads(run(device, "inputs/a.png", "--json").stdout)
    named = json.loads(run(device, "--input", "image=inputs/a.png", "--json").stdout)
    assert positional["answer"] == named["answer"]
    assert positional["preprocessing"] == named["preprocessing"]
    assert "results" not in positional


def test_a_folder_has_one_result_per_readable_file(folder: Path, device: DeviceInfo) -> None:
    found = results(run(device, "inputs", "--json"))
    assert [Path(one["file"]).name for one in found] == ["a.png", "b.jpg", "c.npy"]
    for one in found:
        alone = json.loads(run(device, one["file"], "--json").stdout)
        assert alone["answer"]["classes"] == one["answer"]["classes"]


def test_several_files_are_rows_of_one_table(folder: Path, device: DeviceInfo) -> None:
    result = run(device, "inputs/b.jpg", "inputs/a.png")
    assert result.exit_code == 0
    assert result.stdout.index("b.jpg") < result.stdout.index("a.png")
    # The preprocessing is the same for both, and printed once.
    assert result.stderr.count("pixels from -1 to 1") == 1


def test_an_unreadable_file_does_not_lose_the_others(folder: Path, device: DeviceInfo) -> None:
    Path("broken.jpg").write_text("no picture")
    words = ("inputs/a.png", "broken.jpg", "missing.jpg", "inputs/b.jpg")
    result = run(device, *words)
    assert result.exit_code == 2
    assert "broken.jpg cannot be read as a picture" in result.stderr
    assert "missing.jpg" in result.stderr
    assert result.stdout.count("failed: ") == 2
    found = results(run(device, *words, "--json"))
    assert ["error" in one for one in found] == [False, True, True, False]
    assert found[1]["error"]["type"] == "InputError"


def test_missing_files_and_empty_folders_are_errors(folder: Path, device: DeviceInfo) -> None:
    result = run(device, "inputs/a.pgn")
    assert result.exit_code == 2
    assert "did you mean 'inputs/a.png'" in result.stderr
    Path("empty").mkdir()
    result = run(device, "empty")
    assert result.exit_code == 2
    assert "the folder empty has no inputs" in result.stderr


def test_outputs_and_drawings_of_several_files_go_to_folders(
    folder: Path, device: DeviceInfo
) -> None:
    Path("inputs/a.jpg").write_bytes(Path("inputs/b.jpg").read_bytes())
    result = run(device, "inputs", "--output", "out", "--draw", "drawn")
    assert result.exit_code == 0, result.output
    assert sorted(one.name for one in Path("out").iterdir()) == ["a", "a.png", "b", "c"]
    assert sorted(one.name for one in Path("drawn").iterdir()) == ["a.png", "a.png.png", "b.png"]
    result = run(device, "inputs", "--draw", "drawn.png")
    assert result.exit_code == 2
    assert "--draw drawn.png is one file" in result.stderr


def test_ctrl_c_prints_results_so_far(
    folder: Path, device: DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = []
    original = Session.run

    def interrupted(self: Session, *arguments: Any, **options: Any) -> Any:
        runs.append(1)
        if len(runs) > 1:
            raise KeyboardInterrupt
        return original(self, *arguments, **options)

    monkeypatch.setattr(Session, "run", interrupted)
    result = run(device, "inputs", "--json")
    assert result.exit_code == INTERRUPTED
    assert "interrupted after 1 of 3 files" in result.stderr
    assert not json.loads(result.stdout)["is_complete"]
    assert [Path(one["file"]).name for one in results(result)] == ["a.png"]


def test_random_inputs_are_announced(folder: Path, device: DeviceInfo) -> None:
    assert "no input given: random values, seed 0" in run(device).stderr
    assert "no input given: random values, seed 7" in run(device, "--seed", 7).stderr
    assert "random" not in run(device, "inputs/a.png").stderr


def test_a_file_goes_to_the_input_that_is_left(folder: Path, device: DeviceInfo) -> None:
    tensors = [Tensor(name, (1, 4)) for name in ("a", "b", "sum")]
    model = write(tensors, [Operator("ADD", ["a", "b"], ["sum"])], ["a", "b"], ["sum"])
    Path("two.tflite").write_bytes(model)
    for place, name in enumerate("ab"):
        np.save(f"{name}.npy", np.full((1, 4), place + 1, np.float32))
    command = ["run", "two.tflite", "--device", str(device.index), "--json"]
    result = CliRunner().invoke(main, [*command, "a.npy"])
    assert result.exit_code == 2
    assert "a.npy does not say which input it is for" in result.output
    result = CliRunner().invoke(main, [*command, "--input", "b=b.npy", "a.npy"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["outputs"][0]["mean"] == 3
    result = CliRunner().invoke(main, [*command, "--input", "a=a.npy"])
    assert "no input given for b: random values, seed 0" in result.stderr
    result = run(device, "--input", "image=inputs/a.png", "inputs/b.jpg")
    assert result.exit_code == 2
    assert "no input is left for inputs/b.jpg" in result.stderr


def write_tone(path: Path, rate: int, channels: int = 1) -> None:
    tone = np.sin(2 * np.pi * 440 * np.arange(rate) / rate)
    pcm = np.repeat(np.rint(tone * 32767).astype("<i2"), channels)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(pcm.tobytes())


def test_a_sound_becomes_the_samples_that_a_model_takes(folder: Path, device: DeviceInfo) -> None:
    tensors = [Tensor(name, (1, 4000)) for name in ("samples", "sizes")]
    relu = write(tensors, [Operator("ABS", ["samples"], ["sizes"])], ["samples"], ["sizes"])
    Path("m.tflite").write_bytes(relu)
    write_tone(Path("tone.wav"), 44100, channels=2)
    result = run(device, "tone.wav", "--output", "out", "--json")
    assert result.exit_code == 0, result.output
    assert "the first 0.25 of 1 s, 2 channels mixed to one" in result.stderr
    assert "resampled from 44100 Hz, at 16000 Hz, which is a guess" in result.stderr
    converted = json.loads(result.stdout)["preprocessing"]
    assert (converted["rate"], converted["samples"]) == (16000, 4000)
    expected = np.abs(np.sin(2 * np.pi * 440 * np.arange(4000) / 16000))
    np.testing.assert_allclose(np.load("out/sizes.npy")[0, 200:], expected[200:], atol=1e-3)
    result = run(device, "tone.wav", "--rate", 2000, "--json")
    assert "1 s, then silence to 2 s" in result.stderr
    assert "at 2000 Hz, as stated" in result.stderr


def test_a_sound_for_an_input_of_pictures_is_an_error(folder: Path, device: DeviceInfo) -> None:
    write_tone(Path("tone.wav"), 16000)
    result = run(device, "tone.wav")
    assert result.exit_code == 2
    assert "the sound tone.wav cannot become input 'image' of float32[" in result.stderr
