"""Runs a converter in a child process with a time limit, and cleans up after it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from typing import IO, Any

from fourfold.errors import ModelError
from fourfold.formats import ModelSource
from fourfold.formats.format import Converter

# Isolated mode keeps the caller's folder off the search path; our own search path is set next.
START = """
import json, sys
job = json.loads(sys.argv[1])
sys.path[:] = job["search_path"]
from fourfold.compiler.convert.child import main
main(job)
"""
RESULT, WORDS, LOG = "result", "words", "log"  # files written by the child
MAX_MESSAGE_CHARACTERS, MAX_MESSAGE_LINES = 600, 4


def run_converter(converter: Converter, source: ModelSource, limit: float) -> bytes:
    """Return the converted model.

    Raises ModelError with the converter's message if it fails.
    """
    with tempfile.TemporaryDirectory(prefix="fourfold-") as folder:
        path = _path_for(converter, source, folder)
        job = {
            "script": converter.scripts[0],
            "path": path,
            "folder": folder,
            "search_path": [os.path.abspath(folder_) for folder_ in sys.path],
        }
        code = _run(job, limit, os.path.join(folder, LOG))
        result = os.path.join(folder, RESULT)
        if code == 0 and os.path.isfile(result):
            with open(result, "rb") as file:
                return file.read()
        what = f"{converter.name} cannot convert {source.title} to {converter.target}"
        if code is None:
            why = f"it did not finish within {limit:g} seconds"
            fix = "raise the limit with FOURFOLD_CONVERSION_LIMIT, or convert the model yourself"
            raise ModelError(what, why, fix)
        fix = f"change the model so that {converter.name} can convert it, or pass it as "
        raise ModelError(what, _last_words(folder, code), f"{fix}{converter.target}")


def _path_for(converter: Converter, source: ModelSource, folder: str) -> str:
    """Return a path of the model with the suffix that the converter requires."""
    suffix = converter.suffix(source)
    if source.path is not None and (source.is_folder or source.path.endswith(suffix)):
        return os.path.abspath(source.path)
    path = os.path.join(folder, f"{source.name}{suffix}")
    if source.path is not None:
        with suppress(OSError):  # symbolic links are not permitted everywhere
            os.symlink(os.path.abspath(source.path), path)
            return path
    with open(path, "wb") as file:
        file.write(source.content)
    return path


def _run(job: dict[str, Any], limit: float, log: str) -> int | None:
    """Return the exit status of the child; None on timeout."""
    with open(log, "wb") as output:
        process = _start(job, output)
        try:
            return process.wait(limit)
        except subprocess.TimeoutExpired:
            return None
        finally:  # also after Ctrl-C
            _end(process)


def _start(job: dict[str, Any], output: IO[bytes]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-I", "-c", START, json.dumps(job)],
        stdin=subprocess.PIPE,  # closed when this process ends, which ends the child
        stdout=output,
        stderr=output,
        # Ctrl-C reaches only this process, and _end kills the child's own children, too
        start_new_session=True,
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the child and all its children."""
    if process.poll() is None:
        with suppress(ProcessLookupError, PermissionError):
            if sys.platform == "win32":
                process.kill()
            else:
                os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if process.stdin is not None:
        process.stdin.close()


def _last_words(folder: str, code: int) -> str:
    """Return the converter's error message, or its last lines of output."""
    for name in (WORDS, LOG):
        with suppress(OSError), open(os.path.join(folder, name), errors="replace") as file:
            lines = [line.strip() for line in file.read().splitlines() if line.strip()]
            if lines:
                return " ".join(lines[-MAX_MESSAGE_LINES:])[-MAX_MESSAGE_CHARACTERS:]
    return f"it exited with {code} and printed nothing"
