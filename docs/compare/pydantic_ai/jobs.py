"""The rows `limit`, `tests`, `debate`, `sleep` and `map` with pydantic-ai.

The lines between marks are counted.
"""

import asyncio
from decimal import Decimal

import common
from pydantic_ai import Agent, RunUsage, UsageLimits
from pydantic_ai.capabilities import PrepareTools
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider


def named(name):
    return OpenAIChatModel(name, provider=OpenAIProvider(base_url=common.URL, api_key="none"))


# The prices of this name are known: $2.50 and $10 for a million tokens.
model = named("gpt-4o")


def look() -> str:
    """Looks."""
    return common.look()


def write_code(code: str) -> str:
    """Replaces the code."""
    return common.write_code(code)


async def limit():
    """The library's limit, which raises `UsageLimitExceeded`."""
    agent = Agent(model, tools=[look])
    return (await agent.run("AGAIN look {}", usage_limits=UsageLimits(request_limit=5))).output


# [limit]
def is_last(ctx):
    return ctx.usage.requests >= ctx.usage_limits.request_limit - 1


async def tools_before_the_last(ctx, tools):
    return [] if is_last(ctx) else tools


def note(ctx):
    text = "No tool can be called any more. Answer now with what you have."
    return text if is_last(ctx) else ""
# [/limit]


async def limit_hook():
    """A function of one's own takes the tools away for the last request."""
    # [limit]
    hook = PrepareTools(tools_before_the_last)
    agent = Agent(model, tools=[look], capabilities=[hook], instructions=note)
    return (await agent.run("AGAIN look {}", usage_limits=UsageLimits(request_limit=5))).output
    # [/limit]


async def until_tests_pass():
    # [tests]
    agent = Agent(model, tools=[write_code])
    text, history = common.TASK, []
    for _ in range(5):
        run = await agent.run(text, message_history=history)
        passes, output = common.run_tests()
        if passes:
            return run.output
        text, history = f"The tests fail:\n{output}", run.all_messages()
    with agent.override(tools=[]):
        return (await agent.run(f"{text}\nSum up.", message_history=history)).output
    # [/tests]


async def debate():
    # [debate]
    said = "Ban cars?\n"
    for _ in range(2):
        for side in ("pro", "contra"):
            speech = await Agent(named(side)).run(f"You argue {side}. So far:\n{said}")
            said += f"{side}: {speech.output}\n"
    verdict = await Agent(named("judge")).run(f"The debate:\n{said}Who wins, and why?")
    return verdict.output
    # [/debate]


async def sleep():
    """Sleeps in a workflow of DBOS, one of the engines that pydantic-ai integrates."""
    from dbos import DBOS
    from pydantic_ai.durable_exec.dbos import DBOSDurability

    database = f"sqlite:///{common.DIR / 'dbos.sqlite'}"
    # [sleep]
    DBOS(config={"name": "compare", "system_database_url": database, "run_admin_server": False})
    reporter = Agent(model, name="reporter", capabilities=[DBOSDurability()])

    @DBOS.workflow()
    async def report(text: str) -> str:
        first = await reporter.run(text)
        await DBOS.sleep_async(common.SLEEP)
        history = first.all_messages()
        return (await reporter.run("Write the report now.", message_history=history)).output

    DBOS.launch()
    if common.ROW == "sleep_durable":
        await DBOS.start_workflow_async(report, "Report later.")
    await asyncio.Event().wait()
    # [/sleep]


async def fan_out_and_join():
    # [map]
    reader = Agent(model, max_concurrency=4)
    used, limits = RunUsage(), UsageLimits(cost_limit=Decimal(common.DOLLARS))

    async def read(text):
        return (await reader.run(text, usage=used, usage_limits=limits)).output

    replies = await asyncio.gather(*map(read, common.DOCUMENTS), return_exceptions=True)
    notes = [reply for reply in replies if isinstance(reply, str)]
    text = f"Answer from {len(notes)} of {len(replies)} notes:\n" + "\n".join(notes)
    return (await Agent(model).run(text)).output
    # [/map]


JOBS = {
    "limit": limit,
    "limit_hook": limit_hook,
    "tests": until_tests_pass,
    "debate": debate,
    "sleep_durable": sleep,
    "wake_durable": sleep,
    "map": fan_out_and_join,
}


async def run():
    if common.ROW not in JOBS:  # timers are left to the engines for durable runs
        return {"not_offered": True}
    return await common.end_of(JOBS[common.ROW]())
