// The AI SDK with the official clients: `node ai_sdk.mjs ADDRESS`, or `... ADDRESS resume CHAT` for
// the part of a test that a new process does, or `... - check FILE` for chunks in a file.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { PassThrough } from 'node:stream';
import { promisify } from 'node:util';

import { Chat, useChat } from '@ai-sdk/react';
import {
  DefaultChatTransport,
  lastAssistantMessageIsCompleteWithApprovalResponses,
  lastAssistantMessageIsCompleteWithToolCalls,
  readUIMessageStream,
  uiMessageChunkSchema,
  validateUIMessages,
} from 'ai';
import { render } from 'ink';
import { createElement } from 'react';

const [address, mode, chat] = process.argv.slice(2);
const api = `${address}/ai-sdk/shepherd`;
const kinds = new Set();
const tick = () => new Promise((done) => setImmediate(done));

/** A transport that also checks each chunk, and keeps it. */
class Checked extends DefaultChatTransport {
  chunks = [];

  processResponseStream(stream) {
    const keep = async (chunk, controller) => {
      const checked = await uiMessageChunkSchema().validate(chunk);
      assert.ok(checked.success, JSON.stringify(chunk));
      kinds.add(chunk.type);
      this.chunks.push(chunk);
      controller.enqueue(chunk);
    };
    return super.processResponseStream(stream).pipeThrough(new TransformStream({ transform: keep }));
  }
}

/** Returns a chat, and its transport, which sends answers when there are no further questions. */
function client(id, messages = []) {
  const transport = new Checked({ api });
  const chat = new Chat({
    id,
    messages,
    transport,
    onError: () => {},
    sendAutomaticallyWhen: (state) =>
      lastAssistantMessageIsCompleteWithApprovalResponses(state) ||
      lastAssistantMessageIsCompleteWithToolCalls(state),
  });
  return { chat, transport };
}

const parts = (chat, type) => chat.lastMessage.parts.filter((part) => part.type === type);
const texts = (chat) => parts(chat, 'text').map((part) => part.text);
const saved = async (id) => (await (await fetch(`${api}/${id}/messages`)).json()).messages;

async function until(condition) {
  const start = Date.now();
  while (!condition()) {
    assert.ok(Date.now() - start < 60_000, `never: ${condition}`);
    await tick();
  }
}

/** Waits until the chat has sent its answers, and has the reply. */
async function settled(chat, condition) {
  await until(() => chat.status === 'error' || (chat.status === 'ready' && condition()));
  assert.equal(chat.status, 'ready', chat.error);
}

/** A page that is loaded later has the same messages, except for data that exists only while streaming. */
async function isSaved(chat) {
  const messages = await saved(chat.id);
  await validateUIMessages({ messages });
  const kept = (part) => part.type !== 'data-progress';
  const shape = (message) => [message.id, message.role, message.parts.filter(kept).map((p) => [p.type, p.text, p.state === 'done' ? undefined : p.state, p.output])];
  const own = chat.messages.map(shape).map(([id, role, list]) => [id, role, list]);
  const same = (messages) => messages.map(([id, role, list]) => (role === 'user' ? [id, role] : [id, role, list]));
  assert.deepEqual(same(JSON.parse(JSON.stringify(messages.map(shape)))), same(JSON.parse(JSON.stringify(own))));
}

async function reasoningTextAndTools() {
  const { chat, transport } = client('talk');
  await chat.sendMessage({ text: 'How many sheep are there?' });
  assert.equal(chat.status, 'ready', chat.error);
  assert.deepEqual(texts(chat), ['Nine sheep.']);
  assert.deepEqual(parts(chat, 'data-weather')[0].data, 'rain');
  assert.equal(chat.lastMessage.metadata.usage.input, 5);
  assert.equal(transport.chunks.at(-1).finishReason, 'stop');

  await chat.sendMessage({ text: 'count' });
  assert.equal(parts(chat, 'reasoning')[0].text, 'Let me see.');
  assert.deepEqual(texts(chat), ['I count.', 'count: 9']);
  const [tool] = parts(chat, 'tool-count');
  assert.deepEqual([tool.state, tool.input, tool.output], ['output-available', {}, '9']);
  await isSaved(chat);
}

async function approvals() {
  const { chat, transport } = client('pay');
  await chat.sendMessage({ text: 'pay' });
  const [asked] = parts(chat, 'tool-pay');
  assert.deepEqual([asked.state, asked.input], ['approval-requested', { amount: 3 }]);
  assert.equal(transport.chunks.at(-1).finishReason, 'tool-calls');
  await chat.addToolApprovalResponse({ id: asked.approval.id, approved: true });
  await settled(chat, () => texts(chat).length === 1);
  assert.deepEqual(texts(chat), ['pay: paid']);
  assert.equal(chat.messages.length, 2);
  assert.equal(parts(chat, 'tool-pay')[0].output, 'paid');
  await isSaved(chat);

  await chat.sendMessage({ text: 'pay twice' });
  const [first, second] = parts(chat, 'tool-pay');
  await chat.addToolApprovalResponse({ id: first.approval.id, approved: true });
  await chat.addToolApprovalResponse({ id: second.approval.id, approved: false, reason: 'Too much.' });
  await settled(chat, () => texts(chat).length === 1);
  assert.deepEqual(parts(chat, 'tool-pay').map((part) => part.state), ['output-available', 'output-denied']);
  await isSaved(chat);
}

async function questions() {
  const { chat } = client('ask');
  await chat.sendMessage({ text: 'ask' });
  const [asked] = parts(chat, 'tool-ask_user');
  assert.equal(asked.state, 'input-available');
  assert.deepEqual(asked.toolMetadata.responseSchema, { type: 'string', enum: ['red', 'blue'] });
  await chat.addToolOutput({ tool: 'ask_user', toolCallId: asked.toolCallId, output: 'green' });
  await until(() => chat.status === 'error');
  assert.match(chat.error.message, /red/);
  await chat.addToolOutput({ tool: 'ask_user', toolCallId: asked.toolCallId, output: 'blue' });
  await settled(chat, () => texts(chat).length === 1);
  assert.match(texts(chat)[0], /^ask_user: .*blue/s);
}

async function subAgents() {
  const { chat } = client('delegate');
  await chat.sendMessage({ text: 'delegate' });
  const [asked] = parts(chat, 'tool-pay');
  assert.deepEqual([asked.state, asked.toolCallId], ['approval-requested', 'h~p']);
  await chat.addToolApprovalResponse({ id: asked.approval.id, approved: true });
  await settled(chat, () => texts(chat).length === 1);
  assert.deepEqual(texts(chat), ['helper: I have paid.']);
  assert.equal(parts(chat, 'tool-helper')[0].output, 'I have paid.');
}

async function failures() {
  const { chat } = client('fail');
  await chat.sendMessage({ text: 'fail' });
  assert.match(chat.error.message, /The key is wrong/);
  await chat.sendMessage({ text: 'withdraw' });
  assert.deepEqual(texts(chat), ['Right.']);
  await chat.regenerate();
  assert.match(chat.error.message, /only appended to/);
  await chat.sendMessage({ text: 'Hello?', messageId: chat.messages[0].id });
  assert.match(chat.error.message, /not changed/);
}

async function stop() {
  const { chat, transport } = client('hang');
  const running = chat.sendMessage({ text: 'hang' });
  await until(() => chat.messages.length === 2 && texts(chat)[0] === 'I hang.');
  const headers = { 'content-type': 'application/json' };
  const stopped = await fetch(`${api}/hang/stop`, { method: 'POST', headers, body: '{}' });
  assert.equal(stopped.status, 202);
  await running;
  assert.deepEqual(transport.chunks.slice(-2).map((chunk) => chunk.type), ['abort', 'finish']);
  await chat.sendMessage({ text: 'How many?' });
  assert.deepEqual(texts(chat), ['Nine sheep.']);
}

// `stop` closes the connection in mid-run. The run continues, and a page in a new process resumes it.
async function reload() {
  const { chat } = client('slow');
  const running = chat.sendMessage({ text: 'slow' });
  await until(() => chat.messages.length === 2 && texts(chat)[0] === 'Slowly, ');
  await chat.stop();
  await running;
  const { stdout } = await promisify(execFile)(process.execPath, [process.argv[1], address, 'resume', 'slow']);
  assert.match(stdout, /resumed/);
}

/** Renders the hook of a page, which resumes the chat as it is loaded. */
async function resume() {
  const messages = await saved(chat);
  assert.equal(messages[0].parts[0].text, 'slow');
  let hook;
  const Page = () => {
    hook = useChat({ id: chat, messages, transport: new Checked({ api }), resume: true });
    return null;
  };
  const page = render(createElement(Page), { stdout: new PassThrough(), patchConsole: false });
  const text = () => hook.messages.at(-1).parts.filter((part) => part.type === 'text').map((part) => part.text).join('');
  await until(() => hook.messages.length === 2 && text() === 'Slowly, ');
  await client('other').chat.sendMessage({ text: 'open' });
  await until(() => hook.status === 'ready');
  assert.equal(text(), 'Slowly, nine.');
  page.unmount();
  assert.equal((await saved(chat)).length, 2);
  const { chat: later } = client(chat, await saved(chat));
  await later.resumeStream(); // no run is in progress
  assert.equal(texts(later).join(''), 'Slowly, nine.');
  console.log('resumed');
}

// Each chunk of the file conforms to the schema, and the chunks of each response form a message.
async function check() {
  for (const response of readFileSync(chat, 'utf8').trim().split('\n\n')) {
    const chunks = response.split('\n').map((line) => JSON.parse(line));
    for (const chunk of chunks) {
      const checked = await uiMessageChunkSchema().validate(chunk);
      assert.ok(checked.success, JSON.stringify(chunk));
      kinds.add(chunk.type);
    }
    let message;
    for await (const state of readUIMessageStream({ stream: ReadableStream.from(chunks) })) message = state;
    await validateUIMessages({ messages: [message] });
  }
  for (const kind of ['reset-step', 'steering-message', 'tool-output-denied', 'tool-output-error', 'abort', 'error']) assert.ok(kinds.has(kind), kind);
  console.log([...kinds].sort().join(' '));
}

if (mode === 'check') {
  await check();
} else if (mode === 'resume') {
  await resume();
} else {
  for (const part of [reasoningTextAndTools, approvals, questions, subAgents, failures, stop, reload]) {
    await part();
    console.log(`${part.name}: ok`);
  }
  console.log([...kinds].sort().join(' '));
}
