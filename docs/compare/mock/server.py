#!/usr/bin/env python3
"""A scripted model behind the Chat Completions API: POST /v1/chat/completions, streamed or not.

The conversation is the script. If the last message is a user message that contains

    CALL name {"json": "arguments"}

the reply is that tool call. If it is a user message that contains "Call it again", as everruns
sends it after an approval, the reply is the last call once more. If any user message contains

    AGAIN name {"json": "arguments"}

the reply is that tool call, also after its result. If the request allows no calls, or without such
a message, the reply is the text "done". If the last message contains

    HOLD milliseconds input-tokens output-tokens

the reply comes after that time and reports those tokens. Every request is appended to the log file
as one line of JSON before it is answered: its body, its time, and how many were in progress then.

    server.py LOG_FILE        prints its port on the first line and serves until it is killed
"""

import json
import re
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CALL = re.compile(r"CALL (\w+) (\{[^}]*\})")
AGAIN = re.compile(r"AGAIN (\w+) (\{[^}]*\})")
HOLD = re.compile(r"HOLD (\d+) (\d+) (\d+)")

lock = threading.Lock()
count = 0
in_progress = 0
log = open(sys.argv[1], "a", encoding="utf-8")


def text_of(message):
    content = message.get("content") or ""
    if isinstance(content, list):
        content = "".join(part.get("text") or "" for part in content)
    return content


def reply_to(body, number):
    """Returns the message with which the model answers, and its finish reason."""
    last = body["messages"][-1]
    script = text_of(last) if last["role"] == "user" else ""
    if "Call it again" in script:
        script = " ".join(text_of(m) for m in body["messages"] if m["role"] == "user")
    users = " ".join(text_of(m) for m in body["messages"] if m["role"] == "user")
    may_call = body.get("tools") and body.get("tool_choice") != "none"
    call = (CALL.search(script) or AGAIN.search(users)) if may_call else None
    if not call:
        return {"role": "assistant", "content": "done"}, "stop"
    function = {"name": call[1], "arguments": call[2]}
    calls = [{"id": f"call_{number}", "type": "function", "function": function}]
    return {"role": "assistant", "content": None, "tool_calls": calls}, "tool_calls"


def work_of(body):
    """Returns the seconds that the reply to a request takes, and its usage."""
    held = HOLD.search(text_of(body["messages"][-1]))
    ms, tokens_in, tokens_out = (int(figure) for figure in held.groups()) if held else (0, 10, 5)
    usage = {"prompt_tokens": tokens_in, "completion_tokens": tokens_out}
    return ms / 1e3, {**usage, "total_tokens": tokens_in + tokens_out}


def deltas(message):
    """Splits a message as a server does: the arguments of a call come in two parts."""
    yield {"role": "assistant", "content": ""}
    for index, call in enumerate(message.get("tool_calls") or []):
        arguments = call["function"]["arguments"]
        half = len(arguments) // 2
        first = {"name": call["function"]["name"], "arguments": arguments[:half]}
        yield {"tool_calls": [{**call, "index": index, "function": first}]}
        rest = {"arguments": arguments[half:]}
        yield {"tool_calls": [{"index": index, "function": rest}]}
    if message["content"]:
        yield {"content": message["content"]}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 65536
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def send(self, kind, data):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()

    def do_GET(self):
        models = {"object": "list", "data": [{"id": "mock", "object": "model"}]}
        self.send("application/json", json.dumps(models).encode())

    def do_POST(self):
        global count, in_progress
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        body = json.loads(raw)
        with lock:
            count += 1
            in_progress += 1
            number = count
            line = {"path": self.path, "body": body, "time": time.time()}
            line["in_progress"] = in_progress
            log.write(json.dumps(line) + "\n")
            log.flush()
        seconds, usage = work_of(body) if body.get("messages") else (0, {})
        time.sleep(seconds)
        with lock:
            in_progress -= 1  # before the reply, after which the client may send the next request
        if not self.path.endswith("/chat/completions"):
            self.send_error(404)
            return
        message, reason = reply_to(body, number)
        head = {"id": f"reply_{number}", "created": 1_760_000_000, "model": body["model"]}
        if not body.get("stream"):
            choices = [{"index": 0, "message": message, "finish_reason": reason}]
            whole = {**head, "object": "chat.completion", "choices": choices, "usage": usage}
            self.send("application/json", json.dumps(whole).encode())
            return
        head["object"] = "chat.completion.chunk"
        chunks = [
            {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
            for delta in deltas(message)
        ]
        chunks.append({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
        chunks.append({**head, "choices": [], "usage": usage})
        lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks] + ["data: [DONE]\n\n"]
        self.send("text/event-stream", "".join(lines).encode())


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256
    address_family = socket.AF_INET


if __name__ == "__main__":
    server = Server(("127.0.0.1", 0), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()
