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

from tables import cases

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
    usage = dict(prompt_tokens=prompt_tokens, completion_tokens=10, total_tokens=prompt_tokens + 10)
    usage["prompt_tokens_details"] = dict(cached_tokens=40)
    choices = [dict(index=0, message=message(said), finish_reason=finish)]
    return dict(id="c", object="chat.completion", created=0, model="m", choices=choices, usage=usage)


def fault(status, text="busy", code=None, **headers):
    return ("fault", status, headers, dict(error=dict(message=text, code=code, type="t", param=None)))


# What real servers say; each entry is a line of a script
FAULTS = {name: fault(*said, **headers) for name, *said, headers in cases("fake_server_faults")}
FAULTS |= dict(garbage=b"<html><title>Gateway</title></html>", half=b'{"id": "c", "choices": [{"index": 0, "mess')


def reasoned(said, reasoning="First I look at the tables.", field="reasoning_content"):
    "A message with the model's reasoning, in the field that a server calls it by."
    return message(said) | {field: reasoning}


def slow(line, seconds):
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
        deltas.append(dict(tool_calls=[dict(index=i, id=call["id"], type="function", function=head)]))
        pieces = (text[k : k + 8] for k in range(0, len(text), 8))
        deltas += [dict(tool_calls=[dict(index=i, function=dict(arguments=piece))]) for piece in pieces]
    for delta in deltas:
        yield base | dict(choices=[dict(index=0, delta=delta, finish_reason=None)])
    yield base | dict(choices=[dict(index=0, delta={}, finish_reason=choice["finish_reason"])])
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
        self.script, self.bodies, self.headers, self.paths = script, [], [], []
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
                self.send_payload(200, {}, models)

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with outer.lock:
                    outer.bodies.append(body)
                    outer.paths.append(self.path)
                    n = len(outer.bodies)
                    outer.headers.append({k.lower(): v for k, v in self.headers.items()})
                    outer.times.append(time.monotonic())
                    outer.in_flight += 1
                    outer.most_in_flight = max(outer.in_flight, outer.most_in_flight)
                try:
                    line = outer.script(body) if callable(outer.script) else outer.script[min(n, len(outer.script)) - 1]
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
                is_fault = isinstance(line, tuple) and line[0] == "fault"  # tables give calls as tuples too
                if not (is_fault or isinstance(line, bytes) or isinstance(line, dict) and "role" not in line):
                    line = completion(line, prompt_tokens=100 if body.get("tools") else 40)
                status, headers, payload = line[1:] if is_fault else (200, {}, line)
                if body.get("stream") and status == 200 and isinstance(payload, dict):
                    return self.send_stream(payload)
                return self.send_payload(status, headers, payload)

            def send_head(self, status, kind, **headers):
                self.send_response(status)
                for k, v in (dict(content_type=kind) | headers).items():
                    self.send_header(k.replace("_", "-"), v)
                self.end_headers()

            def send_payload(self, status, headers, payload):
                is_json = isinstance(payload, dict)
                data = json.dumps(payload).encode() if is_json else payload
                kind = "application/json" if is_json else "text/html"
                self.send_head(status, kind, **headers, content_length=str(len(data)))
                self.wfile.write(data)

            def send_stream(self, answer):
                self.send_head(200, "text/event-stream", connection="close")
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
        threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True).start()

    def close(self):
        http, self.http = self.http, None
        if http:
            http.shutdown()
            http.server_close()

    @property
    def calls(self):
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
