"A server that speaks the chat completions protocol and answers by a script."

import contextlib
import json
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SLEEP = time.sleep  # tests may replace it


def message(said):
    "A message in the form of the interface: text, a list of calls, or a dictionary as it is."
    if isinstance(said, dict):
        return said
    if isinstance(said, str):
        return dict(role="assistant", content=said)
    calls = [
        dict(
            id=f"x{i}",
            type="function",
            function=dict(name=n, arguments=a if isinstance(a, str) else json.dumps(a)),
        )
        for i, (n, a) in enumerate(said)
    ]
    return dict(role="assistant", content=None, tool_calls=calls)


def completion(said, finish="stop"):
    usage = dict(
        prompt_tokens=100,
        completion_tokens=10,
        total_tokens=110,
        prompt_tokens_details=dict(cached_tokens=40),
    )
    return dict(
        id="c",
        object="chat.completion",
        created=0,
        model="m",
        choices=[dict(index=0, message=message(said), finish_reason=finish)],
        usage=usage,
    )


def fault(status, text="busy", code=None, **headers):
    return (
        "fault",
        status,
        headers,
        dict(error=dict(message=text, code=code, type="t", param=None)),
    )


class FakeServer:
    "Answers each request with the next line of a script, or with what `script(body)` returns."

    def __init__(self, script):
        self.script, self.bodies, self.headers = script, [], []
        self.lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *args):
                pass

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with outer.lock:
                    n = len(outer.bodies)
                    outer.bodies.append(body)
                    outer.headers.append({k.lower(): v for k, v in self.headers.items()})
                line = (
                    outer.script(body)
                    if callable(outer.script)
                    else outer.script[min(n, len(outer.script) - 1)]
                )
                with contextlib.suppress(OSError):  # the client did not wait
                    self.answer(line)

            def answer(self, line):
                if line == "drop":
                    return self.connection.shutdown(socket.SHUT_RDWR)
                if line == "hang":
                    return SLEEP(4)
                status, headers, payload = (
                    line[1:]
                    if isinstance(line, tuple) and line[0] == "fault"
                    else (
                        200,
                        {},
                        line
                        if isinstance(line, bytes) or isinstance(line, dict) and "role" not in line
                        else completion(line),
                    )
                )
                data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
                self.send_response(status)
                self.send_header(
                    "Content-Type",
                    "text/html" if isinstance(payload, bytes) else "application/json",
                )
                for k, v in headers.items():
                    self.send_header(k.replace("_", "-"), v)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
                return None

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}/v1"
        threading.Thread(
            target=self.http.serve_forever, kwargs=dict(poll_interval=0.02), daemon=True
        ).start()

    def __enter__(self):
        return self

    def __exit__(self, *args):
        self.http.shutdown()
        self.http.server_close()
