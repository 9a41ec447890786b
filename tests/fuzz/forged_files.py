"""Forged prepared files, with valid checksums around wrong values; only our errors may come of it.

Some are listed by `fourfold inspect`, as text and as JSON, and some are opened for a device.
"""

from __future__ import annotations

import json
import random
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

from c_player.mutations import mutated
from click.testing import CliRunner
from fuzz.hostile_values import TEXTS, forge_record
from tiny_plan import line

from fourfold.backends.null import NULL_GPU
from fourfold.cli import main
from fourfold.config import ALL
from fourfold.errors import FourfoldError
from fourfold.graph.metadata import (
    AssociatedFile,
    Labels,
    ModelMetadata,
    Normalization,
    ScoreCalibration,
    Signature,
    TensorMetadata,
    decode_metadata,
    encode_metadata,
)
from fourfold.plan import Container, Section, container_bytes
from fourfold.plan.placement import OperatorPlacement, PartPlacement, Placement
from fourfold.store.draft import Draft
from fourfold.store.keys import program_parts
from fourfold.store.prepared import Prepared, facts_in_row, languages_of

RECORDS = ("index", "index", "index", "model", "plan", "placement", "about", "choices")
DEVICE = replace(NULL_GPU, name="device", driver="driver", probed=("self_test",))


@cache
def original() -> bytes:
    """Return a prepared file with every kind of record."""
    tensor = TensorMetadata(
        name="x",
        dimensions=("batch", "size"),
        normalization=Normalization((0.0,), (1.0,)),
        minimum=(0.0,),
        maximum=(1.0,),
        threshold=0.5,
        calibration=ScoreCalibration(curves=((1.0, 2.0, 3.0, 4.0),)),
        labels=(Labels(("cat", "dog")),),
        files=(AssociatedFile("labels.txt", size=7),),
        properties={"key": "text"},
    )
    metadata = ModelMetadata("model", "a model", inputs=(tensor,), outputs=(tensor,))
    signatures = {"serve": Signature({"x": "x"}, {"y": "y"})}
    placement = Placement(
        "device",
        "auto",
        (OperatorPlacement("y", "line", "gpu", 0, 1e-5), OperatorPlacement("z", "a", "cpu", 0, 0)),
        (PartPlacement("gpu", 1, 1e-5, 0.0, ("x",), ("y",)),),
    )
    compiled = replace(
        line(choices={"a choice": "value"}),
        about=encode_metadata(metadata, signatures),
        placement=placement.to_bytes(),
        pixels={"the x": "rgb from 0 to 1"},
    )
    draft = Draft()
    for name in ("one", "two"):
        number = draft.add_model(name, "digest", 1)
        draft.add_compiled(number, DEVICE, compiled, {})
        draft.add_compiled(number, DEVICE, line(3.0), {"the x": (16,)}, generic=True)
    draft.add_binary(program_parts(compiled.plan.program, DEVICE), b"binary")
    draft.add_choices("a device", {"kernel": "choice"})
    with tempfile.TemporaryDirectory() as folder:
        draft.write(Path(folder) / "file")
        return (Path(folder) / "file").read_bytes()


def forge_file(seed: int) -> bytes:
    """Return the file with a wrong value in one of its records, its table or its header."""
    rng = random.Random(f"prepared {seed}")
    if rng.random() < 0.3:
        return mutated(original(), seed)
    file = Container(original(), "the file")
    sections = [Section(name, bytes(file.section(n, name))) for n, name in enumerate(file.names)]
    name = rng.choice(RECORDS)
    number = rng.choice([n for n, one in enumerate(sections) if one.name == name and len(one.data)])
    if rng.random() < 0.1:
        text = rng.choice(TEXTS).encode(errors="surrogatepass")
    else:
        text = json.dumps(forge_record(json.loads(bytes(sections[number].data)), rng)).encode()
    sections[number] = Section(name, text)
    return container_bytes(sections)


def inspect_forged(seed: int) -> str:
    """Return whether `fourfold inspect` has 'listed' or 'refused' a forged file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "forged.fourfold"
        path.write_bytes(forge_file(seed))
        results = []
        for more in ([], ["--json"]):
            done = CliRunner().invoke(main, ["inspect", str(path), *more])
            if done.exception is not None and not isinstance(done.exception, SystemExit):
                raise done.exception
            results.append("refused" if done.exit_code else "listed")
    assert results[0] == results[1], (seed, results)
    return results[0]


def open_forged(seed: int) -> str:
    """Return whether the models of a forged file were 'read' or 'refused' for a device."""
    try:
        prepared = Prepared.open(forge_file(seed), ALL)
        repr(prepared), prepared._repr_html_(), languages_of(prepared)
        for number in range(len(prepared.models)):
            row = prepared.best(number, DEVICE)
            facts_in_row(row, DEVICE)
            decode_metadata(prepared.about(row))
            model = prepared.model(row)
            placement = Placement.from_bytes(model.placement)
            str(placement), placement._repr_html_()
            for plan in model.plans:
                prepared.binary_for(plan.program, DEVICE)
    except FourfoldError:
        return "refused"
    return "read"
