#!/usr/bin/env python3
"""Usage: release/train.py BINARY

Uses BINARY as people do, with a scripted model server for each of the four wire formats: prompts on the command line, a
conversation in the terminal, and a server whose sessions have readers. A binary that was compiled with
`-Cprofile-generate` then leaves its profile where LLVM_PROFILE_FILE says. Needs nothing but Python 3.9.
"""

import http.client
import json
import os
import pathlib
import re
import select
import signal
import subprocess
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MODELS = {
    "openai/gpt-4.1-mini": "responses",
    "anthropic/claude-haiku-4-5": "anthropic",
    "google/gemini-2.5-flash": "gemini",
    "ollama/llama": "chat",
}
SESSIONS, TURNS = 12, 8  # of the server; two sessions at a time
TEXT = [word + " " for word in ("## Plan\n\n- *one* `step` after another;\n" * 8 + "```rust\nfn main() {}\n```\n").split(" ")]
CALLS = [
    ("read_file", {"path": "notes.md"}),
    ("search_files", {"pattern": "word", "path": "."}),
    ("list_directory", {"path": "."}),
]


def halves(text):
    return text[: len(text) // 2], text[len(text) // 2 :]


def chat(call, n):
    def chunk(delta, finish=None):
        return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
                "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    yield chunk({"role": "assistant", "content": ""})
    for word in TEXT if call is None else TEXT[:6]:
        yield chunk({"content": word})
    if call is not None:
        first, second = halves(json.dumps(call[1]))
        function = {"name": call[0], "arguments": first}
        yield chunk({"tool_calls": [{"index": 0, "id": f"call{n}", "type": "function", "function": function}]})
        yield chunk({"tool_calls": [{"index": 0, "function": {"arguments": second}}]})
    yield chunk({}, "stop" if call is None else "tool_calls")
    usage = {"prompt_tokens": 900, "completion_tokens": 60, "total_tokens": 960}
    yield {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [], "usage": usage}


def responses(call, n):
    def event(kind, **fields):
        return {"type": f"response.{kind}", **fields}

    text = "".join(TEXT if call is None else TEXT[:6])
    part = {"type": "output_text", "text": text, "annotations": []}
    message = {"type": "message", "id": f"m{n}", "role": "assistant", "status": "completed", "content": [part]}
    yield event("created", response={"id": f"r{n}", "status": "in_progress", "model": "m", "output": []})
    yield event("output_item.added", output_index=0, item={**message, "status": "in_progress", "content": []})
    yield event("content_part.added", item_id=f"m{n}", output_index=0, content_index=0, part={**part, "text": ""})
    for word in TEXT if call is None else TEXT[:6]:
        yield event("output_text.delta", item_id=f"m{n}", output_index=0, content_index=0, delta=word)
    yield event("output_text.done", item_id=f"m{n}", output_index=0, content_index=0, text=text)
    yield event("output_item.done", output_index=0, item=message)
    output = [message]
    if call is not None:
        arguments = json.dumps(call[1])
        item = {"type": "function_call", "id": f"f{n}", "call_id": f"call{n}", "name": call[0],
                "arguments": arguments, "status": "completed"}
        yield event("output_item.added", output_index=1, item={**item, "arguments": "", "status": "in_progress"})
        for half in halves(arguments):
            yield event("function_call_arguments.delta", item_id=f"f{n}", output_index=1, delta=half)
        yield event("function_call_arguments.done", item_id=f"f{n}", output_index=1, arguments=arguments)
        yield event("output_item.done", output_index=1, item=item)
        output.append(item)
    usage = {"input_tokens": 900, "output_tokens": 60, "total_tokens": 960}
    yield event("completed", response={"id": f"r{n}", "status": "completed", "model": "m", "output": output, "usage": usage})


def anthropic(call, n):
    usage = {"input_tokens": 900, "output_tokens": 1}
    yield {"type": "message_start", "message": {"id": f"m{n}", "type": "message", "role": "assistant", "model": "m",
                                                "content": [], "stop_reason": None, "usage": usage}}
    yield {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    for word in TEXT if call is None else TEXT[:6]:
        yield {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": word}}
    yield {"type": "content_block_stop", "index": 0}
    if call is not None:
        block = {"type": "tool_use", "id": f"call{n}", "name": call[0], "input": {}}
        yield {"type": "content_block_start", "index": 1, "content_block": block}
        for half in halves(json.dumps(call[1])):
            yield {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": half}}
        yield {"type": "content_block_stop", "index": 1}
    yield {"type": "message_delta", "delta": {"stop_reason": "end_turn" if call is None else "tool_use"},
           "usage": {"output_tokens": 60}}
    yield {"type": "message_stop"}


def gemini(call, n):
    usage = {"promptTokenCount": 900, "candidatesTokenCount": 60, "totalTokenCount": 960}

    def chunk(part, **fields):
        candidate = {"content": {"role": "model", "parts": [part]}, "index": 0, **fields}
        return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "m", "responseId": f"r{n}"}

    for word in TEXT if call is None else TEXT[:6]:
        yield chunk({"text": word})
    last = {"text": ""} if call is None else {"functionCall": {"name": call[0], "args": call[1]}}
    yield chunk(last, finishReason="STOP")


class Model(BaseHTTPRequestHandler):
    """Answers with a tool call first, and with text once the call's result is there."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    served = 0

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        last = json.dumps((body.get("messages") or body.get("input") or body.get("contents"))[-1])
        has_result = any(word in last for word in ('"tool_result"', "function_call_output", "functionResponse", '"tool"'))
        n = Model.served = Model.served + 1
        call = None if has_result else CALLS[n % len(CALLS)]
        if "generateContent" in self.path or "GenerateContent" in self.path:
            events = gemini(call, n)
        elif self.path.endswith("/responses"):
            events = responses(call, n)
        else:
            events = anthropic(call, n) if self.path.endswith("/messages") else chat(call, n)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in events:
            name = f"event: {event['type']}\n" if "type" in event else ""
            self.chunk(f"{name}data: {json.dumps(event)}\n\n".encode())
        if self.path.endswith("/chat/completions"):
            self.chunk(b"data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))


def post(address, path, body):
    connection = http.client.HTTPConnection(address, timeout=120)
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    response = connection.getresponse()
    answer = response.read()
    if response.status >= 300:
        sys.exit(f"{path}: {response.status} {answer.decode()}")
    return json.loads(answer)


def converse(address, model):
    """Has a conversation while its events are read."""
    session = post(address, "/api/sessions", {"model": model})["id"]
    connection = http.client.HTTPConnection(address, timeout=120)
    connection.request("GET", f"/api/sessions/{session}/events")
    events = connection.getresponse()
    for turn in range(TURNS):
        post(address, f"/api/sessions/{session}/prompt", {"message": f"Do step {turn}, please."})
        for line in events:
            if b'"agent_end"' in line:
                break
        else:
            sys.exit(f"{model}: the stream of events has ended")
    connection.close()


def serve(binary, env, place):
    command = [binary, "serve", "--addr", "127.0.0.1:0", "--root", place / "work", "--store", place / "sessions.db"]
    server = subprocess.Popen(command, env=env, cwd=place / "work", stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    for line in server.stdout:
        found = re.search(rb"http://([0-9.:]+)", line)
        if found:
            break
    else:
        sys.exit("the server does not start")
    threading.Thread(target=server.stdout.read, daemon=True).start()
    address = found[1].decode()
    for _ in range(SESSIONS // 2):
        for model in MODELS:
            pair = [threading.Thread(target=converse, args=(address, model)) for _ in range(2)]
            [thread.start() for thread in pair]
            [thread.join() for thread in pair]
    server.terminate()
    if server.wait(60) != 0:
        sys.exit(f"the server ended with {server.returncode}")


def chat_in_terminal(binary, env, place):
    """Types three messages into the terminal program, on systems that have pseudo-terminals."""
    try:
        import pty
    except ImportError:
        return
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(place / "work")
        os.execve(binary, [str(binary), "--model", next(iter(MODELS)), "--store", str(place / "sessions.db")],
                  {**env, "TERM": "xterm-256color"})
    def read_until_quiet(served):
        """Reads what is drawn, until as many requests were served and nothing moves any more."""
        while select.select([terminal], [], [], 0.5)[0] or Model.served < served:
            os.read(terminal, 65536)

    read_until_quiet(Model.served)
    for _ in range(3):
        served = Model.served
        os.write(terminal, b"Do the next step, please.\r")
        read_until_quiet(served + 2)
    os.write(terminal, b"/quit\r")
    try:
        while os.read(terminal, 65536):
            pass
    except OSError:
        pass  # its end
    _, status = os.waitpid(pid, 0)
    if status != 0:
        sys.exit(f"the terminal program ended with {status}")


def main():
    signal.alarm(600)  # ends what hangs
    binary = pathlib.Path(sys.argv[1]).resolve()
    model = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    model.daemon_threads = True
    threading.Thread(target=model.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{model.server_port}"
    with tempfile.TemporaryDirectory() as scratch:
        place = pathlib.Path(scratch)
        (place / "work").mkdir()
        (place / "work" / "notes.md").write_text("words and more words\n" * 50)
        keys = {f"{name}_API_KEY": "none" for name in ("OPENAI", "ANTHROPIC", "GEMINI")}
        servers = {"OPENAI_BASE_URL": f"{address}/v1", "ANTHROPIC_BASE_URL": address,
                   "GOOGLE_GEMINI_BASE_URL": address, "OLLAMA_HOST": address}
        env = {**os.environ, **keys, **servers, "HOME": scratch, "NO_PROXY": "*"}
        for name in MODELS:
            command = [binary, "run", "--model", name, "Do it, please."]
            subprocess.run(command, env=env, cwd=place / "work", check=True, stdout=subprocess.DEVNULL)
        serve(binary, env, place)
        chat_in_terminal(binary, env, place)


if __name__ == "__main__":
    main()
