// Reads the streams with an independent client, the `eventsource-parser` package. Usage: node client.mjs URL FILE
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";

const { createParser } = createRequire(process.env.MODULES + "/")("eventsource-parser");
const [url, file] = process.argv.slice(2);
const json = { "Content-Type": "application/json" };
const text = readFileSync(file, "utf8");

// Returns the events of a stream, until `last` returns true for one.
async function read(path, options, last) {
  const response = await fetch(url + path, options);
  assert.equal(response.status, 200, await (response.ok ? "" : response.text()));
  assert.match(response.headers.get("content-type"), /^text\/event-stream/);
  const events = [];
  const parser = createParser({
    onEvent: (event) => events.push({ ...event, data: JSON.parse(event.data) }),
    onError: (error) => { throw error; },
  });
  const decoder = new TextDecoder();
  for await (const chunk of response.body) {
    parser.feed(decoder.decode(chunk, { stream: true }));
    const end = events.findIndex(last);
    if (end >= 0) return events.slice(0, end + 1);
  }
  assert.fail(`the stream ended after ${JSON.stringify(events.at(-1))}`);
}

async function post(path, body) {
  const response = await fetch(url + path, { method: "POST", headers: json, body: JSON.stringify(body) });
  assert.ok(response.ok, `${path}: ${response.status}`);
  return response.json();
}

// One request: its frames, which contain a file that itself looks like frames.
const llmConfig = { provider: "offline", model: "rules" };
const body = JSON.stringify({ message: "Read sheep.txt", workDir: ".", llmConfig });
const frames = await read("/api/agent-chat", { method: "POST", headers: json, body }, ({ data }) => data.type === "complete");
assert.ok(frames.every(({ id, event }) => id === undefined && event === undefined));
assert.equal(frames[0].data.type, "agent_start");
const result = frames.find(({ data }) => data.type === "tool_result").data;
for (const line of text.split(/\r?\n/)) assert.ok(result.content.includes(line), `${line} is missing: ${result.content}`);

// A live session: every number comes once, and a reader from any number gets exactly the rest.
const { id } = await post("/api/sessions", { workDir: "." });
const events = `/api/sessions/${id}/events`;
const done = ({ event }) => event === "agent_end";
const first = read(events, {}, done);
await post(`/api/sessions/${id}/prompt`, { message: "Read sheep.txt" });
const whole = await first;
// Without times: an event from the log has the time of its run's start or end.
const numbered = (list) => list.filter(({ id }) => id !== undefined).map(({ data: { time, ...data }, ...event }) => ({ ...event, data }));
assert.ok(whole.every(({ event, data }) => event === data.type));
assert.deepEqual(numbered(whole).map(({ id }) => id), numbered(whole).map((_, at) => String(at + 1)));
const counted = numbered(whole).length;
for (let at = 0; at < counted; at += 1) {
  const headers = at === 0 ? {} : { "Last-Event-ID": String(at) };
  const rest = numbered(await read(events, { headers }, done));
  assert.deepEqual(rest, numbered(whole).slice(at), `after ${at}`);
}
console.log(`${frames.length} frames of one request, ${counted} events of a session and what comes after each of them`);
process.exit(0);
