"""A converter as a child process: it has a time limit, dies with us, and leaves nothing behind."""

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
from fourfold.formats.converter import Converter

# Isolated, so that no folder of the caller's is looked into first; then with our own search path.
START = """
import json, sys
job = json.loads(sys.argv[1])
sys.path[:] = job["search_path"]
from fourfold.convert.child import main
main(job)
"""
RESULT, WORDS, LOG = "result", "words", "log"  # files of the child
MOST_WORDS, MOST_LINES = 600, 4


def run_converter(converter: Converter, source: ModelSource, limit: float) -> bytes:
    """What a converter makes of a model; ModelError with its own words where it fails."""
    with tempfile.TemporaryDirectory(prefix="fourfold-") as folder:
        path = _path_for(converter, source, folder)
        job = {
            "script": converter.scripts[0],
            "path": path,
            "folder": folder,
            "search_path": [os.path.abspath(place) for place in sys.path],
        }
        code = _run(job, limit, os.path.join(folder, LOG))
        result = os.path.join(folder, RESULT)
        if code == 0 and os.path.isfile(result):
            with open(result, "rb") as file:
                return file.read()
        what = f"{converter.name} cannot convert {source.title} to {converter.target}"
        if code is None:
            why = f"it was not done after {limit:g} seconds"
            fix = "give it more with FOURFOLD_CONVERSION_LIMIT, or convert the model yourself"
            raise ModelError(what, why, fix)
        fix = f"change the model so that {converter.name} converts it, or pass a file of "
        raise ModelError(what, _last_words(folder, code), f"{fix}{converter.target}")


def _path_for(converter: Converter, source: ModelSource, folder: str) -> str:
    """Where the converter finds the model, under a name that it takes."""
    suffix = converter.suffix(source)
    if source.path is not None and (source.is_folder or source.path.endswith(suffix)):
        return os.path.abspath(source.path)
    path = os.path.join(folder, f"{source.name}{suffix}")
    if source.path is not None:
        with suppress(OSError):  # not everywhere a link may be made
            os.symlink(os.path.abspath(source.path), path)
            return path
    with open(path, "wb") as file:
        file.write(source.content)
    return path


def _run(job: dict[str, Any], limit: float, log: str) -> int | None:
    """The exit status of a child; None where it was not done in time."""
    with open(log, "wb") as output:
        process = _start(job, output)
        try:
            return process.wait(limit)
        except subprocess.TimeoutExpired:
            return None
        finally:  # after Ctrl-C, too
            _end(process)


def _start(job: dict[str, Any], output: IO[bytes]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-I", "-c", START, json.dumps(job)],
        stdin=subprocess.PIPE,  # which ends when we do, and so does the child
        stdout=output,
        stderr=output,
        start_new_session=True,  # Ctrl-C is ours; and what it starts can be ended with it
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    """No child of it is left."""
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
    """What the converter said at last: as an error, or in what it printed before it died."""
    for name in (WORDS, LOG):
        with suppress(OSError), open(os.path.join(folder, name), errors="replace") as file:
            lines = [line.strip() for line in file.read().splitlines() if line.strip()]
            if lines:
                return " ".join(lines[-MOST_LINES:])[-MOST_WORDS:]
    return f"it ended with {code} and said nothing"
