"""Ways to break a valid body. The check must notice each of them."""

import copy

EPHEMERAL = {"type": "ephemeral"}
BMP = "data:image/bmp;base64,Qk0="
BMP_TYPE = {"media_type": "image/bmp"}
GIF_TYPE = {"mimeType": "image/gif"}


def first(items, **fields):
    """Returns the first item with these fields."""
    for item in items:
        if all(item.get(name) == value for name, value in fields.items()):
            return item
    raise LookupError(fields)


def having(items, field):
    """Returns the first item that has this field."""
    for item in items:
        if item.get(field):
            return item
    raise LookupError(field)


def of_lists(messages, field="content"):
    """Returns the parts of all messages that are made of parts."""
    return [p for m in messages if isinstance(m.get(field), list) for p in m[field]]


def chat(change):
    """A change of the first call."""
    return lambda b: change(having(b["messages"], "tool_calls")["tool_calls"][0])


def function(change):
    """A change of the first tool in strict mode."""
    return lambda b: change(having([t["function"] for t in b["tools"]], "strict")["parameters"])


def picture(change):
    return lambda b: change(first(of_lists(b["messages"]), type="image_url")["image_url"])


def item(change, **fields):
    return lambda b: change(first(b["input"], **fields))


def block(kind, change):
    return lambda b: change(first(of_lists(b["messages"]), type=kind))


def part(field, change):
    return lambda b: change(having(of_lists(b["contents"], "parts"), field))


def without(role=None, kind=None):
    """Removes the first message with this role, or the first item of this kind."""
    if role:
        return lambda b: b["messages"].remove(first(b["messages"], role=role))
    return lambda b: b["input"].remove(first(b["input"], type=kind))


def lives(body):
    body["system"][0]["cache_control"] = EPHEMERAL
    body["messages"][-1]["content"][-1]["cache_control"] = {**EPHEMERAL, "ttl": "1h"}


def mark_all(body):
    for one in of_lists(body["messages"]):
        if one["type"] == "text":
            one["cache_control"] = EPHEMERAL


def text_first(body):
    result = first(of_lists(body["messages"]), type="tool_result")
    content = first([m for m in body["messages"] if result in m["content"]])["content"]
    content.insert(0, {"type": "text", "text": "first"})


def thinking_last(body):
    thought = first(of_lists(body["messages"]), type="thinking")
    first(body["messages"], role="assistant")["content"].append(thought)


def forced(body):
    if body["thinking"]["type"] == "enabled" and body["tools"]:
        body["tool_choice"] = {"type": "any"}


def unsigned(body):
    for one in of_lists(body["contents"], "parts"):
        if "functionCall" in one:
            one.pop("thoughtSignature", None)


def without_detail(body):
    first(of_lists(body["input"]), type="input_image").pop("detail")


def listed(message):
    message["content"] = [{"type": "output_text", "text": "a"}]


def renamed(response):
    response["functionResponse"]["name"] = "x"


# The format, words of the fault, the change.
CHANGES = [
    ("openai-chat", "extra_forbidden", lambda b: b.update(made_up=1)),
    ("openai-chat", "extra_forbidden", lambda b: b["messages"][-1].update(made_up=1)),
    ("openai-chat", "extra_forbidden", chat(lambda c: c["function"].update(made_up=1))),
    ("openai-chat", "missing", chat(lambda c: c.pop("id"))),
    ("openai-chat", "float_type", lambda b: b.update(temperature="warm")),
    ("openai-chat", "have the results", without(role="tool")),
    ("openai-chat", "is no JSON", chat(lambda c: c["function"].update(arguments="{"))),
    ("openai-chat", "is no object", chat(lambda c: c["function"].update(arguments="[]"))),
    ("openai-chat", "does not fit", chat(lambda c: c["function"].update(name="a.b"))),
    ("openai-chat", "have the results", chat(lambda c: c.update(id="another"))),
    ("openai-chat", "is refused", picture(lambda p: p.update(url=BMP))),
    ("openai-chat", "is no base64", picture(lambda p: p.update(url=p["url"] + "!"))),
    ("openai-chat", "not closed", function(lambda s: s.pop("additionalProperties"))),
    ("openai-chat", "to be required", function(lambda s: s.update(required=[]))),
    ("openai-chat", "at the root", function(lambda s: s.update(anyOf=[{}]))),
    ("openai-chat", "is no tool", lambda b: b["tool_choice"]["function"].update(name="none")),
    ("openai-chat", "there are no tools", lambda b: b["tool_choice"] and b.pop("tools")),
    ("openai-chat", "an empty text", lambda b: b["messages"][-1].update(content="")),
    ("openai-chat", "nothing to answer", lambda b: b.update(messages=[])),
    ("openai-responses", "extra_forbidden", lambda b: b.update(messages=[])),
    ("openai-responses", "missing", without_detail),
    ("openai-responses", "missing", item(listed, role="assistant")),
    ("openai-responses", "have the results", without(kind="function_call_output")),
    ("openai-responses", "without what follows it", without(kind="function_call")),
    ("openai-responses", "less than 16", lambda b: b.update(max_output_tokens=15)),
    ("anthropic", "extra_forbidden", lambda b: b.update(n=1)),
    ("anthropic", "extra_forbidden", block("text", lambda t: t.update(made_up=1))),
    ("anthropic", "missing", block("thinking", lambda t: t.pop("signature"))),
    ("anthropic", "literal_error", block("image", lambda i: i["source"].update(BMP_TYPE))),
    ("anthropic", "is blank", block("text", lambda t: t.update(text=" "))),
    ("anthropic", "have the results", block("tool_use", lambda u: u.update(id="another"))),
    ("anthropic", "ends with thinking", thinking_last),
    ("anthropic", "do not take turns", lambda b: b["messages"].pop(0)),
    ("anthropic", "not first", text_first),
    ("anthropic", "lives in the order", lives),
    ("anthropic", "marks", mark_all),
    ("anthropic", "a budget of", lambda b: b["thinking"].update(budget_tokens=b["max_tokens"])),
    ("anthropic", "forced though", forced),
    ("gemini", "extra_forbidden", lambda b: b.update(messages=[])),
    ("gemini", "extra_forbidden", part("text", lambda p: p.update(made_up=1))),
    ("gemini", "the role", lambda b: b["contents"].pop(0)),
    ("gemini", "no parts", lambda b: b["contents"][0].update(parts=[])),
    ("gemini", "have the results", part("functionResponse", renamed)),
    ("gemini", "without a signature", unsigned),
    ("gemini", "does not fit", part("inlineData", lambda p: p["inlineData"].update(GIF_TYPE))),
]


def unnoticed(entries, faults):
    """Returns the changes that are noticed in no body."""
    missed = []
    for wire, words, change in CHANGES:
        bodies = (entry for entry in entries if entry["wire"] == wire)
        if not any(noticed(entry, words, change, faults) for entry in bodies):
            missed.append(f"{wire}: {words}")
    return missed


def noticed(entry, words, change, faults):
    body = copy.deepcopy(entry["body"])
    try:
        change(body)
    except (LookupError, TypeError, AttributeError):
        return False  # there is nothing to change
    return any(words in why for _, why in faults({**entry, "body": body}))
