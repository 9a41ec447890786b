"""The scripts are short, typed, and small when minified."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from web_player.conftest import Stage
from web_player.web_plans import copy_plan, write_prepared

WEB = Path(__file__).parents[2] / "web"
SCRIPTS = sorted([*WEB.glob("src/*.js"), *WEB.glob("page/*.js")])
TOOLS = WEB / "node_modules" / ".bin"
MOST_LINES, MOST_BYTES = 400, 31_500
built = pytest.mark.skipif(
    not TOOLS.exists() or shutil.which("node") is None,
    reason="what `make web` installs is not here",
)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_scripts_are_short_and_begin_with_a_sentence(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= MOST_LINES
    assert lines[0].startswith("// ")
    assert any(line.endswith(".") for line in lines[:2])


def test_imports_have_no_cycles_and_no_package() -> None:
    names = {path.name: path.read_text(encoding="utf-8") for path in WEB.glob("src/*.js")}
    reads = {
        name: {other for other in names if f"from './{other}'" in "\n".join(imports(text))}
        for name, text in names.items()
    }
    for name, text in names.items():
        assert all("from './" in line for line in imports(text)), name
    done: set[str] = set()
    while ready := {name for name in names if name not in done and reads[name] <= done}:
        done |= ready
    assert done == set(names)


def imports(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("import ")]


@built
def test_types_are_right() -> None:
    done = subprocess.run(
        [TOOLS / "tsc", "--project", WEB], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


@built
def test_the_packed_player_is_small(tmp_path: Path) -> None:
    output = tmp_path / "fourfold.js"
    subprocess.run(["node", "build.mjs", output], cwd=WEB, check=True)
    assert output.stat().st_size < MOST_BYTES


@built
def test_the_packed_player_makes_the_same_of_a_picture(stage: Stage) -> None:
    """Its kernel is minified too, with other names and without spaces."""
    subprocess.run(["node", "build.mjs", stage.folder / "packed.js"], cwd=WEB, check=True)
    kind = "i8[1,5,7,3]"
    write_prepared(stage.folder / "model.fourfold", copy_plan(kind))
    script = """
      const packed = await import(new URL('packed.js', location.href));
      const bytes = Uint8ClampedArray.from({ length: 4 * 9 * 4 }, (_, at) => (at * 37) % 256);
      const data = new ImageData(bytes, 9, 4), found = [];
      for (const { open } of [fourfold, packed]) {
        const model = await open('model.fourfold', { cache: false });
        const how = { fit: 'letterbox', order: 'bgr', mirror: true };
        const frame = new VideoFrame(await createImageBitmap(data), { timestamp: 0 });
        for (const picture of [data, frame]) {
          found.push(Array.from((await model.run(picture, { picture: how })).y));
        }
        model.close();
      }
      return found;
    """
    data, frame, packed_data, packed_frame = stage.run(script)
    assert len({*data}) > 20
    assert (data, frame) == (packed_data, packed_frame)
