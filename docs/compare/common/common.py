"""What the Python drivers share: arguments, the effects of tools, and figures of the process."""

import asyncio
import json
import os
import pathlib
import sys
import time

TURNS = 100
AGENTS = 200
WARM_UP = 20
WAIT_SECONDS = float(os.environ.get("WAIT_SECONDS", 20))
ROW = sys.argv[1]
DIR = pathlib.Path(sys.argv[2])
URL = os.environ["MOCK"]
SLOW = float(os.environ.get("SLOW", 0))
SLEEP = float(os.environ.get("SLEEP", 5))
# Documents of about 500 tokens; a note on one takes 150 to 250 ms and 100 tokens.
TEXT = "The parties agree on the following. " * 56
DOCUMENTS = [f"HOLD {150 + n * 37 % 100} 500 100 Document {n}: {TEXT}" for n in range(1, 21)]
# The limit of the notes: 11 of them cost $0.02475 and 6,600 tokens, 12 cost $0.0270 and 7,200.
DOLLARS, TOKENS = "0.025", 6_700

# The prompt of the row `tests`.
TASK = 'Write the code. CALL write_code {"code": "1"}'

TEXTS = {
    "panic": "CALL boom {}",
    "hang": "CALL hang {}",
    "hang_limited": "CALL hang {}",
    "kill": 'CALL charge {"euros": 20}',
    "steer": 'CALL charge {"euros": 20}',
    "ask": 'CALL pay {"euros": 20}',
    "args": 'CALL charge {"euros": "twenty"}',
    "args_text": 'CALL charge {"euros": "20"}',
}


def echo(text):
    return text


def look():
    return "There is more to look at."


def write_code(code):
    (DIR / "code").write_text(code)
    return "written"


def run_tests():
    """Returns whether the tests pass, as the third version does, and what they print."""
    code = int((DIR / "code").read_text())
    with open(DIR / "effects", "a", encoding="utf-8") as file:
        file.write(f"{code}\n")
    if code >= 3 and "BROKEN" not in os.environ:
        return True, "3 tests passed"
    return False, f'Version {code} is wrong. CALL write_code {{"code": "{code + 1}"}}'


def boom():
    raise RuntimeError("boom")


async def hang():
    await asyncio.get_running_loop().create_future()


async def charge(euros):
    """Records an effect outside the process: a line of the file `effects`."""
    with open(DIR / "effects", "a", encoding="utf-8") as file:
        file.write(f"{euros}\n")
    await asyncio.sleep(SLOW)
    return f"charged {euros} euros"


async def wait_for_effect():
    path = DIR / "effects"
    while not (path.exists() and path.read_text().endswith("\n")):
        await asyncio.sleep(0.005)


def rss_kib():
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return 0


async def end_of(run):
    """Returns the end of a run: its text, its error, or that it did not end."""
    start = time.monotonic()
    try:
        text = await asyncio.wait_for(run, WAIT_SECONDS)
        end = {"end": str(text)}
    except asyncio.TimeoutError:
        end = {"end": None}
    except Exception as error:
        end = {"error": f"{type(error).__name__}: {error}"[:300]}
    return {**end, "seconds": time.monotonic() - start}


async def turns(turn):
    wall, cpu = [], []
    for number in range(1, TURNS + 1):
        start, used = time.perf_counter(), time.process_time()
        await turn(f'Turn {number}. CALL echo {{"text": "{number}"}}')
        wall.append((time.perf_counter() - start) * 1e3)
        cpu.append((time.process_time() - used) * 1e3)
    return {"wall_ms": wall, "cpu_ms": cpu}


async def agents(start):
    """Measures conversations of one turn that stay alive, in what `start` returns."""
    text = 'Hello. CALL echo {"text": "hello"}'
    live = [await start(number, text) for number in range(WARM_UP)]
    rss, cpu = rss_kib(), time.process_time()
    for number in range(WARM_UP, WARM_UP + AGENTS):
        live.append(await start(number, text))
    cpu_ms = (time.process_time() - cpu) * 1e3 / AGENTS
    kib = (rss_kib() - rss) / AGENTS
    del live
    return {"agents": AGENTS, "cpu_ms_per_turn": cpu_ms, "kib_per_agent": kib}


def show(result):
    print(json.dumps(result), flush=True)
    os._exit(0)  # a tool that hangs is not waited for
