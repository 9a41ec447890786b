"""What the child process does: it converts one model, and ends when its parent has."""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from types import TracebackType

from fourfold.config import calm_frameworks
from fourfold.convert.process import RESULT, WORDS


def main(job: Mapping[str, str]) -> None:
    """Converts `job['path']` with `job['script']`; the result, or the words of an error, are files
    in `job['folder']`.
    """
    folder = job["folder"]
    threading.Thread(target=_end_with_parent, args=(folder,), daemon=True).start()
    sys.excepthook = partial(_note_error, folder)
    calm_frameworks()
    content: bytes = import_module(job["script"]).convert(job["path"])
    aside = os.path.join(folder, f".{RESULT}")
    with open(aside, "wb") as file:
        file.write(content)
    os.replace(aside, os.path.join(folder, RESULT))


def _end_with_parent(folder: str) -> None:
    """Nothing is ever written to our input: when it ends, the parent has, however it did."""
    os.read(0, 1)  # without the lock of a file object, which would be held when Python ends
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)


def _note_error(
    folder: str, kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    with open(os.path.join(folder, WORDS), "w", encoding="utf-8") as file:
        file.write(f"{kind.__name__}: {error}")
