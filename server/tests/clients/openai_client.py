# The official client of PyPI, `openai`, with an agent as the model.
import sys

import openai
from pydantic import BaseModel

address, api_key = sys.argv[1:]
client = openai.OpenAI(base_url=f"{address}/v1", api_key=api_key)
MODEL = "shepherd"
GIF = "data:image/gif;base64,R0lGODlhAQABAAAAACwAAAAAAQABAAACAQA7"


class Flock(BaseModel):
    count: int


def ask(content):
    return [{"role": "user", "content": content}]


# Chat completions.
nine = client.chat.completions.create(
    model=MODEL,
    messages=[{"role": "system", "content": "Be brief."}, *ask("How many?")],
    temperature=0.5,
    max_completion_tokens=99,
)
assert nine.choices[0].message.content == "Nine.", nine
assert nine.choices[0].finish_reason == "stop", nine
usage = nine.usage
assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (12, 5, 17), usage

with client.chat.completions.stream(
    model=MODEL, messages=ask("Count."), stream_options={"include_usage": True}
) as stream:
    deltas = [event.delta for event in stream if event.type == "content.delta"]
    streamed = stream.get_final_completion()
assert [delta for delta in deltas if delta] == ["I look.", "\n\nNine ", "sheep."], deltas
assert streamed.choices[0].message.content == "I look.\n\nNine sheep.", streamed
assert not streamed.choices[0].message.tool_calls, streamed
assert streamed.usage is not None, streamed

parsed = client.chat.completions.parse(
    model=MODEL, messages=ask("How many?"), response_format=Flock
)
assert parsed.choices[0].message.parsed == Flock(count=9), parsed

picture = client.chat.completions.create(
    model=MODEL,
    messages=[
        *ask("Hello"),
        {"role": "assistant", "content": "Hi."},
        *ask([
            {"type": "text", "text": "What is it?"},
            {"type": "image_url", "image_url": {"url": GIF}},
        ]),
    ],
)
assert picture.choices[0].message.content == "A picture.", picture

# A call that nobody has approved: the run does not wait for it.
sold = client.responses.create(model=MODEL, input="Sell.")
refused = next(item for item in sold.output if item.type == "mcp_call")
assert refused.status == "failed", sold
assert "only after a user's approval" in refused.error.content, sold

# Responses.
whole = client.responses.create(model=MODEL, input="How many?", metadata={"a": "b"})
assert [item.type for item in whole.output] == ["message", "mcp_call", "message"], whole
said, call, answer = whole.output
assert (said.phase, answer.phase) == ("commentary", "final_answer"), whole
assert (call.name, call.output, call.status) == ("count", "nine sheep", "completed"), call
assert (whole.status, whole.metadata) == ("completed", {"a": "b"}), whole
assert (whole.usage.output_tokens, whole.usage.total_tokens) == (5, 17), whole

with client.responses.stream(
    model=MODEL, input="How many?", reasoning={"effort": "low", "summary": "auto"}
) as stream:
    events = list(stream)
    final = stream.get_final_response()
assert [item.type for item in final.output] == ["reasoning", "message", "mcp_call", "message"]
assert final.output[0].summary[0].text == "Hm.", final
assert final.output[3].content[0].text == "Nine sheep.", final
text = [event.delta for event in events if event.type == "response.output_text.delta"]
assert text == ["I look.", "Nine ", "sheep."], text

typed = client.responses.parse(model=MODEL, input="How many?", text_format=Flock)
assert typed.output_parsed == Flock(count=9), typed

# The output of a response is a part of the next input.
output = [item.model_dump(exclude_none=True) for item in whole.output]
again = client.responses.create(model=MODEL, input=[*ask("How many?"), *output, *ask("Sure?")])
assert again.output_text == "As I said.", again

# Models are agents.
assert [model.id for model in client.models.list()] == [MODEL]
assert client.models.retrieve(MODEL).owned_by == "loopwright"


# Errors have the client's own classes, and a run that failed is not repeated.
def fails(kind, fields, call):
    try:
        call()
    except kind as error:
        assert (error.status_code, error.code, error.param) == fields, error
        return error
    raise AssertionError(f"no {kind}")


def chat(**fields):
    return client.chat.completions.create(**{"model": MODEL, "messages": ask("Go."), **fields})


fails(openai.NotFoundError, (404, "model_not_found", "model"), lambda: chat(model="wolf"))
tool = {"type": "function", "function": {"name": "f", "parameters": {}}}
fails(openai.BadRequestError, (400, "bad_request", "tools"), lambda: chat(tools=[tool]))
fails(
    openai.BadRequestError,
    (400, "bad_request", "previous_response_id"),
    lambda: client.responses.create(model=MODEL, input="Go.", previous_response_id="resp_1"),
)
stranger = openai.OpenAI(base_url=f"{address}/v1", api_key="sk-wrong")
fails(openai.AuthenticationError, (401, "invalid_api_key", None), stranger.models.list)
failed = fails(openai.InternalServerError, (500, "invalid_request", None), chat)
assert "The model refuses" in str(failed), failed
with client.responses.stream(model=MODEL, input="Go.") as stream:
    last = [event for event in stream][-1]
assert (last.type, last.response.status) == ("response.failed", "failed"), last
assert "The model refuses" in last.response.error.message, last
