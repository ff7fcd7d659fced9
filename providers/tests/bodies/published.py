"""The types of requests that OpenAI, Anthropic and Google publish in their SDKs, made strict."""

import importlib
import json
import pkgutil
import typing

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from typing_extensions import Literal, Required, TypedDict, is_typeddict

# An Iterable would be checked only when somebody reads it, so the types get lists instead.
typing.Iterable = typing.List
FORBID = ConfigDict(extra="forbid", arbitrary_types_allowed=True)


def strict(package):
    """Lets the types of an SDK refuse unknown fields."""
    types = importlib.import_module(f"{package}.types")
    names = [m.name for m in pkgutil.walk_packages(types.__path__, f"{types.__name__}.")]
    models = set()
    for name in names:
        if ".beta" in name:
            continue
        module = importlib.import_module(name)
        for key, value in list(vars(module).items()):
            if key == "SequenceNotStr":
                setattr(module, key, typing.List)
            elif is_typeddict(value):
                value.__pydantic_config__ = FORBID
            elif isinstance(value, type) and issubclass(value, BaseModel):
                models.add(value)
    for model in models:  # parts of replies, which requests may repeat
        model.model_config = {**model.model_config, "extra": "forbid"}
    for model in models:
        model.model_rebuild(force=True)


strict("openai")
strict("anthropic")

# The imports must follow the changes.
from anthropic.types.message_create_params import MessageCreateParamsStreaming  # noqa: E402
from google.genai import types as google  # noqa: E402
from openai.types.chat import completion_create_params as chat  # noqa: E402
from openai.types.responses import response_create_params as responses  # noqa: E402


class Gemini(BaseModel):
    """The body of a request, whose parts are types of the SDK."""

    model_config = ConfigDict(extra="forbid")
    contents: typing.List[google.Content]
    systemInstruction: typing.Optional[google.Content] = None
    tools: typing.Optional[typing.List[google.Tool]] = None
    toolConfig: typing.Optional[google.ToolConfig] = None
    generationConfig: typing.Optional[google.GenerationConfig] = None
    safetySettings: typing.Optional[typing.List[google.SafetySetting]] = None


TYPES = {
    "openai-chat": TypeAdapter(chat.CompletionCreateParamsStreaming),
    "openai-responses": TypeAdapter(responses.ResponseCreateParamsStreaming),
    "anthropic": TypeAdapter(MessageCreateParamsStreaming),
    "gemini": TypeAdapter(Gemini),
}


class Switch(TypedDict):
    type: Literal["enabled", "disabled"]


class Effort(TypedDict):
    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"]


class Enabled(TypedDict):
    enabled: bool


class Detail(TypedDict, total=False):
    type: Required[
        Literal["reasoning.text", "reasoning.summary", "reasoning.encrypted"]
    ]
    text: typing.Optional[str]
    summary: str
    data: str
    signature: typing.Optional[str]
    id: typing.Optional[str]
    format: str
    index: int


class Cache(TypedDict):
    type: Literal["ephemeral"]


# Fields of the body, and of its replies, by target: documented fields of other servers that speak
# Chat Completions, and one of older models, which newer types leave out.
OWN = {
    "anthropic/claude-sonnet-4-5": ({"temperature": float}, {}),
    "deepseek": ({"thinking": Switch}, {"reasoning_content": str}),
    "moonshot": ({"thinking": Switch}, {"reasoning_content": str}),
    "openrouter": (
        {"reasoning": Effort, "cache_control": Cache},
        {"reasoning": str, "reasoning_details": typing.List[Detail]},
    ),
    "together": ({"reasoning": Enabled}, {}),
}
for form in (Switch, Effort, Enabled, Detail, Cache):
    form.__pydantic_config__ = FORBID


def take(fields, own, where):
    """Removes a server's own fields, and returns the rest and the faults in what was removed."""
    wrong = []
    for name in fields.keys() & own.keys():
        wrong += check(TypeAdapter(own[name]), fields[name], f"{where}{name}")
    return {name: value for name, value in fields.items() if name not in own}, wrong


def faults(target, wire, body):
    known = [fields for name, fields in OWN.items() if target.startswith(name)]
    of_body, of_replies = known[0] if known else ({}, {})
    body, wrong = take(body, of_body, "")
    if of_replies:
        messages = []
        for at, message in enumerate(body["messages"]):
            own = of_replies if message["role"] == "assistant" else {}
            message, more = take(message, own, f"messages.{at}.")
            messages.append(message)
            wrong += more
        body = {**body, "messages": messages}
    return wrong + check(TYPES[wire], body)


def check(adapter, value, where=""):
    try:
        # As JSON, where strict types may still have texts for enums and for bytes.
        adapter.validate_json(json.dumps(value), strict=True)
        return []
    except ValidationError as error:
        one = telling(error.errors(include_url=False, include_input=False))
        steps = filter(None, [where, path(value, one["loc"])])
        return [(".".join(steps), f"{one['msg']} ({one['type']})")]


def telling(errors):
    """Returns the deepest error, except in members of unions that a value does not claim to be."""
    others = [
        one["loc"][:-1]
        for one in errors
        if one["type"] == "literal_error" and one["loc"][-1] in ("type", "role")
    ]
    meant = [one for one in errors if not any(one["loc"][: len(o)] == o for o in others)]
    return max(meant or errors, key=lambda one: len(one["loc"]))


def path(value, steps):
    """Returns the fields on the way to an error, without the names of types between them."""
    found = []
    for step in steps:
        inside = isinstance(value, dict) and step in value
        if inside or (isinstance(value, list) and isinstance(step, int) and step < len(value)):
            value = value[step]
            found.append(str(step))
    if steps and str(steps[-1]) not in found[-1:]:
        found.append(str(steps[-1]))
    return ".".join(found)
