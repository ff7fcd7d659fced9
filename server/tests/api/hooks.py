"""What schemathesis cannot know: which directories, models, sessions and open actions there are.

A generated request would otherwise hardly ever get past "there is no such session" or "there is no such directory". What
is not replaced here stays as it was generated; what was made invalid on purpose stays invalid.
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
    """A call that waits for an answer: one of those that there are, or one that is asked for now."""
    actions = call("GET", "/api/actions")["actions"]
    if actions:
        return CHOICE.choice(actions)
    session = call("POST", "/api/sessions", {"workDir": "."})["id"]
    call("POST", f"/api/sessions/{session}/prompt", {"message": "write `sheep.txt` with the text `one`"})
    until = time.monotonic() + 30
    while not (actions := call("GET", f"/api/sessions/{session}/actions")["actions"]):
        if time.monotonic() > until:
            raise RuntimeError("the offline model has not asked for anything")
        time.sleep(0.02)
    return actions[0]


def named(text):
    return isinstance(text, str) and text.strip() != ""


@schemathesis.hook
def before_call(context, case, kwargs):
    method, path = case.method.upper(), case.operation.path
    names, body = case.path_parameters or {}, case.body
    if path.endswith("/actions/{call}") and method == "POST" and CHOICE.random() < 0.5:
        action = an_action()
        names["id"], names["call"] = action["session"], action["call"]
        if isinstance(body, dict) and isinstance(body.get("digest"), str):
            body["digest"] = action["digest"]
        if valid(case):
            fits(body, action)
    elif "id" in names and CHOICE.random() < 0.8:
        names["id"] = a_session()
    if not isinstance(body, dict) or method != "POST":
        return
    if named(body.get("workDir")):
        body["workDir"] = "."
    if path == "/api/sessions" and named(body.get("model")):
        body["model"] = "offline"
    if valid(case) and isinstance(body.get("autoApprove"), list):
        body["autoApprove"] = [CHOICE.choice(TOOLS) for _ in body["autoApprove"]]
    if path == "/api/agent-chat":
        config, history = body.get("llmConfig"), body.get("history")
        if config is None and valid(case):
            config = body["llmConfig"] = {"model": "offline"}
        if isinstance(config, dict):
            offline(config, valid(case))
        if isinstance(history, list) and valid(case):
            body["history"] = [sensible(entry) for entry in history]


def valid(case):
    return case.meta is not None and case.meta.generation.mode.is_positive


def fits(answer, action):
    """Answers a call that waits for a confirmation, with arguments that its tool takes."""
    if answer["decision"] == "answer":
        answer["decision"] = "approve"
    if answer["decision"] == "approve_with":
        answer["arguments"] = action["arguments"]


def offline(config, is_valid):
    """The rules that need no key and no network."""
    if config.get("provider") is None or isinstance(config["provider"], str):
        config["provider"] = "offline"
    if named(config.get("model")) or (is_valid and "model" not in config):
        config["model"] = "offline"


def sensible(entry):
    """An entry of a conversation that can have been."""
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
