# The official client of PyPI, `a2a-sdk`.
import asyncio
import sys
from uuid import uuid4

import httpx
from a2a.client import ClientConfig, ClientFactory
from a2a.helpers.proto_helpers import new_data_part, new_text_part
from a2a.types.a2a_pb2 import (
    CancelTaskRequest, GetTaskRequest, ListTasksRequest, Message, Role, SendMessageConfiguration,
    SendMessageRequest, SubscribeToTaskRequest, TaskState,
)
from google.protobuf import json_format

address, token = sys.argv[1:]


def request(*parts, configuration=None, **fields):
    message = Message(message_id=str(uuid4()), role=Role.ROLE_USER, parts=parts, **fields)
    return SendMessageRequest(message=message, configuration=configuration)


def texts(items):
    return ["".join(part.text for part in item.parts) for item in items]


def data_of(message):
    parts = [part for part in message.parts if part.HasField("data")]
    return [json_format.MessageToDict(part.data) for part in parts]


async def main():
    headers = {"authorization": f"Bearer {token}"}
    http = httpx.AsyncClient(headers=headers, timeout=60)
    whole = ClientConfig(httpx_client=http, streaming=False)
    client = await ClientFactory(whole).create_from_url(address)
    streaming = await ClientFactory(ClientConfig(httpx_client=http)).create_from_url(address)

    async def send(message):
        [response] = [response async for response in client.send_message(message)]
        return response.task

    async def fails(call):
        try:
            await call
        except Exception as error:
            return error
        raise AssertionError("it succeeded")

    # A message and its task.
    task = await send(request(new_text_part("How many?")))
    assert task.status.state == TaskState.TASK_STATE_COMPLETED, task
    assert (texts(task.artifacts), texts(task.history)) == (["Nine."], ["How many?"]), task
    got = await client.get_task(GetTaskRequest(id=task.id))
    assert (got.id, got.context_id) == (task.id, task.context_id), got

    # A stream, in the same context.
    streamed, states = "", []
    message = request(new_text_part("Sure?"), context_id=task.context_id)
    async for event in streaming.send_message(message):
        if event.HasField("artifact_update"):
            update = event.artifact_update
            streamed = (streamed if update.append else "") + update.artifact.parts[0].text
        if event.HasField("status_update"):
            states.append(event.status_update.status.state)
    assert streamed == "Nine.", streamed
    assert states == [TaskState.TASK_STATE_WORKING, TaskState.TASK_STATE_COMPLETED], states
    listed = await client.list_tasks(ListTasksRequest(context_id=task.context_id))
    assert (listed.total_size, listed.tasks[1].id) == (2, task.id), listed

    # Approvals: the decision names the action that was shown.
    async def ask(text):
        waiting = await send(request(new_text_part(text)))
        assert waiting.status.state == TaskState.TASK_STATE_INPUT_REQUIRED, waiting
        return waiting, data_of(waiting.status.message)[0]

    async def decide(task, **decision):
        return await send(request(new_data_part(decision), task_id=task.id))

    sale, action = await ask("Sell.")
    assert (action["name"], action["arguments"]) == ("sell", {"what": "sheep"}), action
    call, digest = action["call"], action["digest"]
    await fails(send(request(new_text_part("Yes!"), task_id=sale.id)))
    await fails(decide(sale, call=call, digest="other", decision="approve"))
    sold = await decide(sale, call=call, digest=digest, decision="approve")
    assert sold.status.state == TaskState.TASK_STATE_COMPLETED, sold
    assert texts(sold.artifacts) == ["I sell.", "Sold."], sold

    other, action = await ask("Sell.")
    call, digest = action["call"], action["digest"]
    kept = await decide(other, call=call, digest=digest, decision="deny", reason="Not today.")
    assert texts(kept.artifacts) == ["I sell.", "Not sold."], kept

    # Questions: a text answers.
    asked, _ = await ask("Where?")
    assert "Which field" in asked.status.message.parts[0].text, asked
    answered = await send(request(new_text_part("north"), task_id=asked.id))
    assert texts(answered.artifacts) == ["North it is."], answered

    # Cancelled while it waits, and while it runs.
    waits, _ = await ask("Sell.")
    cancelled = await client.cancel_task(CancelTaskRequest(id=waits.id))
    assert cancelled.status.state == TaskState.TASK_STATE_CANCELED, cancelled
    await fails(client.cancel_task(CancelTaskRequest(id=waits.id)))
    now = SendMessageConfiguration(return_immediately=True)
    running = await send(request(new_text_part("Talk."), configuration=now))
    states = []
    async for event in streaming.subscribe(SubscribeToTaskRequest(id=running.id)):
        if event.HasField("artifact_update"):
            await client.cancel_task(CancelTaskRequest(id=running.id))
        if event.HasField("status_update"):
            states.append(event.status_update.status.state)
    assert states[-1] == TaskState.TASK_STATE_CANCELED, states

    error = await fails(client.get_task(GetTaskRequest(id="a.b")))
    assert "no such task" in str(error), error
    await http.aclose()


asyncio.run(main())
