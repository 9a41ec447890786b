"""A server of a folder for this machine alone: with ranges, and types that browsers take.

Browsers load modules only from a server, and give WebGPU only to pages of https or of localhost.
"""

from __future__ import annotations

import os
import re
import sys
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

from fourfold.errors import InputError

HOST = "127.0.0.1"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".wasm": "application/wasm",
    ".fourfold": "application/octet-stream",
    ".tflite": "application/octet-stream",
    ".onnx": "application/octet-stream",
    "": "application/octet-stream",
}
_RANGE = re.compile(r"bytes=(\d*)-(\d*)")


def byte_range(header: str, size: int) -> range | None:
    """The bytes that a Range header asks for; None where it asks for nothing that can be given.

    Of several ranges none is given: whoever asks for them takes the whole file, too.
    """
    match = _RANGE.fullmatch(header.strip())
    if match is None or match[0] == "bytes=-":
        return None
    first, last = match.groups()
    if not first:
        return range(max(0, size - int(last)), size) or None
    return range(int(first), min(size, int(last) + 1 if last else size)) or None


class FolderHandler(SimpleHTTPRequestHandler):
    """Files of a folder, and parts of them."""

    protocol_version = "HTTP/1.1"
    extensions_map = TYPES

    def send_head(self) -> Any:
        """The file that is asked for, or a part of it, behind headers that say which."""
        asked = self.headers.get("Range", "")
        path = self.translate_path(self.path)
        if not _RANGE.fullmatch(asked.strip()) or not os.path.isfile(path):
            return super().send_head()
        size = os.path.getsize(path)
        wanted = byte_range(asked, size)
        if wanted is None:
            self.send_response(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE)
            self.send_header("Content-Range", f"bytes */{size}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return None
        return self._send_part(path, wanted, size)

    def _send_part(self, path: str, wanted: range, size: int) -> BinaryIO | None:
        try:
            with open(path, "rb") as file:
                file.seek(wanted.start)
                content = file.read(len(wanted))
                written = os.fstat(file.fileno()).st_mtime
        except OSError:
            self.send_error(HTTPStatus.NOT_FOUND)
            return None
        self.send_response(HTTPStatus.PARTIAL_CONTENT)
        self.send_header("Content-Type", self.guess_type(path))
        self.send_header("Content-Range", f"bytes {wanted.start}-{wanted.stop - 1}/{size}")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Last-Modified", self.date_time_string(written))
        self.end_headers()
        return BytesIO(content)

    def end_headers(self) -> None:
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Cache-Control", "no-cache")  # who tries things changes them
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Nobody wants to read each request."""


class FolderServer(ThreadingHTTPServer):
    """Serves a folder until it is closed. Port 0 is any that is free."""

    daemon_threads = True  # a browser keeps connections open

    def __init__(self, folder: Path, port: int = 0) -> None:
        if not folder.is_dir():
            what, why = f"'{folder}' cannot be served", "it is no folder"
            raise InputError(what, why, "make one with 'fourfold web MODEL -o FOLDER'")
        handler = partial(FolderHandler, directory=str(folder))
        try:
            super().__init__((HOST, port), handler)
        except OSError as error:
            what = f"port {port} cannot be served from"
            raise InputError(what, str(error), "choose another one with --port") from error

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that went away in the middle of something is no fault."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)

    @property
    def address(self) -> str:
        return f"http://localhost:{self.server_port}/"
