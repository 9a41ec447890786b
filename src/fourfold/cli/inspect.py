"""List the contents of a prepared file, or the inputs, outputs and operators of a model.

For a prepared file, models, devices, sizes and ages are listed. Every checksum is verified, and the
signature, if there is one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import click

from fourfold.cli._metadata import about_as_data, show_about
from fourfold.cli._model_contents import read_contents, show_contents
from fourfold.cli._options import (
    ModelPath,
    command_shapes,
    examples,
    json_option,
    parse_shape,
    shape_option,
    trust_option,
)
from fourfold.cli._show import age, byte_count, show_json, show_table
from fourfold.config import ALL, DATA
from fourfold.errors import InputError
from fourfold.graph.metadata import ModelMetadata, Signatures, decode_metadata
from fourfold.options import SessionOptions
from fourfold.plan.requirements import read_requirements
from fourfold.plan.targets import GPU
from fourfold.store.prepared import Prepared, is_prepared
from fourfold.store.signature import can_verify, read_signature, verify_signature

EXAMPLES = examples("fourfold inspect app.fourfold", "fourfold inspect model.tflite --json")


@click.command(help=__doc__, epilog=EXAMPLES)
@click.argument("file", type=ModelPath())
@shape_option
@trust_option
@json_option
def command(file: str, shapes: tuple[str, ...], trust: str | None, as_json: bool) -> None:
    config = SessionOptions(trust=trust).settings()
    if not is_prepared(file):
        sizes = dict(map(parse_shape, shapes))
        try:
            model, contents = read_contents(file, sizes, config)
        except InputError as error:
            if not error.open_inputs:
                raise
            sizes = command_shapes(error, os.path.basename(file), sizes)
            model, contents = read_contents(file, sizes, config)
        if as_json:
            show_json({"file": file, **contents})
        else:
            show_contents(file, model, contents)
        return
    # Nothing of the file is run here, so that binaries are listed with trust='data', too.
    prepared = Prepared.open(file, ALL if config.trust == DATA else config.trust)
    prepared.file.verify()
    report = _describe(prepared)
    (show_json if as_json else _show)({"file": file, **report})
    if not as_json:
        for number, name in enumerate(prepared.models):
            show_about(*_about(prepared, number), name if len(prepared.models) > 1 else "")


def _describe(prepared: Prepared) -> dict[str, Any]:
    """Return the contents of a prepared file as plain data."""
    sizes = prepared.file.section_size
    index = prepared.index
    plans = [
        {
            "model": prepared.models[plan["model"]],
            "device": plan["made_for"],
            "precision": plan["precision"],
            "shapes": plan["shapes"],
            "pixels": plan["pixels"],
            "signature": plan["signature"],
            "postprocess": plan["postprocess"],
            "generic": plan["generic"],
            "requirements": plan["requirements"],
            "bytes": sum(sizes(number) for number in plan["sections"]),
            "weights": _weights(prepared, [*plan["sections"], *plan["weights"]]),
            "in_parts": plan["parts"] != [GPU],
            "engine": plan["engine"],
            "added": plan["added"],
        }
        for plan in prepared.rows
    ]
    binaries = [
        {"device": one["parts"], "bytes": sizes(one["section"]), "added": one["added"]}
        for one in index["binaries"]
    ]
    choices = [
        {"device": one["device"], "choices": len(prepared.choices(one["device"]))}
        for one in index["choices"]
    ]
    models = [
        {**one, **about_as_data(*_about(prepared, number))}
        for number, one in enumerate(index["models"])
    ]
    head = {"bytes": prepared.file.size, "made_by": index["made_by"], "models": models}
    head |= _signature(prepared)
    return {**head, "plans": plans, "binaries": binaries, "choices": choices}


def _signature(prepared: Prepared) -> dict[str, Any]:
    """Return the key of the file's signature, and whether the signature could be verified."""
    signature = read_signature(prepared.file)
    if signature is None:
        return {"signed_by": None, "signature_verified": None}
    if can_verify():
        verify_signature(prepared.file, signature)
    return {"signed_by": signature.key, "signature_verified": can_verify()}


def _signature_text(report: Mapping[str, Any]) -> str:
    if report["signed_by"] is None:
        return "unsigned"
    if report["signature_verified"]:
        return f"signed by {report['signed_by']}"
    return f"not verified (needs fourfold[sign]): signature of {report['signed_by']}"


def _about(prepared: Prepared, model: int) -> tuple[ModelMetadata, Signatures]:
    """Return metadata and signatures of a model, which are the same in all its plans."""
    rows = (prepared.about(row) for row in prepared.rows if row["model"] == model)
    return decode_metadata(next(rows, b""))


def _weights(prepared: Prepared, sections: Sequence[int]) -> int:
    """Return the bytes of constants, and of models for CPU engines."""
    names = prepared.file.names
    kinds = ("constants", "weights", "part")
    return sum(prepared.file.section_size(one) for one in sections if names[one] in kinds)


def _show(report: dict[str, Any]) -> None:
    origin = f"{byte_count(report['bytes'])}, by {report['made_by']}"
    title = f"{report['file']}: {origin}, undamaged, {_signature_text(report)}"
    rows = [
        (one["name"], byte_count(one["bytes"]), age(one["added"]), one["digest"])
        for one in report["models"]
    ]
    show_table(title, ("model", ">its file", ">age", "digest"), rows)
    for name in dict.fromkeys(_title(one) for one in report["plans"]):
        _show_plans(name, [one for one in report["plans"] if _title(one) == name])
    pictures = {
        (_title(one), name, words)
        for one in report["plans"]
        for name, words in one["pixels"].items()
    }
    if pictures:
        show_table("inputs that take bytes", ("model", "input", "pixels"), sorted(pictures))
    behind = {(_title(one), one["postprocess"]) for one in report["plans"] if one["postprocess"]}
    if behind:
        show_table("postprocessing of outputs", ("model", "postprocessing"), sorted(behind))
    binaries = [
        (*_built_for(one["device"]), byte_count(one["bytes"]), age(one["added"]))
        for one in report["binaries"]
    ]
    show_table("binaries", ("device", "driver", ">size", ">age"), binaries)
    if report["choices"]:
        counts = [(one["device"], one["choices"]) for one in report["choices"]]
        show_table("tuned choices", ("device", ">choices"), counts)


def _show_plans(name: str, plans: Sequence[Mapping[str, Any]]) -> None:
    """Print the plans of one model, and their requirements on a device."""
    rows = [
        (
            one["device"]["name"],
            one["precision"],
            "yes" if one["in_parts"] else "no",
            byte_count(one["weights"]),
            byte_count(one["bytes"]),
            age(one["added"]),
        )
        for one in plans
    ]
    columns = ("prepared for", "precision", "in parts", ">weights", ">total", ">age")
    show_table(f"plans of {name} (equal weights are stored once)", columns, rows)
    needed = [(one["device"]["name"], str(read_requirements(one["requirements"]))) for one in plans]
    show_table("", ("prepared for", "requirements on the device"), needed)


def _built_for(parts: Mapping[str, str]) -> tuple[str, str]:
    """Return the device and the driver of a binary; code for an architecture needs neither."""
    if "architecture" in parts:
        return (f"any {parts['architecture']}", "any")
    return (parts["device"], parts["driver"])


def _title(plan: Mapping[str, Any]) -> str:
    """Return the model of a plan, and its signature if it has one."""
    return f"{plan['model']}, {plan['signature']}" if plan["signature"] else str(plan["model"])
