"""Trust in the browser player, in Node: its WebCrypto verifies Ed25519 as browsers do."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest
from web_player.web_plans import line_plan, write_prepared

from fourfold.store.signature import TRAILER_BYTES, create_key, sign_file

pytestmark = [
    pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed"),
    pytest.mark.skipif(find_spec("cryptography") is None, reason="cryptography is not installed"),
]
SOURCES = Path(__file__).parents[2] / "web" / "src"
SCRIPT = """
import { readFile } from 'node:fs/promises';
import { openSource } from '%(folder)s/source.js';
import { Container } from '%(folder)s/container.js';
import { trustedSource } from '%(folder)s/trust.js';
const answers = [];
for (const [path, trust] of JSON.parse(process.argv[1])) {
  try {
    const source = await trustedSource(await openSource(await readFile(path), false), trust);
    await Container.open(source);
    answers.push('');
  } catch (error) {
    answers.push(error.what ?? String(error));
  }
}
console.log(JSON.stringify(answers));
"""


def open_files(*cases: tuple[Path, str]) -> list[str]:
    """Open files with levels of trust; return what each failure says, '' for a success."""
    script = SCRIPT % {"folder": SOURCES.as_uri()}
    listed = json.dumps([(str(path), trust) for path, trust in cases])
    words = ["node", "--no-warnings", "--input-type=module", "-e", script, listed]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    answers: list[str] = json.loads(done.stdout)
    return answers


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "m.fourfold"
    write_prepared(path, line_plan())
    return path


def test_levels(file: Path, tmp_path: Path) -> None:
    other = create_key(tmp_path / "other.key")
    levels = ["extension", "data", "all", f"signed:{other}", "none", "signed:12"]
    assert open_files(*((file, one) for one in levels)) == [
        *("", "", ""),
        "the prepared model is not signed",
        *("trust is 'none'", "trust is 'signed:12'"),
    ]
    create_key(tmp_path / "key")
    public = sign_file(file, tmp_path / "key")
    keys = [public, public.upper(), f"{other},{public}", other]
    assert open_files(*((file, f"signed:{one}") for one in keys)) == [
        *("", "", ""),
        "the prepared model is signed with another key",
    ]
    assert open_files((file, "extension"), (file, "all")) == ["", ""]


def test_changed_files_are_refused(file: Path, tmp_path: Path) -> None:
    create_key(tmp_path / "key")
    public = sign_file(file, tmp_path / "key")
    content, generator, cases = file.read_bytes(), random.Random(0), []
    ends = {*range(64), *range(len(content) - TRAILER_BYTES, len(content))}
    for offset in sorted({*ends, *range(0, len(content), 17)}):
        changed = bytearray(content)
        changed[offset] ^= 1 << generator.randrange(8)
        path = tmp_path / f"{offset}.fourfold"
        path.write_bytes(bytes(changed))
        cases.append((path, f"signed:{public}"))
    assert "" not in open_files(*cases)
