"""Checks with Node.js that the browser player expands constants of every stored form."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from c_player.mutations import overlapping, parts, resealed, sealed
from stored_pieces import stored_block
from tiny_plan import with_plan
from web_player.web_plans import copy_plan, write_prepared

from fourfold.plan import Buffer, CompiledModel

SOURCES = Path(__file__).parents[2] / "web" / "src"
SCRIPT = """
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { Prepared } from 'SOURCES/prepared.js';
import { openSource } from 'SOURCES/source.js';
import { roundToHalf, widenHalf } from 'SOURCES/expand.js';
const file = readFileSync(process.argv[2]);
const prepared = await Prepared.open(await openSource(new Uint8Array(file), false));
const limits = new Proxy({}, { get: () => 2 ** 40 });
const row = prepared.choose({}, { limits, features: new Set(), info: {} });
const plan = await prepared.plan(row, () => {});
const block = await prepared.constants(row, plan);
const bits = Uint32Array.from({ length: 0x7c00 }, (_, half) => widenHalf(half));
const numbers = new Float32Array(bits.buffer);
const again = Array.from(numbers, (value, half) => roundToHalf(value) === half);
const middle = (half) => (numbers[half] + numbers[half + 1]) / 2;
const between = Array.from({ length: 0x7bff }, (_, half) => roundToHalf(middle(half)));
console.log(JSON.stringify({
  digest: createHash('sha256').update(block).digest('hex'),
  again: again.every(Boolean),
  between,
}));
"""


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node.js is not installed")
    folder = tmp_path_factory.mktemp("expand")
    path = write_prepared(folder / "model.fourfold", model_with_all_forms())
    script = folder / "expand.mjs"
    script.write_text(SCRIPT.replace("SOURCES", SOURCES.as_uri()))
    done = subprocess.run([node, script, path], capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def model_with_all_forms() -> CompiledModel:
    model = copy_plan("f32[4]")
    constants, pieces = stored_block()
    arena, _, *others = model.plan.buffers
    buffers = (arena, Buffer("constants", "constants", constants.nbytes), *others)
    plan = replace(model.plan, buffers=buffers, constants=constants, pieces=pieces)
    return with_plan(model, plan)


def digest(array: np.ndarray) -> str:
    return hashlib.sha256(array.tobytes()).hexdigest()


def test_all_forms_expand_to_the_same_bytes(result: dict[str, Any]) -> None:
    assert result["digest"] == digest(model_with_all_forms().plan.constants)


def test_halves_are_converted_as_numpy_does(result: dict[str, Any]) -> None:
    halves = np.arange(0x7C00, dtype=np.uint16).view(np.float16)
    with np.errstate(over="ignore"):
        middle = (halves[:-1].astype(np.float32) + halves[1:].astype(np.float32)) / 2
        expected = middle.astype(np.float16).view(np.uint16)
    assert result["again"]
    assert result["between"] == expected.tolist()


OPEN = """
import { readFileSync } from 'node:fs';
import { Container } from 'SOURCES/container.js';
import { openSource } from 'SOURCES/source.js';
const answers = [];
for (const path of process.argv.slice(2)) {
  try {
    const file = await Container.open(await openSource(new Uint8Array(readFileSync(path)), false));
    const [bytes] = await file.sections([[0, 'index']]);
    answers.push(String(bytes.length));
  } catch (error) {
    answers.push(String(error.why));
  }
}
console.log(JSON.stringify(answers));
"""


def test_sections_do_not_expand_beyond_their_size(tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node.js is not installed")
    files = {"good": overlapping(1), "together": overlapping(64)}
    for name, size in {"long": 10, "short": 2**20 + 1, "impossible": 2**62}.items():
        head, (entry,) = parts(overlapping(1))
        files[name] = sealed(head, [[*entry[:5], size]], overlapping(1))
    files["broken"] = resealed(overlapping(1)[:-9] + bytes(9))
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    script = tmp_path / "open.mjs"
    script.write_text(OPEN.replace("SOURCES", SOURCES.as_uri()))
    words = [node, script, *(tmp_path / name for name in files)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    assert json.loads(done.stdout) == [
        "1048576",
        "its sections are impossibly large before compression",
        "its section 'index' does not expand to 10 bytes",
        "its section 'index' does not expand to 1048577 bytes",
        "a section has an impossible size before compression",
        "its section 'index' does not expand to 1048576 bytes",
    ]
