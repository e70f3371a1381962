"""A server that speaks the chat completions protocol and answers by a script.

A script is a list of lines (the last one repeats) or a function of the request's body. A line is a text, a list of
(tool, arguments), a message, a whole answer, bytes (garbage), "drop", "hang", `fault(...)` or `slow(...)`.
"""

import contextlib
import json
import socket
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SLEEP = time.sleep  # tests may replace it


def message(said):
    "A message in the form of the interface: text, a list of calls, or a dictionary as it is."
    if isinstance(said, dict):
        return said
    if isinstance(said, str):
        return dict(role="assistant", content=said)
    calls = [
        dict(id=f"x{i}", type="function", function=dict(name=n, arguments=a if isinstance(a, str) else json.dumps(a)))
        for i, (n, a) in enumerate(said)
    ]
    return dict(role="assistant", content=None, tool_calls=calls)


def completion(said, finish="stop", prompt_tokens=100):
    usage = dict(
        prompt_tokens=prompt_tokens,
        completion_tokens=10,
        total_tokens=prompt_tokens + 10,
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
    return ("fault", status, headers, dict(error=dict(message=text, code=code, type="t", param=None)))


# What real servers say; each entry is a line of a script
FAULTS = dict(
    key=fault(401, "Incorrect API key provided: sk-***.", "invalid_api_key"),
    forbidden=fault(403, "Your project does not have access to this model.", "model_not_found"),
    model=fault(404, "The model `m` does not exist.", "model_not_found"),
    quota=fault(429, "You exceeded your current quota, check your plan.", "insufficient_quota"),
    rate_limit=fault(429, "Rate limit reached for requests.", "rate_limit_exceeded", retry_after="0"),
    server=fault(500, "The server had an error."),
    busy=fault(503, "The engine is overloaded."),
    max_tokens=fault(
        400,
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
        "unsupported_parameter",
    ),
    no_tools=fault(400, '"auto" tool choice requires --enable-auto-tool-choice to be set'),
    garbage=b"<html><title>Gateway</title></html>",
    half=b'{"id": "c", "choices": [{"index": 0, "mess',
)


def reasoned(said, reasoning="First I look at the tables.", field="reasoning_content"):
    "A message with the model's reasoning, in the field that a server calls it by."
    return message(said) | {field: reasoning}


def slow(line, seconds):
    "A line that comes after some seconds."
    return ("slow", seconds, line)


def chunks(answer):
    "The parts of a streamed completion: a role, words and arguments in pieces, the reason to stop, usage."
    base = {k: answer[k] for k in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    choice = answer["choices"][0]
    said = choice["message"]
    deltas = [dict(role="assistant", content="")]
    for field in ("reasoning_content", "reasoning", "content"):
        words = (said.get(field) or "").split(" ")
        deltas += [{field: w if i == 0 else f" {w}"} for i, w in enumerate(words) if w or i]
    for i, call in enumerate(said.get("tool_calls") or ()):
        text = call["function"]["arguments"]
        head = dict(name=call["function"]["name"], arguments="")
        start = dict(index=i, id=call["id"], type="function", function=head)
        deltas.append(dict(tool_calls=[start]))
        for k in range(0, len(text), 8):
            deltas.append(dict(tool_calls=[dict(index=i, function=dict(arguments=text[k : k + 8]))]))
    for delta in deltas:
        yield base | dict(choices=[dict(index=0, delta=delta, finish_reason=None)])
    last = dict(index=0, delta={}, finish_reason=choice["finish_reason"])
    yield base | dict(choices=[last])
    yield base | dict(choices=[], usage=answer["usage"])


def share_of_faults(script, share, line=FAULTS["busy"]):
    "A script that answers an evenly spread share of all requests with a fault."
    lock, count = threading.Lock(), Counter()

    def answer(body):
        with lock:
            count["all"] += 1
            is_bad = int(count["all"] * share) > int((count["all"] - 1) * share)
        return line if is_bad else script(body)

    return answer


def player(questions, wrong=()):
    "A script that plays right: the gold query, then what it showed; `wrong`: ids of questions in which it errs."
    from sql_env.play.chat import harmless_text
    from sql_env.policies.baselines import answer_from_result

    golds = {harmless_text(q.question_text): q for q in questions}

    def answer(body):
        messages = body["messages"]
        start = max(i for i, m in enumerate(messages) if m["role"] == "user")
        text = messages[start]["content"]
        found = max((t for t in golds if t in text), key=len, default=None)
        if found is None:
            return [("describe", dict(table_name="visit"))]  # someone asks whether the server is there
        results = [m["content"] for m in messages[start:] if m["role"] == "tool"]
        if not results:
            return [("query", dict(sql=golds[found].gold_sql))]
        if golds[found].question_id in wrong:
            return [("answer", dict(value="no idea"))]
        return [("answer", dict(value=answer_from_result(results[-1])))]

    return answer


class FakeServer:
    "Answers each request with the next line of a script, or with what `script(body)` returns."

    def __init__(self, script):
        self.script, self.bodies, self.headers = script, [], []
        self.times, self.in_flight, self.most_in_flight = [], 0, 0
        self.lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"  # connections stay open, as at real servers
            disable_nagle_algorithm = True

            def log_message(self, *args):
                pass

            def do_GET(self):
                models = dict(object="list", data=[dict(id="m", object="model", created=0)])
                self.send_payload(200, {}, json.dumps(models).encode(), "application/json")

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with outer.lock:
                    n = len(outer.bodies)
                    outer.bodies.append(body)
                    outer.headers.append({k.lower(): v for k, v in self.headers.items()})
                    outer.times.append(time.monotonic())
                    outer.in_flight += 1
                    outer.most_in_flight = max(outer.in_flight, outer.most_in_flight)
                try:
                    line = outer.script(body) if callable(outer.script) else outer.script[min(n, len(outer.script) - 1)]
                    while isinstance(line, tuple) and line[0] == "slow":
                        SLEEP(line[1])
                        line = line[2]
                    with contextlib.suppress(OSError):  # the client did not wait
                        self.answer(line, body)
                finally:
                    with outer.lock:
                        outer.in_flight -= 1

            def answer(self, line, body):
                if line in ("drop", "hang"):
                    self.close_connection = True
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
                        else completion(line, prompt_tokens=100 if body.get("tools") else 40),
                    )
                )
                if body.get("stream") and status == 200 and isinstance(payload, dict):
                    return self.send_stream(payload)
                is_json = isinstance(payload, dict)
                data = json.dumps(payload).encode() if is_json else payload
                kind = "application/json" if is_json else "text/html"
                return self.send_payload(status, headers, data, kind)

            def send_payload(self, status, headers, data, kind):
                self.send_response(status)
                self.send_header("Content-Type", kind)
                for k, v in headers.items():
                    self.send_header(k.replace("_", "-"), v)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def send_stream(self, answer):
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Connection", "close")
                self.end_headers()
                for chunk in chunks(answer):
                    self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
                self.wfile.write(b"data: [DONE]\n\n")
                self.close_connection = True

        class Server(ThreadingHTTPServer):
            daemon_threads, request_queue_size = True, 128

            def handle_error(self, request, address):
                pass  # a client that went away

        self.listen = lambda port=0: self._listen(Server(("127.0.0.1", port), Handler))
        self.listen()

    def _listen(self, http):
        self.http, self.port = http, http.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/v1"
        run = dict(target=http.serve_forever, kwargs=dict(poll_interval=0.02))
        threading.Thread(**run, daemon=True).start()

    def close(self):
        "Be gone; `listen` comes back."
        http, self.http = self.http, None
        if http:
            http.shutdown()
            http.server_close()

    @property
    def calls(self):
        "Number of requests so far."
        return len(self.bodies)

    def __enter__(self):
        return self

    def __exit__(self, *args):
        self.close()


if __name__ == "__main__":  # a server of its own process, that plays the bundled questions right
    from sql_env.sources.loading import load

    server = FakeServer(player(load("bundled")))
    print(server.url, flush=True)
    threading.Event().wait()
