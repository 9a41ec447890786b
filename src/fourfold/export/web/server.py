"""A local web server for a folder, with range requests and the MIME types browsers require.

Browsers load modules only from a server, and offer WebGPU only to https or localhost pages.
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
    """Return the bytes that a Range header requests, or None if they cannot be served.

    Multiple ranges are not supported; clients then accept the whole file.
    """
    match = _RANGE.fullmatch(header.strip())
    if match is None or match[0] == "bytes=-":
        return None
    first, last = match.groups()
    if not first:
        return range(max(0, size - int(last)), size) or None
    return range(int(first), min(size, int(last) + 1 if last else size)) or None


class FolderHandler(SimpleHTTPRequestHandler):
    """Serves files of a folder, and byte ranges of them."""

    protocol_version = "HTTP/1.1"
    extensions_map = TYPES

    def send_head(self) -> Any:
        """Send headers and return the requested file or byte range."""
        header = self.headers.get("Range", "")
        path = self.translate_path(self.path)
        if not _RANGE.fullmatch(header.strip()) or not os.path.isfile(path):
            return super().send_head()
        size = os.path.getsize(path)
        requested = byte_range(header, size)
        if requested is None:
            self.send_response(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE)
            self.send_header("Content-Range", f"bytes */{size}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return None
        return self._send_part(path, requested, size)

    def _send_part(self, path: str, part: range, size: int) -> BinaryIO | None:
        try:
            with open(path, "rb") as file:
                file.seek(part.start)
                content = file.read(len(part))
                written = os.fstat(file.fileno()).st_mtime
        except OSError:
            self.send_error(HTTPStatus.NOT_FOUND)
            return None
        self.send_response(HTTPStatus.PARTIAL_CONTENT)
        self.send_header("Content-Type", self.guess_type(path))
        self.send_header("Content-Range", f"bytes {part.start}-{part.stop - 1}/{size}")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Last-Modified", self.date_time_string(written))
        self.end_headers()
        return BytesIO(content)

    def end_headers(self) -> None:
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Cache-Control", "no-cache")  # files change during development
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


class FolderServer(ThreadingHTTPServer):
    """Serves a folder until it is closed. Port 0 selects a free port."""

    daemon_threads = True  # a browser keeps connections open

    def __init__(self, folder: Path, port: int = 0) -> None:
        if not folder.is_dir():
            what, why = f"'{folder}' cannot be served", "it is not a folder"
            raise InputError(what, why, "create one with 'fourfold web MODEL -o FOLDER'")
        handler = partial(FolderHandler, directory=str(folder))
        try:
            super().__init__((HOST, port), handler)
        except OSError as error:
            what = f"port {port} cannot be used"
            raise InputError(what, str(error), "choose another port with --port") from error

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore browsers that close a connection early."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)

    @property
    def address(self) -> str:
        return f"http://localhost:{self.server_port}/"
