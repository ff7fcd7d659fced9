"""The rows of the comparison with pydantic-ai."""

import asyncio
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "common"))
import common
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, ToolApproved
from pydantic_ai.messages import ModelMessagesTypeAdapter
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

model = OpenAIChatModel("mock", provider=OpenAIProvider(base_url=common.URL, api_key="none"))
agent = Agent(
    model,
    instructions="You call the tools.",
    output_type=[str, DeferredToolRequests],
    tool_timeout=1 if common.ROW == "hang_limited" else None,
)


@agent.tool_plain
def echo(text: str) -> str:
    """Returns the text."""
    return common.echo(text)


@agent.tool_plain
def boom() -> str:
    """Fails."""
    return common.boom()


@agent.tool_plain
async def hang() -> str:
    """Never returns."""
    return await common.hang()


@agent.tool_plain
async def charge(euros: int) -> str:
    """Charges a card."""
    return await common.charge(euros)


@agent.tool_plain(requires_approval=True)
async def pay(euros: int) -> str:
    """Pays, if approved."""
    return await common.charge(euros)


async def prompt(text):
    return (await agent.run(text)).output


async def steered(text):
    async with agent.iter(text) as run:

        async def steer():
            await common.wait_for_effect()
            run.enqueue("STEER in dollars")

        task = asyncio.create_task(steer())
        async for _ in run:
            pass
        await task
        return run.result.output


async def durable():
    """A run in a workflow of DBOS, one of the engines that pydantic-ai integrates."""
    from dbos import DBOS, SetWorkflowID
    from pydantic_ai.durable_exec.dbos import DBOSDurability

    database = f"sqlite:///{common.DIR / 'dbos.sqlite'}"
    DBOS(config={"name": "compare", "system_database_url": database, "run_admin_server": False})
    # As the documentation asks: a tool with effects is a step.
    tool = DBOS.step()(charge_step)
    worker = Agent(model, name="worker", tools=[tool], capabilities=[DBOSDurability()])

    @DBOS.workflow()
    async def work(text: str) -> str:
        return (await worker.run(text)).output

    DBOS.launch()
    if common.ROW == "kill_durable":
        with SetWorkflowID("w"):
            return await work(common.TEXTS["kill"])
    return await (await DBOS.retrieve_workflow_async("w")).get_result()


async def charge_step(euros: int) -> str:
    """Charges a card."""
    return await common.charge(euros)


charge_step.__name__ = "charge"


async def main():
    if common.ROW.split("_")[0] in ("limit", "tests", "debate", "sleep", "wake", "map"):
        import jobs

        return await jobs.run()
    saved = common.DIR / "messages.json"
    if common.ROW == "turns":
        history = []

        async def turn(text):
            nonlocal history
            history = (await agent.run(text, message_history=history)).all_messages()

        return await common.turns(turn)
    if common.ROW == "agents":

        async def start(_, text):
            return (await agent.run(text)).all_messages()

        return await common.agents(start)
    if common.ROW == "ask":
        result = await agent.run(common.TEXTS["ask"])
        saved.write_bytes(result.all_messages_json())
        return {"pending": len(result.output.approvals)}
    if common.ROW == "approve":
        history = ModelMessagesTypeAdapter.validate_json(saved.read_bytes())
        call = history[-1].tool_calls[0].tool_call_id
        edited = ToolApproved(override_args={"euros": 5})
        answer = DeferredToolResults(approvals={call: edited})
        run = agent.run(message_history=history, deferred_tool_results=answer)
        return {"end": (await run).output}
    if common.ROW in ("kill", "resume"):
        return await common.end_of(prompt(common.TEXTS.get(common.ROW, "Go on.")))
    if common.ROW in ("kill_durable", "resume_durable"):
        return await common.end_of(durable())
    run = steered if common.ROW == "steer" else prompt
    return await common.end_of(run(common.TEXTS[common.ROW]))


common.show(asyncio.run(main()))
