// The official client of npm, `@a2a-js/sdk`.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import {
  ClientFactory, DefaultAgentCardResolver, JsonRpcTransportFactory,
} from "@a2a-js/sdk/client";
import { Role, TaskState } from "@a2a-js/sdk";

const [address, token] = process.argv.slice(2);
const fetchImpl = (url, init = {}) => {
  const headers = new Headers(init.headers);
  headers.set("authorization", `Bearer ${token}`);
  return fetch(url, { ...init, headers });
};
const factory = new ClientFactory({
  transports: [new JsonRpcTransportFactory({ fetchImpl })],
  cardResolver: new DefaultAgentCardResolver({ fetchImpl }),
});
const client = await factory.createFromUrl(address);
const card = await client.getAgentCard();
assert.equal(card.name, "shepherd");
assert.equal(card.capabilities.streaming, true);
const cardOfAgent = `${address}/a2a/shepherd/.well-known/agent-card.json`;
const named = await factory.createFromUrl(cardOfAgent, "");
assert.equal((await named.getAgentCard()).name, "shepherd");

const part = (content) => ({ content, metadata: undefined, filename: "", mediaType: "" });
const text = (value) => part({ $case: "text", value });
const data = (value) => part({ $case: "data", value });
const request = (parts, fields = {}, configuration = undefined) => ({
  tenant: "",
  message: {
    messageId: randomUUID(), contextId: "", taskId: "", role: Role.ROLE_USER, parts,
    metadata: undefined, extensions: [], referenceTaskIds: [], ...fields,
  },
  configuration, metadata: undefined,
});
const texts = (artifacts) =>
  artifacts.map((it) => it.parts.map((one) => one.content.value).join(""));
const dataOf = (message) =>
  message.parts.filter((it) => it.content.$case === "data").map((it) => it.content.value);

// A message and its task.
const task = await client.sendMessage(request([text("How many?")]));
assert.equal(task.status.state, TaskState.TASK_STATE_COMPLETED);
assert.deepEqual(texts(task.artifacts), ["Nine."]);
assert.deepEqual(texts(task.history), ["How many?"]);
const { id, contextId } = task;
const got = await client.getTask({ tenant: "", id, historyLength: undefined });
assert.deepEqual([got.id, got.contextId, got.status.state],
  [id, contextId, TaskState.TASK_STATE_COMPLETED]);

// A stream, in the same context.
let streamed = "";
let states = [];
let first;
for await (const { payload } of client.sendMessageStream(request([text("Sure?")], { contextId }))) {
  first ??= payload;
  if (payload.$case === "artifactUpdate") {
    const { artifact, append } = payload.value;
    streamed = (append ? streamed : "") + artifact.parts[0].content.value;
  }
  if (payload.$case === "statusUpdate") states.push(payload.value.status.state);
}
assert.equal(first.$case, "task");
assert.equal(first.value.contextId, contextId);
assert.equal(streamed, "Nine.");
assert.deepEqual(states, [TaskState.TASK_STATE_WORKING, TaskState.TASK_STATE_COMPLETED]);
const list = await client.listTasks({
  tenant: "", contextId, status: TaskState.TASK_STATE_UNSPECIFIED, pageToken: "", includeArtifacts: true,
});
assert.equal(list.totalSize, 2);
assert.equal(list.tasks[1].id, id);

// Approvals: the decision names the action that was shown.
const ask = async (message) => {
  const waiting = await client.sendMessage(request([text(message)]));
  assert.equal(waiting.status.state, TaskState.TASK_STATE_INPUT_REQUIRED);
  return [waiting, dataOf(waiting.status.message)[0]];
};
const decide = ({ id, contextId }, decision) =>
  client.sendMessage(request([data(decision)], { taskId: id, contextId }));
const [sale, action] = await ask("Sell.");
assert.deepEqual([action.name, action.arguments], ["sell", { what: "sheep" }]);
const { call, digest } = action;
const fails = async (promise) => promise.then(() => assert.fail("it succeeded"), (error) => error);
await fails(client.sendMessage(request([text("Yes!")], { taskId: sale.id })));
await fails(decide(sale, { call, digest: "other", decision: "approve" }));
const sold = await decide(sale, { call, digest, decision: "approve" });
assert.equal(sold.id, sale.id);
assert.equal(sold.status.state, TaskState.TASK_STATE_COMPLETED);
assert.deepEqual(texts(sold.artifacts), ["I sell.", "Sold."]);
await fails(client.sendMessage(request([text("More.")], { taskId: sale.id })));

const [other, denied] = await ask("Sell.");
const kept = await decide(other, { ...denied, decision: "deny", reason: "Not today." });
assert.deepEqual(texts(kept.artifacts), ["I sell.", "Not sold."]);

// Questions: a text answers.
const [asked] = await ask("Where?");
assert.match(asked.status.message.parts[0].content.value, /Which field/);
const answered = await client.sendMessage(request([text("north")], { taskId: asked.id }));
assert.deepEqual(texts(answered.artifacts), ["North it is."]);

// Cancelled while it waits, and while it runs.
const [waits] = await ask("Sell.");
const cancelled = await client.cancelTask({ tenant: "", id: waits.id, metadata: undefined });
assert.equal(cancelled.status.state, TaskState.TASK_STATE_CANCELED);
await fails(client.cancelTask({ tenant: "", id: waits.id, metadata: undefined }));
const now = { acceptedOutputModes: [], returnImmediately: true };
const running = await client.sendMessage(request([text("Talk.")], {}, now));
assert.ok([TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING]
  .includes(running.status.state));
states = [];
for await (const { payload } of client.resubscribeTask({ tenant: "", id: running.id })) {
  if (payload.$case === "artifactUpdate") {
    await client.cancelTask({ tenant: "", id: running.id, metadata: undefined });
  }
  if (payload.$case === "statusUpdate") states.push(payload.value.status.state);
}
assert.equal(states.at(-1), TaskState.TASK_STATE_CANCELED);

const unknown = await fails(client.getTask({ tenant: "", id: "a.b", historyLength: undefined }));
assert.match(String(unknown), /no such task/i);
