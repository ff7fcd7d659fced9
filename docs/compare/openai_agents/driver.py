"""The rows of the comparison with the OpenAI Agents SDK."""

import asyncio
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "common"))
import common
from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    Runner,
    RunState,
    SQLiteSession,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI

set_tracing_disabled(True)
limit = 1 if common.ROW == "hang_limited" else None


@function_tool
def echo(text: str) -> str:
    """Returns the text."""
    return common.echo(text)


@function_tool
def boom() -> str:
    """Fails."""
    return common.boom()


@function_tool(timeout=limit)
async def hang() -> str:
    """Never returns."""
    return await common.hang()


@function_tool
async def charge(euros: int) -> str:
    """Charges a card."""
    return await common.charge(euros)


@function_tool(needs_approval=True)
async def pay(euros: int) -> str:
    """Pays, if approved."""
    return await common.charge(euros)


model = OpenAIChatCompletionsModel("mock", AsyncOpenAI(base_url=common.URL, api_key="none"))
agent = Agent(
    name="agent",
    instructions="You call the tools.",
    model=model,
    tools=[echo, boom, hang, charge, pay],
)


async def prompt(text, session=None):
    return (await Runner.run(agent, text, session=session)).final_output


async def main():
    saved = common.DIR / "state.json"
    if common.ROW == "turns":
        session = SQLiteSession("s")  # in memory
        return await common.turns(lambda text: prompt(text, session))
    if common.ROW == "agents":

        async def start(_, text):
            return (await Runner.run(agent, text)).to_input_list()

        return await common.agents(start)
    if common.ROW == "ask":
        result = await Runner.run(agent, common.TEXTS["ask"])
        saved.write_text(json.dumps(result.to_state().to_json()))
        return {"pending": len(result.interruptions)}
    if common.ROW == "approve":
        # An approval has no arguments: `RunState.approve(item, always_approve)`.
        state = await RunState.from_json(agent, json.loads(saved.read_text()))
        for item in state.get_interruptions():
            state.approve(item)
        return {"end": (await Runner.run(agent, state)).final_output}
    if common.ROW in ("kill", "resume"):
        session = SQLiteSession("s", common.DIR / "sessions.db")
        text = common.TEXTS.get(common.ROW, "Go on.")
        return await common.end_of(prompt(text, session))
    if common.ROW == "steer":
        # Neither `Runner` nor the result of a run takes an input while the run is in progress.
        return {"not_offered": True}
    return await common.end_of(prompt(common.TEXTS[common.ROW]))


common.show(asyncio.run(main()))
