"""Existing directories, models, sessions and pending actions, which schemathesis cannot know.

Without them nearly all generated requests would fail with "there is no such session" or "there is no such directory".
Everything else stays as it was generated; invalid values stay invalid.
"""

import json
import os
import random
import re
import time
import urllib.request

import schemathesis

SERVER = os.environ["LOOPWRIGHT_API"]
CHOICE = random.Random(int(os.environ["LOOPWRIGHT_SEED"]))
ROLES = ("user", "assistant", "tool")
# The open stream, and its id.
STREAMS = []
PATTERNS = ("generic", "pi", "plan-first", "plan-execute", "reflect", "self-consistency", "clarify", "react")
PIXEL = {
    "media_type": "image/png",
    "data": "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
}
QUESTION = "Read sheep.txt"
# Seconds of silence after which an endless stream is cut off.
SILENCE = 0.25
TOOLS = ("read_file", "write_file", "edit_file", "list_directory", "all")


def call(method, path, body=None):
    request = urllib.request.Request(
        SERVER + path,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30) as response:
        return json.load(response)


def a_session():
    sessions = call("GET", "/api/sessions")["sessions"]
    if len(sessions) < 3:
        return call("POST", "/api/sessions", {"workDir": "."})["id"]
    return CHOICE.choice(sessions)["id"]


def an_action():
    """A pending action: an existing one, or a new one."""
    actions = call("GET", "/api/actions")["actions"]
    if actions:
        return CHOICE.choice(actions)
    session = call("POST", "/api/sessions", {"workDir": "."})["id"]
    call("POST", f"/api/sessions/{session}/prompt", {"message": "write `sheep.txt` with the text `one`"})
    deadline = time.monotonic() + 30
    while not (actions := call("GET", f"/api/sessions/{session}/actions")["actions"]):
        if time.monotonic() > deadline:
            raise RuntimeError("the offline model has not called a tool")
        time.sleep(0.02)
    return actions[0]


def a_stream():
    """A stream that stays open: another one for one request of ten."""
    if not STREAMS or CHOICE.random() < 0.1:
        request = urllib.request.Request(
            SERVER + "/api/events", data=b"{}", headers={"Content-Type": "application/json"}
        )
        response = urllib.request.urlopen(request, timeout=30)
        while not (line := response.readline()).startswith(b"data:"):
            if not line:
                raise RuntimeError("the stream ended before its first frame")
        STREAMS[:] = [(response, json.loads(line.removeprefix(b"data:"))["stream"])]
    return STREAMS[0][1]


def end_when_silent(response, **_):
    """Ends a response that has no end after a silence."""
    if response.headers.get("Content-Type", "").startswith("text/event-stream"):
        response.raw.connection.sock.settimeout(SILENCE)


def named(text):
    return isinstance(text, str) and text.strip() != ""


@schemathesis.hook
def before_call(context, case, kwargs):
    method, path = case.method.upper(), case.operation.path
    names, body = case.path_parameters or {}, case.body
    if path.endswith("/events"):
        kwargs["hooks"] = {"response": end_when_silent}
    if path.endswith(("/actions/{call}", "/preview")) and CHOICE.random() < 0.5:
        action = an_action()
        names["id"], names["call"] = action["session"], action["call"]
        if isinstance(body, dict) and isinstance(body.get("digest"), str):
            body["digest"] = action["digest"]
        if isinstance(body, dict) and valid(case):
            fit(body, action)
    elif "id" in names and CHOICE.random() < 0.8:
        names["id"] = a_session()
    if "stream" in names and CHOICE.random() < 0.5:
        names["stream"] = a_stream()
    for name in ("name", "agent"):
        if name in names and CHOICE.random() < 0.8:
            names[name] = "coding"
    if path.endswith("/schedules/{schedule}") and isinstance(body, dict) and valid(case):
        schedule(body)
    if not isinstance(body, dict) or method not in ("POST", "PATCH"):
        return
    if valid(case) and isinstance(body.get("follow"), list):
        for follow in body["follow"]:
            if CHOICE.random() < 0.8:
                follow["session"] = a_session()
    if isinstance(body.get("workDir"), str) and body["workDir"] != "":
        body["workDir"] = "."
    if valid(case) and isinstance(body.get("images"), list):
        for image in body["images"]:
            image.update(PIXEL)
    if isinstance(body.get("agent"), str):
        body["agent"] = "coding"
    if path in ("/api/sessions", "/api/sessions/{id}") and named(body.get("model")):
        body["model"] = "offline"
    if path == "/api/sessions":
        for name, values in (("pattern", PATTERNS), ("toolChoice", ("required", "read_file"))):
            if isinstance(body.get(name), str):
                body[name] = CHOICE.choice(values)
    if valid(case) and isinstance(body.get("approve"), list):
        body["approve"] = [CHOICE.choice(TOOLS) for _ in body["approve"]]
    if path in CONVERSATIONS and valid(case):
        CONVERSATIONS[path](body)
    if path == "/api/agent-chat":
        config, history = body.get("llmConfig"), body.get("history")
        if config is None and valid(case):
            config = body["llmConfig"] = {"model": "offline"}
        if isinstance(config, dict):
            offline(config, valid(case))
        if isinstance(history, list) and valid(case):
            body["history"] = [sensible(entry) for entry in history]


def schedule(body):
    """Makes a schedule fit: an expression and a zone that exist, and a time that has not passed."""
    for name, value in (("cron", "0 9 * * MON-FRI"), ("time_zone", "Europe/Berlin")):
        if isinstance(body.get(name), str):
            body[name] = value
    if isinstance(body.get("time"), (int, float)):
        body["time"] = max(body["time"], 4_000_000_000_000)


def ag_ui(body):
    body.pop("resume", None)
    if body["messages"]:
        body["messages"] = [{"id": f"m{CHOICE.random()}", "role": "user", "content": QUESTION}]


def ai_sdk(body):
    body.pop("messageId", None)
    body["messages"] = [{"id": f"m{CHOICE.random()}", "role": "user", "parts": [{"type": "text", "text": QUESTION}]}]


def chat_completions(body):
    body["messages"] = [{"role": "user", "content": QUESTION}]
    openai(body, body.get("response_format") or {}, "json_schema")


def responses(body):
    body["input"] = QUESTION
    text = body.get("text") or {}
    openai(body, text, "format")


def openai(body, around, name):
    """An existing agent most of the time, and a form of the answer that is a JSON Schema."""
    if CHOICE.random() < 0.8:
        body["model"] = "coding"
    if isinstance(around.get(name), dict) and "name" in around[name]:
        around[name].update(name="answer", schema={"type": "object"})


# Requests of other protocols, whose conversation must end with a message of the user.
CONVERSATIONS = {
    "/ag-ui/{agent}": ag_ui,
    "/ai-sdk/{agent}": ai_sdk,
    "/v1/chat/completions": chat_completions,
    "/v1/responses": responses,
}


def valid(case):
    return case.meta is not None and case.meta.generation.mode.is_positive


def fit(decision, action):
    """Makes a decision fit an action that asks for approval: no input, and arguments that its tool accepts."""
    if decision["decision"] == "provide" and decision.get("content") is None:
        decision["decision"] = "approve"
    if decision["decision"] == "approve_with":
        decision["arguments"] = action["arguments"]


def offline(config, is_valid):
    """Selects the rules that need no key and no network."""
    if config.get("provider") is None or isinstance(config["provider"], str):
        config["provider"] = "offline"
    if named(config.get("model")) or (is_valid and "model" not in config):
        config["model"] = "offline"


def sensible(entry):
    """An entry of a possible conversation."""
    entry = {name: value for name, value in entry.items() if name not in ("parts", "toolInput")}
    if entry.get("role") not in ROLES:
        entry["role"] = CHOICE.choice(ROLES)
    if not isinstance(entry.get("content"), str):
        entry["content"] = json.dumps(entry.get("content"))
    for field in ("toolName", "name"):
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", entry.get(field) or ""):
            entry.pop(field, None)
    if entry["role"] == "tool":
        entry.setdefault("toolName", "read_file")
    return entry
