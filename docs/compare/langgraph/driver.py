"""The rows of the comparison with LangGraph: `create_agent` of langchain, with a checkpointer."""

import asyncio
import os
import pathlib
import sys

os.environ.setdefault("LANGSMITH_TRACING", "false")
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "common"))
import common
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Command


@tool
def echo(text: str) -> str:
    """Returns the text."""
    return common.echo(text)


@tool
def boom() -> str:
    """Fails."""
    return common.boom()


@tool
async def hang() -> str:
    """Never returns."""
    return await common.hang()


@tool
async def charge(euros: int) -> str:
    """Charges a card."""
    return await common.charge(euros)


@tool
async def pay(euros: int) -> str:
    """Pays, if approved."""
    return await common.charge(euros)


def agent(checkpointer):
    model = ChatOpenAI(
        model="mock", base_url=common.URL, api_key="none", use_responses_api=False
    )
    asks = HumanInTheLoopMiddleware(interrupt_on={"pay": True})
    return create_agent(
        model,
        tools=[echo, boom, hang, charge, pay],
        system_prompt="You call the tools.",
        middleware=[asks] if common.ROW in ("ask", "approve") else [],
        checkpointer=checkpointer,
    )


def limited():
    """A graph by hand, because `create_agent` sets no time limit of its nodes."""
    model = ChatOpenAI(
        model="mock", base_url=common.URL, api_key="none", use_responses_api=False
    ).bind_tools([hang])

    async def ask(state: MessagesState):
        return {"messages": [await model.ainvoke(state["messages"])]}

    builder = StateGraph(MessagesState)
    builder.add_node("model", ask)
    builder.add_node("tools", ToolNode([hang]), timeout=1)
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", tools_condition)
    builder.add_edge("tools", "model")
    return builder.compile(checkpointer=InMemorySaver())


def thread(number):
    return {"configurable": {"thread_id": str(number)}}


async def prompt(graph, text, number=0):
    result = await graph.ainvoke(
        {"messages": [{"role": "user", "content": text}]}, thread(number), durability="sync"
    )
    return result["messages"][-1].text


async def stored():
    """The rows in which a second process continues what the first one has begun."""
    path = str(common.DIR / "checkpoints.db")
    async with AsyncSqliteSaver.from_conn_string(path) as saver:
        graph = agent(saver)
        if common.ROW == "resume":
            async def resume():
                result = await graph.ainvoke(None, thread(0), durability="sync")
                return result["messages"][-1].text

            return await common.end_of(resume())
        if common.ROW == "approve":
            action = {"name": "pay", "args": {"euros": 5}}
            decisions = [{"type": "edit", "edited_action": action}]
            result = await graph.ainvoke(Command(resume={"decisions": decisions}), thread(0))
            return {"end": result["messages"][-1].text}
        if common.ROW == "ask":
            await prompt(graph, common.TEXTS["ask"])
            return {"pending": len((await graph.aget_state(thread(0))).interrupts)}
        return await common.end_of(prompt(graph, common.TEXTS[common.ROW]))


async def main():
    if common.ROW.split("_")[0] in ("limit", "tests", "debate", "sleep", "wake", "map"):
        import jobs

        return await jobs.run()
    if common.ROW in ("kill", "resume", "ask", "approve"):
        return await stored()
    graph = agent(InMemorySaver())
    if common.ROW == "turns":
        return await common.turns(lambda text: prompt(graph, text))
    if common.ROW == "agents":
        return await common.agents(lambda number, text: prompt(graph, text, number))
    if common.ROW == "hang_limited":
        graph = limited()
    if common.ROW == "steer":
        # The library has no input for a thread that is running; a state update is the nearest.
        async def steer():
            await common.wait_for_effect()
            message = {"role": "user", "content": "STEER in dollars"}
            await graph.aupdate_state(thread(0), {"messages": [message]})

        task = asyncio.create_task(steer())
        end = await common.end_of(prompt(graph, common.TEXTS["steer"]))
        await task
        return end
    return await common.end_of(prompt(graph, common.TEXTS[common.ROW]))


common.show(asyncio.run(main()))
