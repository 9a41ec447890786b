"""A local web server for a folder, with range requests and the MIME types browsers require.

Browsers load modules only from a server, and offer WebGPU only to https or localhost pages.
"""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, BinaryIO

from fourfold.errors import InputError
from fourfold.plan.container import open_regular

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
HOSTS = ("localhost", HOST, "[::1]")
MAX_CONNECTIONS = 64  # a browser opens about six
IDLE_TIMEOUT_S = 30.0  # then a connection that sends or takes nothing is closed
CHUNK_BYTES = 1 << 20
_RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")
_LIST = re.compile(r"bytes=([0-9]*-[0-9]*\s*,\s*)+[0-9]*-[0-9]*")


def byte_range(header: str, size: int) -> range | None:
    """Return the bytes that a Range header requests; empty if the file does not have them.

    None for several ranges and for other units, for which clients accept the whole file. Raises
    ValueError for a malformed header.
    """
    header = header.strip()
    if not header.startswith("bytes=") or _LIST.fullmatch(header):
        return None
    match = _RANGE.fullmatch(header)
    if match is None or match[0] == "bytes=-":
        raise ValueError("malformed range")
    first, last = match.groups()
    if not first:
        return range(max(0, size - int(last)), size)
    if last and int(last) < int(first):
        raise ValueError("a range that ends before it starts")
    return range(int(first), min(size, int(last) + 1 if last else size))


class FolderHandler(SimpleHTTPRequestHandler):
    """Serves files of a folder, and byte ranges of them, to pages of this machine."""

    protocol_version = "HTTP/1.1"
    extensions_map = TYPES
    timeout = IDLE_TIMEOUT_S
    _part: range | None = None  # the requested bytes of the file that is being sent

    def send_head(self) -> Any:
        """Send headers and return the requested file, or None if there is nothing to send."""
        host = re.sub(r":[0-9]*$", "", self.headers.get("Host", "")).lower()
        if host not in HOSTS:  # a page of another site, whose name resolves to this machine
            self.send_error(HTTPStatus.FORBIDDEN, "Use the name localhost")
            return None
        self._part = None
        try:
            path = self.translate_path(self.path)
            os.fsencode(path)
            if "\0" in path:
                raise ValueError("a NUL byte in the path")
            if not self._may_be_served(path):
                self.send_error(HTTPStatus.NOT_FOUND)
                return None
            part = None
            if os.path.isfile(path):
                part = byte_range(self.headers.get("Range", ""), os.path.getsize(path))
        except ValueError:
            self.send_error(HTTPStatus.BAD_REQUEST)
            return None
        return super().send_head() if part is None else self._send_part(path, part)

    def _may_be_served(self, path: str) -> bool:
        """Return whether a path, and the page of a folder, are in the served folder after resolving
        links, and are regular files or folders.
        """
        root = os.path.join(os.path.realpath(self.directory), "")
        pages = [os.path.join(path, name) for name in ("index.html", "index.htm")]
        return all(
            os.path.join(os.path.realpath(one), "").startswith(root)
            and (os.path.isfile(one) or os.path.isdir(one))
            for one in (path, *filter(os.path.lexists, pages))
        )

    def _send_part(self, path: str, part: range) -> BinaryIO | None:
        try:
            file = open_regular(path)
        except OSError:
            self.send_error(HTTPStatus.NOT_FOUND)
            return None
        state = os.fstat(file.fileno())
        if not part:
            file.close()
            self.send_response(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE)
            self.send_header("Content-Range", f"bytes */{state.st_size}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return None
        self.send_response(HTTPStatus.PARTIAL_CONTENT)
        self.send_header("Content-Type", self.guess_type(path))
        self.send_header("Content-Range", f"bytes {part.start}-{part.stop - 1}/{state.st_size}")
        self.send_header("Content-Length", str(len(part)))
        self.send_header("Last-Modified", self.date_time_string(state.st_mtime))
        self.end_headers()
        file.seek(part.start)
        self._part = part
        return file

    def copyfile(self, source: Any, outputfile: Any) -> None:
        """Send a file, or the requested part of it, piece by piece."""
        if self._part is None:
            super().copyfile(source, outputfile)
            return
        left = len(self._part)
        while left and (piece := source.read(min(left, CHUNK_BYTES))):
            outputfile.write(piece)
            left -= len(piece)
        self.close_connection = self.close_connection or left > 0  # the file has become shorter

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
        self._connections: set[Any] = set()
        try:
            super().__init__((HOST, port), handler)
        except OSError as error:
            what = f"port {port} cannot be used"
            raise InputError(what, str(error), "choose another port with --port") from error

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Return whether a connection is accepted: there is a limit of open ones."""
        if len(self._connections) >= MAX_CONNECTIONS:
            with suppress(OSError):
                request.sendall(b"HTTP/1.1 503 Too many connections\r\nConnection: close\r\n\r\n")
            return False
        self._connections.add(request)
        return True

    def shutdown_request(self, request: Any) -> None:
        """Close a connection, which makes room for another one."""
        self._connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore browsers that close a connection early."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)

    @property
    def address(self) -> str:
        return f"http://localhost:{self.server_port}/"
