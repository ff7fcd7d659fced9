"""The rows `limit`, `tests`, `debate`, `sleep` and `map` with LangGraph.

The lines between marks are counted.
"""

import asyncio
import operator
import time
from typing import Annotated, TypedDict

import common
from langchain.agents import create_agent
from langchain.agents.middleware import ModelCallLimitMiddleware, wrap_model_call
from langchain.agents.middleware.model_call_limit import ModelCallLimitState
from langchain_core.callbacks import get_usage_metadata_callback
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, Send, interrupt


def named(name):
    return ChatOpenAI(model=name, base_url=common.URL, api_key="none", use_responses_api=False)


model = named("mock")


@tool
def look() -> str:
    """Looks."""
    return common.look()


@tool
def write_code(code: str) -> str:
    """Replaces the code."""
    return common.write_code(code)


async def limit():
    """The library's limits: of the calls of the model, or of the steps of the graph."""
    config, middleware = {"recursion_limit": 10}, []
    if common.ROW == "limit":
        config, middleware = {}, [ModelCallLimitMiddleware(run_limit=5)]
    agent = create_agent(model, tools=[look], middleware=middleware)
    result = await agent.ainvoke({"messages": [HumanMessage("AGAIN look {}")]}, config)
    return result["messages"][-1].text


# [limit]
@wrap_model_call(state_schema=ModelCallLimitState)
async def last_answer(request, handler):
    if request.state.get("run_model_call_count", 0) < 4:
        return await handler(request)
    note = HumanMessage("No tool can be called any more. Answer now with what you have.")
    return await handler(request.override(tools=[], messages=[*request.messages, note]))
# [/limit]


async def limit_hook():
    """A middleware of one's own makes the last call, without tools."""
    # [limit]
    middleware = [ModelCallLimitMiddleware(run_limit=5), last_answer]
    agent = create_agent(model, tools=[look], middleware=middleware)
    result = await agent.ainvoke({"messages": [HumanMessage("AGAIN look {}")]})
    return result["messages"][-1].text
    # [/limit]


async def until_tests_pass():
    # [tests]
    agent = create_agent(model, tools=[write_code])
    messages = [HumanMessage(common.TASK)]
    for _ in range(5):
        messages = (await agent.ainvoke({"messages": messages}))["messages"]
        passes, output = common.run_tests()
        if passes:
            return messages[-1].text
        messages.append(HumanMessage(f"The tests fail:\n{output}"))
    return (await model.ainvoke([*messages, HumanMessage("Sum up.")])).text
    # [/tests]


# [debate]
class Debate(TypedDict):
    said: Annotated[list[str], operator.add]
    verdict: str


async def speak(state):
    side = ("pro", "contra")[len(state["said"]) % 2]
    text = f"Ban cars? You argue {side}. So far:\n" + "\n".join(state["said"])
    return {"said": [f"{side}: {(await named(side).ainvoke(text)).text}"]}


async def judge(state):
    text = "Ban cars? The debate:\n" + "\n".join(state["said"]) + "\nWho wins, and why?"
    return {"verdict": (await named("judge").ainvoke(text)).text}


def speaks_on(state):
    return "speak" if len(state["said"]) < 4 else "judge"
# [/debate]


async def debate():
    # [debate]
    builder = StateGraph(Debate)
    builder.add_node(speak).add_node(judge).add_edge(START, "speak")
    builder.add_conditional_edges("speak", speaks_on, ["speak", "judge"])
    return (await builder.compile().ainvoke({"said": []}))["verdict"]
    # [/debate]


# [sleep]
class Report(MessagesState):
    until: float


def set_alarm(state):
    return {"until": time.time() + common.SLEEP}


def wait(state):
    interrupt(state["until"])
    return {"messages": [HumanMessage("Write the report now.")]}


async def keep_waking(graph, saver):
    while True:
        saved = [checkpoint async for checkpoint in saver.alist(None)]
        for name in {checkpoint.config["configurable"]["thread_id"] for checkpoint in saved}:
            thread = {"configurable": {"thread_id": name}}
            state = await graph.aget_state(thread)
            if any(alarm.value <= time.time() for alarm in state.interrupts):
                await graph.ainvoke(Command(resume=True), thread, durability="sync")
        await asyncio.sleep(1)
# [/sleep]


async def sleep():
    """Waits at an interrupt; a loop of one's own is the alarm, since the library has none."""
    path = str(common.DIR / "checkpoints.db")
    # [sleep]
    agent = create_agent(model, tools=[])
    builder = StateGraph(Report)
    nodes = [("answer", agent), ("alarm", set_alarm), ("wait", wait), ("report", agent)]
    builder.add_sequence(nodes).add_edge(START, "answer")
    async with AsyncSqliteSaver.from_conn_string(path) as saver:
        graph = builder.compile(checkpointer=saver)
        if common.ROW == "sleep_alarm":
            thread = {"configurable": {"thread_id": "report"}}
            messages = {"messages": [HumanMessage("Report later.")]}
            await graph.ainvoke(messages, thread, durability="sync")
        await keep_waking(graph, saver)
    # [/sleep]


# [map]
class Review(TypedDict):
    documents: list[str]
    notes: Annotated[list[str], operator.add]
    answer: str


def fan_out(state):
    return [Send("read", text) for text in state["documents"]]


async def join(state):
    notes = state["notes"]
    text = f"Answer from {len(notes)} of {len(state['documents'])} notes:\n" + "\n".join(notes)
    return {"answer": (await model.ainvoke(text)).text}
# [/map]


async def fan_out_and_join():
    """The library has no budget, so a node looks at the usage before its request."""
    # [map]
    with get_usage_metadata_callback() as used:

        async def read(text):
            tokens = sum(usage["total_tokens"] for usage in used.usage_metadata.values())
            if tokens >= common.TOKENS:
                return {}
            return {"notes": [(await model.ainvoke(text)).text]}

        builder = StateGraph(Review)
        builder.add_node("read", read).add_node("join", join)
        builder.add_conditional_edges(START, fan_out, ["read"]).add_edge("read", "join")
        state = {"documents": common.DOCUMENTS}
        result = await builder.compile().ainvoke(state, {"max_concurrency": 4})
        return result["answer"]
    # [/map]


JOBS = {
    "limit": limit,
    "limit_steps": limit,
    "limit_hook": limit_hook,
    "tests": until_tests_pass,
    "debate": debate,
    "sleep_alarm": sleep,
    "wake_alarm": sleep,
    "map": fan_out_and_join,
}


async def run():
    if common.ROW not in JOBS:  # there is no timer
        return {"not_offered": True}
    return await common.end_of(JOBS[common.ROW]())
