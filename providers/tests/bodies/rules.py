"""Rules of servers that no type expresses, as their documents and errors tell them."""

import base64
import json
import re

import schemas

IMAGES = {"image/png", "image/jpeg", "image/gif", "image/webp"}
GEMINI_FILES = r"(image/(png|jpeg|webp|heic|heif)|application/pdf|(audio|video|text)/[a-z0-9.+-]+)"
# Forms of the ids of calls.
IDS = {"mistral": "[A-Za-z0-9]{9}", "openai": "[A-Za-z0-9_-]{1,40}"}


class Faults(list):
    """The faults found so far."""

    def unless(self, holds, where, why):
        if not holds:
            self.append((where, why))

    def match(self, pattern, text, where):
        self.unless(re.fullmatch(pattern, text), where, f"{text[:80]!r} does not fit {pattern}")

    def text(self, text, where):
        self.unless(text.strip(), where, f"the text {text!r} is blank")

    def base64(self, data, where):
        try:
            self.unless(base64.b64decode(data, validate=True), where, "no data")
        except ValueError:
            self.append((where, f"{data[:40]!r} is no base64"))

    def url(self, url, kinds, where):
        kind, _, data = url.removeprefix("data:").partition(";base64,")
        self.unless(url.startswith("data:") and kind in kinds, where, f"{url[:60]!r} is refused")
        self.base64(data, where)

    def object(self, text, where):
        try:
            self.unless(isinstance(json.loads(text), dict), where, f"{text[:60]!r} is no object")
        except ValueError:
            self.append((where, f"{text[:60]!r} is no JSON"))

    def different(self, names, where):
        self.unless(len(set(names)) == len(names), where, f"something is there twice: {names}")

    def answered(self, calls, results, where):
        self.unless(calls == results, where, f"the calls {calls} have the results {results}")


def faults(target, wire, body):
    found = Faults()
    FORMATS[wire](found, target, body)
    return found


def openai_chat(found, target, body):
    server = target.split("/")[0]
    tools = [tool["function"] for tool in body.get("tools", [])]
    for at, tool in enumerate(tools):
        where = f"tools.{at}.function"
        found.match(r"[A-Za-z0-9_-]{1,64}", tool["name"], f"{where}.name")
        found += schemas.arguments(tool["parameters"], tool.get("strict"), f"{where}.parameters")
    choice = body.get("tool_choice")
    chosen(found, choice, choice["function"]["name"] if isinstance(choice, dict) else None, tools)
    found.different([tool["name"] for tool in tools], "tools")
    if asked := body.get("response_format", {}).get("json_schema"):
        found += schemas.answer(asked["schema"], "response_format.json_schema.schema")
        found.match(r"[A-Za-z0-9_-]{1,64}", asked["name"], "response_format.json_schema.name")
    found.unless(body.get("tools") != [], "tools", "an empty list")
    found.unless(len(body.get("stop", [])) <= 4, "stop", "more than four texts")
    found.unless(
        not {"max_tokens", "max_completion_tokens"} <= body.keys(), "max_tokens", "two limits"
    )
    if server == "mistral":
        found.unless("stream_options" not in body, "stream_options", "refused by Mistral")
    if server in ("deepseek", "moonshot") and choice not in (None, "auto", "none"):
        thinks = body.get("thinking", {}).get("type") != "disabled"
        found.unless(not thinks, "tool_choice", "forced though the model thinks")
    messages = body["messages"]
    found.unless(messages, "messages", "an empty list")
    found.unless(
        messages and messages[-1]["role"] in ("user", "tool"), "messages", "nothing to answer"
    )
    ids, calls, results, at_calls = [], [], [], "messages"
    for at, message in enumerate(messages):
        where, role, content = f"messages.{at}", message["role"], message.get("content")
        if role == "tool":
            results.append(message["tool_call_id"])
        else:
            found.answered(calls, results, at_calls)
            refused = server == "mistral" and results and role == "user"
            found.unless(not refused, where, "the user directly after results")
            calls, results, at_calls = [], [], where
        if role == "system":
            found.unless(at == 0, where, "a system prompt that is not first")
        if role == "assistant":
            own = message.get("tool_calls")
            found.unless(own != [], where, "an empty list of calls")
            found.unless(own or content, where, "a reply without content")
            calls = [call["id"] for call in own or []]
            ids += calls
            for call in own or []:
                found.match(IDS.get(server, "(?s).+"), call["id"], where)
                found.match(r"[A-Za-z0-9_-]{1,64}", call["function"]["name"], where)
                found.object(call["function"]["arguments"], where)
        elif isinstance(content, str):
            found.unless(content, where, "an empty text")
        else:
            found.unless(content, where, "a message without parts")
            for part in content:
                found.unless(part.get("text") != "", where, "an empty text")
                if part["type"] == "image_url":
                    found.url(part["image_url"]["url"], IMAGES, where)
                if part["type"] == "file":
                    found.url(part["file"]["file_data"], {"application/pdf"}, where)
    found.answered(calls, results, at_calls)
    found.different(ids, "messages")


def chosen(found, choice, name, tools):
    """Checks that a choice of a tool has tools to choose from."""
    found.unless(choice is None or tools, "tool_choice", "there are no tools")
    found.unless(
        name is None or name in [tool.get("name") for tool in tools],
        "tool_choice",
        f"{name!r} is no tool",
    )


def openai_responses(found, _, body):
    tools = body.get("tools", [])
    functions = [tool for tool in tools if tool["type"] == "function"]
    for at, tool in enumerate(functions):
        found.match(r"[A-Za-z0-9_-]{1,64}", tool["name"], f"tools.{at}.name")
        found += schemas.arguments(tool["parameters"], tool["strict"], f"tools.{at}.parameters")
    found.different([tool["name"] for tool in functions], "tools")
    choice = body.get("tool_choice")
    chosen(found, choice, choice["name"] if isinstance(choice, dict) else None, tools)
    asked = body.get("text", {}).get("format", {})
    if "schema" in asked:
        found += schemas.answer(asked["schema"], "text.format.schema")
        found.match(r"[A-Za-z0-9_-]{1,64}", asked["name"], "text.format.name")
    found.unless(body.get("max_output_tokens", 16) >= 16, "max_output_tokens", "less than 16")
    found.unless(body["input"], "input", "an empty list")
    calls, results, before = [], [], None
    for at, item in enumerate(body["input"]):
        where, kind = f"input.{at}", item.get("type", "message")
        goes_on = kind in ("function_call", "reasoning") or item.get("role") == "assistant"
        found.unless(before != "reasoning" or goes_on, where, "reasoning without what follows it")
        before = kind
        if kind == "function_call":
            found.unless(not results, where, "a call between results")
            calls.append(item["call_id"])
            found.match(r"[A-Za-z0-9_-]{1,64}", item["call_id"], where)
            found.match(r"[A-Za-z0-9_-]{1,64}", item["name"], where)
            found.object(item["arguments"], where)
        elif kind == "function_call_output":
            results.append(item["call_id"])
        if calls and calls == results:
            calls, results = [], []
        found.unless(
            not calls or kind != "message" or item["role"] == "assistant", where, "calls are open"
        )
        content = item.get("content") or item.get("output") or []
        if isinstance(content, list) and kind != "reasoning":
            found.unless(content or kind == "function_call", where, "no content")
            for part in content:
                found.unless(part.get("text") != "", where, "an empty text")
                if part["type"] == "input_image":
                    found.url(part["image_url"], IMAGES, where)
                if part["type"] == "input_file":
                    found.url(part["file_data"], {"application/pdf"}, where)
    found.answered(calls, results, "input")
    found.unless(before != "reasoning", "input", "ends with reasoning")
    ids = [item["call_id"] for item in body["input"] if item.get("type") == "function_call"]
    found.different(ids, "input")
    last = body["input"][-1] if body["input"] else {}
    found.unless(last.get("role") != "assistant", "input", "nothing to answer")


def anthropic(found, _, body):
    tools, thinking = body.get("tools", []), body.get("thinking", {}).get("type", "disabled")
    for at, tool in enumerate(tools):
        found.match(r"[A-Za-z0-9_-]{1,128}", tool["name"], f"tools.{at}.name")
        if "input_schema" in tool:
            found += schemas.arguments(tool["input_schema"], False, f"tools.{at}.input_schema")
    found.different([tool["name"] for tool in tools], "tools")
    choice = body.get("tool_choice")
    chosen(found, choice, (choice or {}).get("name"), tools)
    forced = (choice or {}).get("type") in ("any", "tool")
    thinks = thinking in ("enabled", "adaptive")
    found.unless(not (forced and thinks), "tool_choice", "forced though the model thinks")
    found.unless(not (thinks and "temperature" in body), "temperature", "the model thinks")
    found.unless(body.get("temperature", 0) <= 1, "temperature", "more than 1")
    if thinking == "enabled":
        budget = body["thinking"]["budget_tokens"]
        found.unless(1024 <= budget < body["max_tokens"], "thinking", f"a budget of {budget}")
    found.unless(all(stop.strip() for stop in body.get("stop_sequences", [])), "stop", "blank")
    answer = body.get("output_config", {}).get("format")
    if answer:
        found += schemas.closed(answer["schema"], "output_config.format.schema")
    marks(found, body)
    for at, block in enumerate(body.get("system", [])):
        found.text(block["text"], f"system.{at}")
    messages, ids, calls = body["messages"], [], []
    found.unless(messages, "messages", "an empty list")
    for at, message in enumerate(messages):
        where, content = f"messages.{at}", message["content"]
        user = message["role"] == "user"
        found.unless(user == (at % 2 == 0), where, "roles do not take turns from the user on")
        found.unless(content, where, "no content")
        kinds = [block["type"] for block in content]
        results = [block["tool_use_id"] for block in content if block["type"] == "tool_result"]
        found.answered(calls, results, where)
        found.unless(
            set(kinds[: len(results)]) <= {"tool_result"}, where, "results that are not first"
        )
        calls = [block["id"] for block in content if block["type"] == "tool_use"]
        ids += calls
        found.unless("thinking" not in kinds[-1:][0], where, "ends with thinking")
        for inner, block in enumerate(content):
            anthropic_block(found, block, f"{where}.content.{inner}")
    found.answered(calls, [], "messages")
    found.different(ids, "messages")
    found.unless(len(messages) % 2, "messages", "nothing to answer")
    if thinking == "enabled":
        begins_with_thinking(found, messages)


def anthropic_block(found, block, where):
    kind = block["type"]
    if kind == "text":
        found.text(block["text"], where)
    elif kind == "thinking":
        found.unless(block["signature"], where, "no signature")
    elif kind in ("image", "document"):
        found.base64(block["source"]["data"], where)
    elif kind == "tool_use":
        found.match(r"[A-Za-z0-9_-]{1,128}", block["id"], where)
        found.match(r"[A-Za-z0-9_-]{1,128}", block["name"], where)
    elif kind == "tool_result":
        for at, part in enumerate(block["content"]):
            anthropic_block(found, part, f"{where}.content.{at}")


def begins_with_thinking(found, messages):
    """Checks the current turn: with a budget it begins with thinking if it has calls."""
    turn = len(messages) - 1
    while turn > 0 and messages[turn]["content"][0]["type"] == "tool_result":
        turn -= 2
    if turn + 1 < len(messages):
        first = messages[turn + 1]["content"][0]["type"]
        found.unless("thinking" in first, f"messages.{turn + 1}", f"begins with {first}")


def marks(found, body):
    """Checks the marks of the cache: at most four, those of an hour first, none on thinking."""
    blocks = body.get("tools", []) + body.get("system", [])
    for message in body["messages"]:
        for block in message["content"]:
            inner = block.get("content") if block["type"] == "tool_result" else None
            blocks += [*(inner or []), block]
    marked = [block for block in [*blocks, body] if "cache_control" in block]
    found.unless(len(marked) <= 4, "cache_control", f"{len(marked)} marks")
    lives = [block["cache_control"].get("ttl", "5m") for block in marked]
    found.unless(lives == sorted(lives), "cache_control", f"lives in the order {lives}")
    for block in marked:
        found.unless(
            "thinking" not in block.get("type", ""), "cache_control", "a mark on thinking"
        )


def gemini(found, target, body):
    tools = [f for tool in body.get("tools", []) for f in tool.get("functionDeclarations", [])]
    for at, tool in enumerate(tools):
        where = f"tools.functionDeclarations.{at}"
        found.match(r"[A-Za-z_][A-Za-z0-9_.:-]{0,63}", tool["name"], where)
        found += schemas.arguments(tool["parametersJsonSchema"], False, where)
    found.different([tool["name"] for tool in tools], "tools")
    calling = body.get("toolConfig", {}).get("functionCallingConfig")
    for name in (calling or {}).get("allowedFunctionNames", [None]):
        chosen(found, calling, name, tools)
    config = body.get("generationConfig", {})
    found += schemas.plain(config.get("responseJsonSchema", {}), "generationConfig")
    found.unless(len(config.get("stopSequences", [])) <= 5, "stopSequences", "more than five")
    older = target.startswith("google/gemini-2.5")
    found.unless(
        not (older and tools and "responseMimeType" in config), "generationConfig", "also tools"
    )
    contents, calls, ids = body["contents"], [], []
    found.unless(len(contents) % 2, "contents", "nothing to answer")
    for at, content in enumerate(contents):
        where, parts = f"contents.{at}", content["parts"]
        role = ("user", "model")[at % 2]
        found.unless(content["role"] == role, where, f"the role {content['role']}, not {role}")
        found.unless(parts, where, "no parts")
        results = [part["functionResponse"] for part in parts if "functionResponse" in part]
        found.answered(calls, [(r.get("id"), r["name"]) for r in results], where)
        functions = [part for part in parts if "functionCall" in part]
        calls = [(p["functionCall"].get("id"), p["functionCall"]["name"]) for p in functions]
        ids += [call[0] for call in calls if call[0]]
        for _, name in calls:
            found.match(r"[A-Za-z_][A-Za-z0-9_.:-]{0,63}", name, where)
        if functions and not older:
            found.unless(functions[0].get("thoughtSignature"), where, "a call without a signature")
        for part in parts:
            signed = part.get("thoughtSignature")
            found.unless(part.get("text") != "" or signed, where, "an empty text")
            files = [part, *part.get("functionResponse", {}).get("parts", [])]
            for file in [file["inlineData"] for file in files if "inlineData" in file]:
                found.match(GEMINI_FILES, file["mimeType"], where)
                found.base64(file["data"], where)
            found.unless(len(part.keys() - {"thought", "thoughtSignature"}) == 1, where, "no data")
    found.answered(calls, [], "contents")
    found.different(ids, "contents")


FORMATS = {
    "openai-chat": openai_chat,
    "openai-responses": openai_responses,
    "anthropic": anthropic,
    "gemini": gemini,
}
