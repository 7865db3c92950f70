"""A Hugging Face Hub on this machine: one repository, the few requests that a download makes."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class SmallHub:
    """What the server serves and what it was asked."""

    files: dict[str, bytes]
    endpoint: str = ""
    status: int = 200
    """Anything else is the answer to every request."""
    error_code: str = ""
    """Value of the Hub's X-Error-Code header."""
    ranges: list[str] = field(default_factory=list)
    """Range headers of the requests for content."""
    requests: list[str] = field(default_factory=list)
    tokens: dict[str, set[str | None]] = field(default_factory=dict)
    """Authorization headers, by the host that got them."""


@contextmanager
def serve(folder: Path) -> Iterator[SmallHub]:
    """Serve a model folder as "org/tiny"."""
    hub = SmallHub({path.name: path.read_bytes() for path in folder.iterdir()})
    server = _Server(("127.0.0.1", 0), _Handler)
    server.hub = hub
    hub.endpoint = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Server(ThreadingHTTPServer):
    hub: SmallHub


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *args: object) -> None:
        """Stay silent."""

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def _answer(self, with_body: bool) -> None:
        hub = self.server.hub
        hub.requests.append(self.path)
        host = self.headers["Host"].split(":")[0]
        hub.tokens.setdefault(host, set()).add(self.headers.get("Authorization"))
        path = self.path.split("?")[0]
        name = path.rsplit("/", 1)[1]
        if hub.status != 200:
            self._send(hub.status, b"{}", with_body, {"X-Error-Code": hub.error_code})
        elif path.startswith("/api/models/org/tiny"):
            siblings = [{"rfilename": name, "size": len(data)} for name, data in hub.files.items()]
            described = {"id": "org/tiny", "sha": COMMIT, "siblings": siblings}
            self._send(200, json.dumps(described).encode(), with_body, {})
        elif path.startswith("/org/tiny/resolve/") and name.endswith(".safetensors"):
            self._send_elsewhere(name)
        elif path.startswith(("/org/tiny/resolve/", "/content/")) and name in hub.files:
            self._send_file(hub.files[name], with_body)
        else:
            self._send(404, b"{}", with_body, {"X-Error-Code": "RepoNotFound"})

    def _send_elsewhere(self, name: str) -> None:
        """Large files are on another host."""
        data = self.server.hub.files[name]
        headers = {
            "Location": f"http://localhost:{self.server.server_port}/content/{name}",
            "X-Linked-ETag": f'"{hashlib.sha256(data).hexdigest()}"',
            "X-Linked-Size": str(len(data)),
            "X-Repo-Commit": COMMIT,
        }
        self._send(302, b"", False, headers)

    def _send_file(self, data: bytes, with_body: bool) -> None:
        headers = {"ETag": f'"{hashlib.sha256(data).hexdigest()}"', "X-Repo-Commit": COMMIT}
        wanted = self.headers.get("Range")
        if not with_body or wanted is None:
            self._send(200, data, with_body, headers)
            return
        self.server.hub.ranges.append(wanted)
        start = int(wanted.removeprefix("bytes=").split("-")[0])
        headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        self._send(206, data[start:], with_body, headers)

    def _send(self, status: int, body: bytes, with_body: bool, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if with_body:
            try:
                self.wfile.write(body)
            except ConnectionError:
                # The client cancelled.
                self.close_connection = True
