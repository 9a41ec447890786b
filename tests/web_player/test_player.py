"""The browser player on tiny plans: results, truncated files, lost devices."""

from __future__ import annotations

import struct
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
from browser import ScriptError
from web_player.conftest import Stage
from web_player.web_plans import copy_plan, counting_plan, line_plan, write_prepared

from fourfold.types import Quantization

OPEN = "const model = await fourfold.open('model.fourfold');"
X = "const x = Float32Array.from({length: 16}, (_, at) => at);"
NUMBERS = [4.0 * at + 3 for at in range(16)]


@pytest.fixture
def line(stage: Stage) -> Stage:
    write_prepared(stage.folder / "model.fourfold", line_plan())
    return stage


def test_numbers_in_and_out(line: Stage) -> None:
    found = line.run(
        f"{OPEN}{X} const ways = [{{x}}, [x], x, Array.from(x)]; const outs = [];"
        "for (const way of ways) outs.push(Array.from((await model.run(way)).y));"
        "return [outs, model.inputs[0].shape, model.outputs[0].name];"
    )
    assert found == [[NUMBERS] * 4, [16], "y"]


def test_runs_that_overlap_keep_their_own_results(line: Stage) -> None:
    script = (
        f"{OPEN} const numbers = [0, 1, 2, 3].map((first) => new Float32Array(16).fill(first));"
        "const runs = numbers.map((x) => model.run(x));"
        "return (await Promise.all(runs)).map((one) => one.y[0]);"
    )
    assert line.run(script) == [3, 7, 11, 15]


def test_progress_is_reported(line: Stage) -> None:
    script = (
        "const told = []; const progress = (one) => told.push(one);"
        "const model = await fourfold.open('model.fourfold', {progress}); await model.ready;"
        "return [told.filter((one) => one.stage === 'fetch').at(-1), told.at(-1)];"
    )
    fetched, compiled = line.run(script)
    assert fetched["done"] == fetched["total"] > 0
    assert compiled == {"stage": "compile", "done": 1, "total": 1}


def test_buffers_of_the_device_go_in_and_out(line: Stage) -> None:
    script = (
        f"{OPEN}{X} const {{y}} = await model.run(x, {{buffers: true}});"
        "const again = await model.run({x: y}); return Array.from(again.y);"
    )
    assert line.run(script) == [4 * number + 3 for number in NUMBERS]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("new Float32Array(3)", "16 numbers of f32"),
        ("{z: x}", "there is no input 'z'"),
        ("{}", "the input 'x' is missing"),
        ("[x, x]", "2 inputs were passed"),
        ("new ImageData(2, 2)", "takes no picture"),
    ],
)
def test_mismatched_inputs_are_reported(line: Stage, value: str, words: str) -> None:
    with pytest.raises(ScriptError, match=words):
        line.run(f"{OPEN}{X} await model.run({value});")


def test_a_closed_model_says_so(line: Stage) -> None:
    with pytest.raises(ScriptError, match="the model is closed"):
        line.run(f"{OPEN}{X} model.close(); model.close(); await model.run(x);")


def test_a_lost_device_is_replaced(line: Stage) -> None:
    script = (
        f"{OPEN}{X} await model.run(x); const before = model.device; before.destroy();"
        "await before.lost; const {y} = await model.run(x);"
        "return [Array.from(y), model.device !== before];"
    )
    assert line.run(script) == [NUMBERS, True]


def test_a_device_lost_during_a_run(line: Stage) -> None:
    script = (
        f"{OPEN}{X} await model.run(x); const run = model.run(x); model.device.destroy();"
        "let told = ''; try { await run; } catch (error) { told = error.fix ?? String(error); }"
        "return [told, (await model.run(x)).y[1]];"
    )
    told, number = line.run(script)
    assert told in ("", "run again: the model opens a new device")
    assert number == NUMBERS[1]


def test_states_persist_reset_and_are_lost_with_a_message(stage: Stage) -> None:
    write_prepared(stage.folder / "model.fourfold", counting_plan())
    script = (
        f"{OPEN} const x = new Float32Array([2]); const sums = [];"
        "for (let at = 0; at < 3; at++) sums.push((await model.run(x)).y[0]);"
        "await model.reset(); sums.push((await model.run(x)).y[0]);"
        "const lost = model.device.lost; model.device.destroy(); await lost;"
        "try { await model.run(x); } catch (error) { sums.push(error.what); }"
        "sums.push((await model.run(x)).y[0]); return sums;"
    )
    assert stage.run(script) == [7, 9, 11, 7, "the states of the model are lost", 7]


def test_a_thousand_runs_leave_nothing(line: Stage) -> None:
    line.page.call("HeapProfiler.enable")
    line.run(f"{OPEN}{X} Object.assign(globalThis, {{model, x}});")

    def used(runs: int) -> int:
        line.run(f"for (let at = 0; at < {runs}; at++) await model.run(x);")
        line.page.call("HeapProfiler.collectGarbage")
        size: int = line.page.call("Runtime.getHeapUsage")["usedSize"]
        return size

    before = used(100)
    after = used(1000)
    assert after - before < 100_000, (before, after)


@pytest.mark.parametrize("kind", ["u8[7]", "i8[5]", "i32[3]", "bool[6]", "i64[2]", "f16[3]"])
def test_all_types_pass_unchanged(stage: Stage, kind: str) -> None:
    write_prepared(stage.folder / "model.fourfold", copy_plan(kind))
    count = int(kind.partition("[")[2][:-1])
    values = [(-1) ** at * at if kind[0] in "if" else at % 2 for at in range(count)]
    script = f"{OPEN} return Array.from((await model.run({values})).y, Number);"
    assert stage.run(script) == values


def test_quantised_numbers_as_real_ones(stage: Stage) -> None:
    plan = copy_plan("i8[2,3]", Quantization((0.5, 0.25, 2.0), (3, 0, -1), 1))
    write_prepared(stage.folder / "model.fourfold", plan)
    script = (
        f"{OPEN} const x = new Float32Array([1, 1, 4, -1.25, 100, 1]);"
        "const {y} = await model.run(x, {real: true});"
        "const plain = (await model.run(new Int8Array([5, 4, 1, 0, 127, 0]))).y;"
        "return [Array.from(y), plain.constructor.name, Array.from(plain)];"
    )
    real, name, plain = stage.run(script)
    # Ties round to even: -1.25 / 0.5 to -2, and 1 / 2 to 0; 100 is clamped.
    assert real == [1, 1, 4, -1, 31.75, 0]
    assert (name, plain) == ("Int8Array", [5, 4, 1, 0, 127, 0])
    with pytest.raises(ScriptError, match="real numbers as a Float32Array"):
        stage.run(f"{OPEN} await model.run(new Float32Array(6));")


def damage(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("place", "words"), [(0, "does not start like"), (20, "header"), (70, "table"), (-1, "section")]
)
def test_a_damaged_file_is_refused(line: Stage, place: int, words: str) -> None:
    path = line.folder / "model.fourfold"
    damage(path, place)
    with pytest.raises(ScriptError, match=words):
        line.run(OPEN)


def test_a_truncated_file_is_refused(line: Stage) -> None:
    path = line.folder / "model.fourfold"
    whole = path.read_bytes()
    for size in (0, 10, 64, 200, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(ScriptError, match=r"damaged|cannot be fetched"):
            line.run(OPEN)


def test_a_file_of_another_format_is_refused(line: Stage) -> None:
    path = line.folder / "model.fourfold"
    content = bytearray(path.read_bytes())
    content[8:12] = struct.pack("<I", 3)
    content[60:64] = struct.pack("<I", crc32(content[:60]))
    path.write_bytes(content)
    with pytest.raises(ScriptError, match="has format 3"):
        line.run(OPEN)


def test_a_missing_file_is_reported(stage: Stage) -> None:
    with pytest.raises(ScriptError, match="the server responds with 404"):
        stage.run("await fourfold.open('absent.fourfold');")


def test_a_kernel_that_does_not_compile(stage: Stage) -> None:
    plan = copy_plan("f32[4]")
    write_prepared(stage.folder / "model.fourfold", plan)
    path = stage.folder / "model.fourfold"
    broken = plan.plan.program._replace(text=plan.plan.program.text.replace("i32(id.x)", "i32(no)"))
    object.__setattr__(plan.plan, "program", broken)
    write_prepared(path, plan)
    with pytest.raises(ScriptError, match="unresolved value 'no'"):
        stage.run(f"{OPEN} await model.run(new Float32Array(4));")


def test_one_of_several_models(stage: Stage) -> None:
    write_prepared(stage.folder / "model.fourfold", copy_plan("f32[1]"), line_plan())
    script = "const model = await fourfold.open('model.fourfold', {model: 'model1'});"
    assert stage.run(f"{script} return model.inputs[0].shape;") == [16]
    with pytest.raises(ScriptError, match="with one of model0, model1"):
        stage.run(OPEN)


def test_only_needed_sections_are_fetched_and_cached(stage: Stage) -> None:
    path = write_prepared(
        stage.folder / "model.fourfold", copy_plan("f32[4]"), line_plan(), filler=1 << 20
    )
    script = (
        "performance.clearResourceTimings();"
        "const model = await fourfold.open('model.fourfold', {model: 'model1'});"
        "await model.run(new Float32Array(16));"
        "const sizes = performance.getEntriesByType('resource').map((one) => one.encodedBodySize);"
        "return sizes.reduce((sum, size) => sum + size, 0);"
    )
    assert path.stat().st_size > 1 << 20
    assert stage.run(script) < 200_000


def test_a_second_visit_reads_from_the_cache(stage: Stage) -> None:
    big = line_plan()
    constants = np.zeros(1 << 18, np.uint8)
    constants[:64] = big.plan.constants
    object.__setattr__(big.plan, "constants", constants)
    buffers = (big.plan.buffers[0], big.plan.buffers[1]._replace(bytes=1 << 18))
    object.__setattr__(big.plan, "buffers", (*buffers, *big.plan.buffers[2:]))
    path = write_prepared(stage.folder / "model.fourfold", big)
    script = (
        f"performance.clearResourceTimings(); {OPEN}{X}"
        "const {y} = await model.run(x); model.close();"
        "const sizes = performance.getEntriesByType('resource').map((one) => one.encodedBodySize);"
        "return [Array.from(y), sizes.reduce((sum, size) => sum + size, 0)];"
    )
    first, second = stage.run(script), stage.run(script)
    assert first[0] == second[0] == NUMBERS
    assert first[1] >= path.stat().st_size
    assert second[1] < path.stat().st_size / 2
    write_prepared(path, big, filler=4096)  # other content under the same name
    assert stage.run(script)[1] >= 1 << 18


def test_without_webgpu_there_is_a_word(line: Stage) -> None:
    hide = "Object.defineProperty(navigator, 'gpu', {value: undefined, configurable: true});"
    with pytest.raises(ScriptError, match="there is no WebGPU"):
        line.run(f"{hide} {OPEN}")
