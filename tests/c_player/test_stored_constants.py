"""Checks that the C player expands constants of every stored form, and refuses malformed ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from c_player.build import command, run_json
from stored_pieces import stored_block

import fourfold
from fourfold.device import DeviceInfo
from fourfold.plan import (
    Buffer,
    BufferUse,
    CompiledModel,
    Launch,
    Plan,
    Port,
    Program,
    Requirements,
)
from fourfold.store.draft import Draft
from fourfold.types import DType, TensorType

COPY = """
__kernel void copy(__global const uchar *x, long x_at, __global const uchar *c, long c_at,
                   __global uchar *y, long y_at)
{
    y[y_at + get_global_id(0)] = c[c_at + get_global_id(0)] + x[x_at];
}
"""


def copying_plan() -> CompiledModel:
    """Return a model whose output is its constants, plus its input."""
    constants, pieces = stored_block()
    one, all_ = (TensorType(DType.U8, (size,)) for size in (1, constants.size))
    plan = Plan(
        name="main",
        program=Program(COPY, "-cl-std=CL1.2"),
        buffers=(
            Buffer("arena", "arena", 0),
            Buffer("constants", "constants", constants.nbytes),
            Buffer("x", "input", 1),
            Buffer("y", "output", constants.nbytes),
        ),
        launches=(
            Launch(
                "copy",
                (BufferUse(2, 0), BufferUse(1, 0), BufferUse(3, 0)),
                (constants.size,),
                (1,),
                "copy",
                "y = constants + x",
            ),
        ),
        inputs=(Port("x", one, 2),),
        outputs=(Port("y", all_, 3),),
        constants=constants,
        precision="fp32",
        requirements=Requirements(buffer_bytes=constants.nbytes, alignment=8),
        pieces=pieces,
    )
    return CompiledModel.of_plan(plan, ("x",), ("y",))


def test_all_forms_expand_to_the_same_bytes(device: DeviceInfo, tmp_path: Path) -> None:
    command()
    model, draft, path = copying_plan(), Draft(), tmp_path / "model.fourfold"
    draft.add_compiled(draft.add_model("model", "digest", 1), device, model, {})
    draft.write(path)
    (tmp_path / "in").mkdir()
    np.save(tmp_path / "in" / "0.0.npy", np.zeros(1, np.uint8))
    with fourfold.Session(str(path), device=device.address, cache=None) as session:
        (result,) = session.run([np.zeros(1, np.uint8)]).values()
    assert result.tobytes() == model.plan.constants.tobytes()
    where = ("--inputs", tmp_path / "in", "--output", tmp_path / "out")
    (line,) = run_json(path, "--device", str(device.ordinal), *where)
    (output,) = (np.load(one["file"]) for one in line["outputs"])
    assert output.tobytes() == model.plan.constants.tobytes()
