"""The development server serves files and ranges with their types, and nothing outside
its folder.
"""

from __future__ import annotations

import http.client
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from fourfold.cli import main
from fourfold.errors import InputError
from fourfold.export.web.server import FolderHandler, FolderServer, byte_range

CONTENT = bytes(range(256)) * 4


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FolderServer]:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "model.fourfold").write_bytes(CONTENT)
    (folder / "page.js").write_text("export {};")
    (tmp_path / "secret.txt").write_text("secret")
    with FolderServer(folder) as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def ask(
    server: FolderServer, path: str, wanted: str | None = None, host: str = "localhost"
) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    headers = {"Host": host} | ({"Range": wanted} if wanted else {})
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        headers = {name.title(): value for name, value in answer.getheaders()}
        return answer.status, headers, answer.read()
    finally:
        connection.close()


def test_a_whole_file(server: FolderServer) -> None:
    status, headers, body = ask(server, "/model.fourfold")
    assert (status, body) == (200, CONTENT)
    assert headers["Content-Type"] == "application/octet-stream"
    assert headers["Accept-Ranges"] == "bytes"


def test_types_that_browsers_take_as_modules(server: FolderServer) -> None:
    assert ask(server, "/page.js")[1]["Content-Type"].startswith("text/javascript")


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [("bytes=8-15", CONTENT[8:16]), ("bytes=1000-", CONTENT[1000:]), ("bytes=-7", CONTENT[-7:])],
)
def test_a_range(server: FolderServer, wanted: str, expected: bytes) -> None:
    status, headers, body = ask(server, "/model.fourfold", wanted)
    assert (status, body) == (206, expected)
    start = CONTENT.rindex(expected) if wanted != "bytes=8-15" else 8
    last = start + len(expected) - 1
    assert headers["Content-Range"] == f"bytes {start}-{last}/{len(CONTENT)}"


def test_a_range_beyond_the_end_is_refused(server: FolderServer) -> None:
    status, headers, _ = ask(server, "/model.fourfold", "bytes=5000-6000")
    assert status == 416
    assert headers["Content-Range"] == f"bytes */{len(CONTENT)}"


@pytest.mark.parametrize("text", ["bytes=0-1,4-5", "lines=1-2"])
def test_other_range_requests_get_the_whole_file(server: FolderServer, text: str) -> None:
    assert byte_range(text, len(CONTENT)) is None
    status, _, body = ask(server, "/model.fourfold", text)
    assert (status, body) == (200, CONTENT)


@pytest.mark.parametrize(
    "text", ["bytes=-", "bytes=x-y", "bytes=5-2", "bytes=0", "bytes=", f"bytes={'9' * 5000}-"]
)
def test_a_malformed_range_is_a_bad_request(server: FolderServer, text: str) -> None:
    assert ask(server, "/model.fourfold", text)[0] == 400


@pytest.mark.parametrize("path", ["/a%00b", "/%00", "/model.fourfold%00", "/%ed%a0%80"])
@pytest.mark.parametrize("wanted", [None, "bytes=0-3"])
def test_a_path_that_no_file_can_have_is_a_bad_request(
    server: FolderServer, path: str, wanted: str | None
) -> None:
    assert ask(server, path, wanted)[0] == 400


@pytest.mark.parametrize("host", ["localhost", "localhost:1", "127.0.0.1:80", "[::1]", "LocalHost"])
def test_names_of_this_machine_are_served(server: FolderServer, host: str) -> None:
    assert ask(server, "/page.js", host=host)[0] == 200


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example:8000", "", "127.0.0.1.x"])
@pytest.mark.parametrize("path", ["/page.js", "/", "/absent"])
def test_other_names_are_not_served(server: FolderServer, path: str, host: str) -> None:
    """A page of another site may have its name resolve to this machine and ask for files."""
    status, _, body = ask(server, path, host=host)
    assert status == 403
    assert b"export" not in body


@pytest.mark.parametrize("wanted", [None, "bytes=0-3"])
def test_links_out_of_the_folder_are_not_served(
    server: FolderServer, tmp_path: Path, wanted: str | None
) -> None:
    folder = tmp_path / "folder"
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "up").symlink_to(tmp_path, target_is_directory=True)
    (folder / "page").mkdir()
    (folder / "page" / "index.html").symlink_to(tmp_path / "secret.txt")
    (folder / "inside.js").symlink_to(folder / "page.js")
    for path in ("/link.txt", "/up/secret.txt", "/up/", "/page/"):
        assert ask(server, path, wanted)[0] == 404
    assert ask(server, "/inside.js", wanted)[0] in (200, 206)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
@pytest.mark.parametrize("wanted", [None, "bytes=0-3"])
def test_pipes_are_not_served(server: FolderServer, tmp_path: Path, wanted: str | None) -> None:
    os.mkfifo(tmp_path / "folder" / "pipe")
    assert ask(server, "/pipe", wanted)[0] == 404


def test_a_range_is_read_in_pieces(server: FolderServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fourfold.export.web.server.CHUNK_BYTES", 100)
    assert ask(server, "/model.fourfold", "bytes=1-")[2] == CONTENT[1:]


def test_connections_are_limited_and_released(
    server: FolderServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fourfold.export.web.server.MAX_CONNECTIONS", 2)
    address = ("127.0.0.1", server.server_port)
    first, second = (socket.create_connection(address, timeout=10) for _ in range(2))
    with first, second, socket.create_connection(address, timeout=10) as third:
        assert third.recv(100).startswith(b"HTTP/1.1 503 ")
    while ask(server, "/page.js")[0] == 503:
        pass  # the server notices a closed connection in a thread of its own
    assert ask(server, "/page.js")[0] == 200


def test_idle_connections_are_closed(server: FolderServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FolderHandler, "timeout", 0.01)
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=10) as silent:
        assert silent.recv(1) == b""


@pytest.mark.parametrize("path", ["/../secret.txt", "/%2e%2e/secret.txt", "//etc/passwd"])
@pytest.mark.parametrize("wanted", [None, "bytes=0-3"])
def test_nothing_outside_the_folder(server: FolderServer, path: str, wanted: str | None) -> None:
    assert ask(server, path, wanted)[0] == 404


def test_only_this_machine_is_served(server: FolderServer) -> None:
    assert server.server_address[0] == "127.0.0.1"
    assert server.address == f"http://localhost:{server.server_port}/"


def test_a_port_that_is_taken(server: FolderServer, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--port"):
        FolderServer(tmp_path, server.server_port)


def test_the_command_reports_a_missing_folder(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["serve", str(tmp_path / "absent")])
    assert done.exit_code == 2
    assert "it is not a folder" in done.output
