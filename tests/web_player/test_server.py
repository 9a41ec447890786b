"""The development server serves files and ranges with their types, and nothing outside
its folder.
"""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from fourfold.cli import main
from fourfold.errors import InputError
from fourfold.export.web.server import FolderServer, byte_range

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
    server: FolderServer, path: str, wanted: str | None = None
) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    try:
        connection.request("GET", path, headers={"Range": wanted} if wanted else {})
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


@pytest.mark.parametrize("text", ["bytes=0-1,4-5", "lines=1-2", "bytes=-"])
def test_other_range_requests_get_the_whole_file(server: FolderServer, text: str) -> None:
    assert byte_range(text, len(CONTENT)) is None
    status, _, body = ask(server, "/model.fourfold", text if text != "bytes=-" else None)
    assert (status, body) == (200, CONTENT)


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
