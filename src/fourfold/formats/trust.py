"""Trust: a file's extension says what it may do; its content is never given more than that.

Models of other frameworks can run code when their framework loads them. They are converted only if
their extension says what they are, or if the caller trusts them explicitly.
"""

from __future__ import annotations

import os

from fourfold.config import ALL, BY_EXTENSION
from fourfold.errors import InputError
from fourfold.formats import AMBIGUOUS, formats
from fourfold.formats.format import Format
from fourfold.formats.source import ModelSource
from fourfold.plan.container import EXTENSION


def check_trust(source: ModelSource, form: Format, trust: str) -> None:
    """Raise InputError if a level of trust does not allow to open a model of this format.

    The extension of a file must not be that of another format. A model that a framework converts
    also needs an extension of its own format, because loading it can run code that it contains.
    """
    if trust == ALL:
        return
    converter = form.converter
    if converter is not None and trust != BY_EXTENSION:
        raise InputError(
            f"{source.title} is a {form.name} model, and trust={trust!r} does not allow it",
            f"{converter.name} can run code from such a model when it converts it",
            f"convert it to {converter.target} where it was made, or pass trust='all' if you trust"
            " its author",
        )
    if source.has_extension(form.extensions):
        return
    if source.path is None:
        if converter is not None:
            raise InputError(
                f"the model is a {form.name} model without a file name",
                "converting it can run code that it contains, and no extension says what it is",
                f"save it as {form.extensions[0]}, or pass trust='all' if you trust its author",
            )
        return
    other = _format_named(source.path)
    if other not in ("", form.name) or (converter is not None and not source.is_folder):
        raise _contradiction(source, form, other)


def _format_named(path: str) -> str:
    """Return the format that an extension stands for; '' for any other extension."""
    file = os.path.normpath(path).lower()
    owners = {one: form.name for form in formats().values() for one in form.extensions}
    owners[EXTENSION] = "prepared files"
    matching = (one for one in owners if one not in AMBIGUOUS and file.endswith(one))
    return next((owners[one] for one in matching), "")


def _contradiction(source: ModelSource, form: Format, other: str) -> InputError:
    why = f"its extension is that of {other}" if other else f"its extension is not {form.name}'s"
    if form.converter is not None:
        why += f", and {form.converter.name} can run code from a model when it converts it"
    return InputError(
        f"{source.title} holds a {form.name} model under another name",
        why,
        f"rename it to end in {form.extensions[0]} if that is what you expect,"
        " or pass trust='all' if you trust its author",
    )
