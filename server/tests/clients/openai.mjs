// The official client of npm, `openai`, with an agent as the model.
import assert from "node:assert/strict";
import OpenAI from "openai";
import { zodResponseFormat, zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";

const [address, apiKey] = process.argv.slice(2);
const client = new OpenAI({ baseURL: `${address}/v1`, apiKey });
const model = "shepherd";
const ask = (content) => [{ role: "user", content }];
const Flock = z.object({ count: z.number().int() });
const gif = "data:image/gif;base64,R0lGODlhAQABAAAAACwAAAAAAQABAAACAQA7";

// Chat completions.
const nine = await client.chat.completions.create({
  model,
  messages: [{ role: "system", content: "Be brief." }, ...ask("How many?")],
  temperature: 0.5,
  max_completion_tokens: 99,
});
assert.equal(nine.choices[0].message.content, "Nine.");
assert.equal(nine.choices[0].finish_reason, "stop");
assert.deepEqual(nine.usage, {
  prompt_tokens: 12,
  completion_tokens: 5,
  total_tokens: 17,
  prompt_tokens_details: { cached_tokens: 2 },
  completion_tokens_details: { reasoning_tokens: 1 },
});

const stream = client.chat.completions.stream({
  model,
  messages: ask("Count."),
  stream_options: { include_usage: true },
});
const deltas = [];
stream.on("content", (delta) => deltas.push(delta));
const streamed = await stream.finalChatCompletion();
assert.deepEqual(deltas.filter(Boolean), ["I look.", "\n\nNine ", "sheep."]);
assert.equal(streamed.choices[0].message.content, "I look.\n\nNine sheep.");
assert.equal(streamed.choices[0].message.tool_calls, undefined);
assert.ok(streamed.usage.total_tokens >= 0);

const parsed = await client.chat.completions.parse({
  model,
  messages: ask("How many?"),
  response_format: zodResponseFormat(Flock, "flock"),
});
assert.deepEqual(parsed.choices[0].message.parsed, { count: 9 });

const picture = await client.chat.completions.create({
  model,
  messages: [
    ...ask("Hello"),
    { role: "assistant", content: "Hi." },
    ...ask([{ type: "text", text: "What is it?" }, { type: "image_url", image_url: { url: gif } }]),
  ],
});
assert.equal(picture.choices[0].message.content, "A picture.");

// A call that nobody has approved: the run does not wait for it.
const sold = await client.responses.create({ model, input: "Sell." });
assert.equal(sold.output_text, "I look.Not sold.");
const refused = sold.output.find((item) => item.type === "mcp_call");
assert.equal(refused.status, "failed");
assert.match(refused.error.content, /only after a user's approval/);

// Responses.
const whole = await client.responses.create({ model, input: "How many?", metadata: { a: "b" } });
assert.deepEqual(whole.output.map((item) => item.type), ["message", "mcp_call", "message"]);
const [said, call, answer] = whole.output;
assert.deepEqual([said.phase, answer.phase], ["commentary", "final_answer"]);
assert.deepEqual([call.name, call.output, call.status], ["count", "nine sheep", "completed"]);
assert.deepEqual(JSON.parse(call.arguments), { of: "sheep" });
assert.deepEqual([whole.status, whole.metadata, whole.store], ["completed", { a: "b" }, false]);
assert.deepEqual([whole.usage.output_tokens, whole.usage.total_tokens], [5, 17]);

const events = [];
const response = client.responses.stream({
  model,
  input: "How many?",
  reasoning: { effort: "low", summary: "auto" },
});
for await (const event of response) events.push(event);
const final = await response.finalResponse();
const kinds = final.output.map((item) => item.type);
assert.deepEqual(kinds, ["reasoning", "message", "mcp_call", "message"]);
assert.equal(final.output[0].summary[0].text, "Hm.");
assert.equal(final.output[3].content[0].text, "Nine sheep.");
const text = events.filter((event) => event.type === "response.output_text.delta");
assert.deepEqual(text.map((event) => event.delta), ["I look.", "Nine ", "sheep."]);
assert.ok(events.some((event) => event.type === "response.mcp_call.completed"));

const typed = await client.responses.parse({
  model,
  input: "How many?",
  text: { format: zodTextFormat(Flock, "flock") },
});
assert.deepEqual(typed.output_parsed, { count: 9 });

// The output of a response is a part of the next input.
const again = await client.responses.create({
  model,
  input: [...ask("How many?"), ...whole.output, ...ask("Sure?")],
});
assert.equal(again.output_text, "As I said.");

// Models are agents.
const models = [];
for await (const entry of client.models.list()) models.push(entry.id);
assert.deepEqual(models, [model]);
assert.equal((await client.models.retrieve(model)).owned_by, "loopwright");

// Errors have the client's own classes, and a run that failed is not repeated.
const fails = async (promise, type, fields) => {
  const error = await promise.then(() => assert.fail("it succeeded"), (error) => error);
  assert.ok(error instanceof type, String(error));
  const { status, code, param } = error;
  assert.deepEqual({ status, code, param }, fields, String(error));
  return error;
};
const chat = (fields) =>
  client.chat.completions.create({ model, messages: ask("Go."), ...fields });
await fails(chat({ model: "wolf" }), OpenAI.NotFoundError, {
  status: 404, code: "model_not_found", param: "model",
});
await fails(client.models.retrieve("wolf"), OpenAI.NotFoundError, {
  status: 404, code: "model_not_found", param: null,
});
const tool = { type: "function", function: { name: "f", parameters: {} } };
await fails(chat({ tools: [tool] }), OpenAI.BadRequestError, {
  status: 400, code: "bad_request", param: "tools",
});
await fails(chat({ messages: ask([{ type: "image_url", image_url: { url: "https://x.y" } }]) }),
  OpenAI.BadRequestError,
  { status: 400, code: "bad_request", param: "messages[0].content[0].image_url.url" });
const previous = { model, input: "Go.", previous_response_id: "resp_1" };
await fails(client.responses.create(previous), OpenAI.BadRequestError, {
  status: 400, code: "bad_request", param: "previous_response_id",
});
const stranger = new OpenAI({ baseURL: `${address}/v1`, apiKey: "sk-wrong" });
await fails(stranger.models.list(), OpenAI.AuthenticationError, {
  status: 401, code: "invalid_api_key", param: null,
});
const failed = await fails(chat({}), OpenAI.InternalServerError, {
  status: 500, code: "invalid_request", param: null,
});
assert.match(failed.message, /The model refuses/);
const broken = client.responses.stream({ model, input: "Go." });
const last = await broken.finalResponse().catch((error) => error);
assert.ok(last.status === "failed" || last instanceof Error, JSON.stringify(last));
