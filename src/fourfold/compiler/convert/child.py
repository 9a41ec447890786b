"""Entry point of the child process: converts one model; exits when its parent does."""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from types import TracebackType

from fourfold.compiler.convert.process import RESULT, WORDS
from fourfold.config import quiet_frameworks


def main(job: Mapping[str, str]) -> None:
    """Convert `job['path']` with `job['script']`.

    The result, or the error message, is written to files in `job['folder']`.
    """
    folder = job["folder"]
    threading.Thread(target=_end_with_parent, args=(folder,), daemon=True).start()
    sys.excepthook = partial(_note_error, folder)
    quiet_frameworks()
    content: bytes = import_module(job["script"]).convert(job["path"])
    temporary = os.path.join(folder, f".{RESULT}")
    with open(temporary, "wb") as file:
        file.write(content)
    os.replace(temporary, os.path.join(folder, RESULT))


def _end_with_parent(folder: str) -> None:
    """Exit when the parent does: stdin stays empty and only ends with it."""
    os.read(0, 1)  # Avoid a file object, whose lock would still be held at interpreter exit.
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)


def _note_error(
    folder: str, kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    with open(os.path.join(folder, WORDS), "w", encoding="utf-8") as file:
        file.write(f"{kind.__name__}: {error}")
