"""Trust in the C player: names, signatures, and files whose code must not run."""

from __future__ import annotations

import random
from importlib.util import find_spec
from pathlib import Path

import pytest
from c_player.build import run_json
from c_player.fake_device import fake_device, play_files, prepare_fake, run_fake_json
from tiny_plan import line

from fourfold.device import DeviceInfo
from fourfold.store.draft import Draft
from fourfold.store.keys import program_parts
from fourfold.store.prepared import Prepared
from fourfold.store.signature import TRAILER_BYTES, create_key, sign_file

needs_cryptography = pytest.mark.skipif(
    find_spec("cryptography") is None, reason="cryptography is not installed"
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return prepare_fake(tmp_path / "m.fourfold", fake_device(), {"line": [line()]})


def with_binary(path: Path) -> Path:
    """Add a binary that the fake driver loads."""
    draft, program = Draft.of(Prepared.open(str(path))), line().plan.program
    binary = b"FAKE" + program.text.encode()
    draft.add_binary(program_parts(program, fake_device()), binary)
    draft.write(path)
    return path


def test_another_name_is_refused(file: Path) -> None:
    for name in ("m.onnx", "m", "fourfold", ".fourfol", "m.fourfold.onnx"):
        other = file.with_name(name)
        other.write_bytes(file.read_bytes())
        for words in ((), ("--trust", "extension")):
            (report,) = run_fake_json(other, *words, status=1)
            assert report["status"] == "argument"
            assert "is a prepared file under another name" in report["error"]
        assert run_fake_json(other, "--trust", "all")[0]["model"] == "line"
    upper = file.with_name("M.FOURFOLD")
    upper.write_bytes(file.read_bytes())
    assert run_fake_json(upper)[0]["model"] == "line"


def test_data_loads_no_binary(file: Path) -> None:
    with_binary(file)
    assert run_fake_json(file)[0]["program"] == "file"
    assert run_fake_json(file, "--trust", "data")[0]["program"] == "text"


def test_data_ignores_facts(tmp_path: Path) -> None:
    device = fake_device({"self_test": "floats"})
    path = prepare_fake(tmp_path / "m.fourfold", device, {"line": [line()]})
    (report,) = run_fake_json(path, status=1)
    assert "its self-test failed" in report["error"]
    assert run_fake_json(path, "--trust", "data")[0]["model"] == "line"


@pytest.mark.devices(takes=lambda device: device.api == "opencl" and device.is_cpu)
def test_data_runs_nothing_on_a_cpu(tmp_path: Path, device: DeviceInfo) -> None:
    path = tmp_path / "m.fourfold"
    draft = Draft()
    draft.add_compiled(draft.add_model("line", "digest", 1), device, line(), {})
    draft.write(path)
    here = ("--device", str(device.ordinal))
    (report,) = run_json(path, *here, "--trust", "data", status=1)
    assert report["status"] == "plan"
    assert "as code that reaches all memory of this process" in report["error"]
    assert run_json(path, *here, "--trust", "all")


@pytest.mark.parametrize(
    "trust", ["", "none", "signed", "signed:", "signed:12", f"signed:{'0' * 63}g", "ALL"]
)
def test_unknown_levels_are_refused(file: Path, trust: str) -> None:
    (report,) = run_fake_json(file, "--trust", trust, status=1)
    assert report["status"] == "argument"
    assert "it must be extension, data, signed:KEY or all" in report["error"]


@needs_cryptography
def test_signed_files_need_their_key(file: Path, tmp_path: Path) -> None:
    other = create_key(tmp_path / "other.key")
    (report,) = run_fake_json(file, "--trust", f"signed:{other}", status=1)
    assert "the file is not signed" in report["error"]
    create_key(tmp_path / "key")
    public = sign_file(file, tmp_path / "key")
    (report,) = run_fake_json(file, "--trust", f"signed:{other}", status=1)
    assert "is signed with another key" in report["error"]
    for trust in ("extension", "all", f"signed:{public.upper()}", f"signed:{other},{public}"):
        assert run_fake_json(file, "--trust", trust)[0]["model"] == "line"


@needs_cryptography
def test_changed_files_are_refused(file: Path, tmp_path: Path) -> None:
    """Flip bits of the header, the signature, and some bytes between; a sanitizer watches."""
    create_key(tmp_path / "key")
    public = sign_file(file, tmp_path / "key")
    content, generator, paths = file.read_bytes(), random.Random(0), []
    ends = {*range(64), *range(len(content) - TRAILER_BYTES, len(content))}
    for offset in sorted({*ends, *range(0, len(content), 17)}):
        changed = bytearray(content)
        changed[offset] ^= 1 << generator.randrange(8)
        paths.append(tmp_path / f"{offset}.fourfold")
        paths[-1].write_bytes(bytes(changed))
    for number, cut in enumerate((content + b"\0", content[:-1], content[:-TRAILER_BYTES])):
        paths.append(tmp_path / f"cut{number}.fourfold")
        paths[-1].write_bytes(cut)
    trust = f"signed:{public}"
    results = play_files(paths, "0", trust)
    assert len(results) == len(paths)
    assert {one.split()[4] for one in results} == {"file:"}
    assert play_files([file], "0", trust)[0].split()[1:3] == ["1", "1"]
