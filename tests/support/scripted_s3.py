"""One answer to everything, worded as S3 would: for what the real server cannot be made to say. It keeps nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class ScriptedS3:
    """`code` empty means success without content."""

    def __init__(self, status: int, code: str) -> None:
        self.answer_with(status, code)
        self.requests: list[str] = []
        script = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _give_answer(self) -> None:
                script.requests.append(self.command)
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                status, body = script._answer
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            def __getattr__(self, name: str) -> Callable[[], None]:
                if name.startswith("do_"):
                    return self._give_answer
                raise AttributeError(name)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self.endpoint_url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def answer_with(self, status: int, code: str) -> None:
        body = f"<Error><Code>{code}</Code><Message>because of the script</Message></Error>" if code else ""
        self._answer = status, body.encode()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@contextmanager
def scripted_s3(status: int, code: str) -> Iterator[ScriptedS3]:
    server = ScriptedS3(status, code)
    server.start()
    try:
        yield server
    finally:
        server.stop()
