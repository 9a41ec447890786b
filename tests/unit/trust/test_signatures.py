"""Signed prepared files: keys, signing, verification, and what `inspect` says about them."""

from __future__ import annotations

import random
import stat
import subprocess
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
from c_player.mutations import parts, sealed
from command_calls import ask, call
from docs.tiny_model import tiny_model
from stored_pieces import stored_block
from tiny_plan import line, with_plan

import fourfold
from fourfold.backends.null import NULL_GPU
from fourfold.device import DeviceInfo
from fourfold.errors import FourfoldError, InputError
from fourfold.plan import Buffer
from fourfold.plan.container import HEADER
from fourfold.store import signature as signatures
from fourfold.store.draft import Draft
from fourfold.store.prepared import Prepared
from fourfold.store.signature import TRAILER_BYTES, _signed_header, create_key, sign_file

pytestmark = pytest.mark.skipif(
    find_spec("cryptography") is None, reason="cryptography is not installed"
)


def write_file(path: Path) -> Path:
    draft = Draft()
    draft.add_compiled(draft.add_model("m", "digest", 100), NULL_GPU, line(2.0), {})
    draft.write(path)
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_file(tmp_path / "m.fourfold")


@pytest.fixture
def key(tmp_path: Path) -> Path:
    path = tmp_path / "release.key"
    create_key(path)
    return path


def is_accepted(content: bytes, public: str) -> bool:
    try:
        Prepared.open(content, f"signed:{public}")
    except FourfoldError:
        return False
    return True


def test_a_signed_file_opens_with_its_key(file: Path, key: Path) -> None:
    plain = file.read_bytes()
    public = sign_file(file, key)
    assert file.stat().st_size == len(plain) + TRAILER_BYTES
    for trust in ("extension", "data", "all", f"signed:{public}", f"signed:{public.upper()}"):
        assert Prepared.open(str(file), trust).models == ("m",)
    assert Prepared.open(str(file), f"signed:{'0' * 64},{public}").models == ("m",)


def test_a_signature_covers_weights_that_are_stored_apart(tmp_path: Path, key: Path) -> None:
    """Their checksums are made valid again, so that only the signature can refuse the file."""
    constants, pieces = stored_block()
    arena, _, *others = line().plan.buffers
    buffers = (arena, Buffer("constants", "constants", constants.nbytes), *others)
    plan = replace(line().plan, buffers=buffers, constants=constants, pieces=pieces)
    draft, path = Draft(), tmp_path / "m.fourfold"
    draft.add_compiled(draft.add_model("m", "digest", 1), NULL_GPU, with_plan(line(), plan), {})
    draft.write(path)
    public, content = sign_file(path, key), path.read_bytes()
    assert is_accepted(content, public)
    head, entries = parts(content)
    changed = bytearray(content)
    weights = [entry for entry in entries if entry[0].startswith(b"weights")]
    assert weights
    for entry in weights:
        changed[entry[1]] ^= 1
        entry[3] = crc32(changed[entry[1] : entry[1] + entry[2]])
    body = sealed(head, entries, bytes(changed))
    forged = _signed_header(body[: HEADER.size], len(content)) + body[HEADER.size :]
    row = (prepared := Prepared.open(forged, "all")).rows[0]
    assert prepared.model(row).plan.constants.tobytes() != constants.tobytes()
    assert not is_accepted(forged, public)


def test_an_unsigned_file_is_refused(file: Path) -> None:
    with pytest.raises(InputError, match=r"m\.fourfold' is not signed"):
        Prepared.open(str(file), f"signed:{'0' * 64}")


def test_another_key_is_refused(file: Path, key: Path, tmp_path: Path) -> None:
    public, other = sign_file(file, key), create_key(tmp_path / "other.key")
    with pytest.raises(InputError, match="signed with another key") as failure:
        Prepared.open(str(file), f"signed:{other}")
    assert public in failure.value.why
    assert other in failure.value.why


def test_a_signature_cannot_be_claimed_for_another_key(
    file: Path, key: Path, tmp_path: Path
) -> None:
    sign_file(file, key)
    other = create_key(tmp_path / "other.key")
    content = file.read_bytes()
    forged = content[:-TRAILER_BYTES] + bytes.fromhex(other) + content[-64:]
    with pytest.raises(FourfoldError, match="is not valid"):
        Prepared.open(forged, f"signed:{other}")


def test_every_flipped_byte_is_detected(file: Path, key: Path) -> None:
    public = sign_file(file, key)
    content = file.read_bytes()
    assert is_accepted(content, public)
    generator = random.Random(0)
    for offset in range(len(content)):
        changed = bytearray(content)
        changed[offset] ^= 1 << generator.randrange(8)
        assert not is_accepted(bytes(changed), public), offset


def test_changes_with_right_checksums_are_detected(file: Path, key: Path, tmp_path: Path) -> None:
    """An attacker can write another file with valid checksums, and the signature of this one."""
    public = sign_file(file, key)
    trailer = file.read_bytes()[-TRAILER_BYTES:]
    other = write_file(tmp_path / "other.fourfold")
    create_key(tmp_path / "other.key")
    sign_file(other, tmp_path / "other.key")
    forged = other.read_bytes()[:-TRAILER_BYTES] + trailer
    Prepared.open(forged, "all").file.verify()
    assert not is_accepted(forged, public)


def test_added_and_missing_bytes_are_detected(file: Path, key: Path) -> None:
    public = sign_file(file, key)
    content = file.read_bytes()
    assert not is_accepted(content + b"\0", public)
    assert not is_accepted(content[:-1], public)
    assert not is_accepted(content[:-TRAILER_BYTES], public)


def test_signing_again_replaces_the_signature(file: Path, key: Path, tmp_path: Path) -> None:
    sign_file(file, key)
    size = file.stat().st_size
    create_key(tmp_path / "other.key")
    public = sign_file(file, tmp_path / "other.key")
    assert file.stat().st_size == size
    assert is_accepted(file.read_bytes(), public)


def test_a_file_that_is_changed_loses_its_signature(file: Path, key: Path) -> None:
    sign_file(file, key)
    Draft.of(Prepared.open(str(file))).write(file)
    assert ask("inspect", file)["signed_by"] is None


def test_a_session_opens_a_signed_file(tmp_path: Path, key: Path, device: DeviceInfo) -> None:
    model, path = tmp_path / "tiny.tflite", tmp_path / "tiny.fourfold"
    model.write_bytes(tiny_model())
    fourfold.prepare(model, path, devices=device, everywhere=False, cache=None)
    with pytest.raises(InputError, match="is not signed"):
        fourfold.Session(path, device, cache=None, trust=f"signed:{'0' * 64}")
    public = sign_file(path, key)
    with fourfold.Session(path, device, cache=None, trust=f"signed:{public}") as session:
        assert session.run(np.ones((1, 32, 32, 3), np.float32))["scores"].size


def test_inspect_says_who_signed(file: Path, key: Path) -> None:
    assert "undamaged, unsigned" in " ".join(call("inspect", file).output.split())
    public = sign_file(file, key)
    text = "".join(call("inspect", file).output.split())
    assert f"undamaged,signedby{public}" in text
    report = ask("inspect", file)
    assert (report["signed_by"], report["signature_verified"]) == (public, True)


def test_inspect_rejects_a_forged_signature(file: Path, key: Path) -> None:
    sign_file(file, key)
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(bytes(content))
    result = call("inspect", file)
    assert result.exit_code != 0
    assert "is not valid" in result.output


def test_inspect_works_without_the_package(
    file: Path, key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    public = sign_file(file, key)
    monkeypatch.setattr(signatures, "find_spec", lambda name: None)
    report = ask("inspect", file)
    assert (report["signed_by"], report["signature_verified"]) == (public, False)
    assert "not verified" in " ".join(call("inspect", file).output.split())


def test_missing_package_is_named(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(signatures, "import_module", fail)
    with pytest.raises(InputError, match=r"pip install 'fourfold\[sign\]'"):
        sign_file(file, file)


def test_the_command_creates_keys_and_signs(file: Path, tmp_path: Path) -> None:
    path = tmp_path / "new.key"
    made = ask("sign", "--new-key", path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    signed = ask("sign", file, "--key", path)
    assert signed == {"files": [str(file)], "public_key": made["public_key"]}
    assert is_accepted(file.read_bytes(), made["public_key"])
    assert made["public_key"] in call("sign", file, "--key", path).output.replace("\n", "")


def test_the_command_explains_wrong_arguments(file: Path, key: Path, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("no key")
    wrong = {
        (file,): "no key is named",
        (file, "--key", key, "--new-key", text): "two keys are named",
        ("--key", key): "no file is named",
        ("--new-key", key): "exists already",
        (file, "--key", text): "cannot read the key",
        (file, "--key", tmp_path / "none"): "cannot read the key",
        (text, "--key", key): "is damaged",
        (tmp_path / "none", "--key", key): "cannot open",
    }
    for words, message in wrong.items():
        result = call("sign", *words)
        assert result.exit_code != 0
        assert message in result.output


def test_keys_of_openssl_are_accepted(file: Path, tmp_path: Path) -> None:
    path = tmp_path / "openssl.key"
    command = ["openssl", "genpkey", "-algorithm", "ed25519", "-out", str(path)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("openssl cannot create the key")
    public = sign_file(file, path)
    assert is_accepted(file.read_bytes(), public)
