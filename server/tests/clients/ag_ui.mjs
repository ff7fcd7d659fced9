// AG-UI with the official client: `node ag_ui.mjs ADDRESS`, or `... ADDRESS follow THREAD` for the
// part of a test that a new process does, or `... - check FILE` for events in a file.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { promisify } from 'node:util';

import { HttpAgent, buildResumeArray, verifyEvents } from '@ag-ui/client';
import { EventSchemas } from '@ag-ui/core/schemas';
import { from, lastValueFrom } from 'rxjs';

const [address, mode, thread] = process.argv.slice(2);
const url = `${address}/ag-ui/shepherd`;
const kinds = new Set();

// The client warns about parts of an event that it would drop or convert.
console.warn = (...why) => assert.fail(why.join(' '));

/** Returns an agent, and the events that it receives. Each is checked. */
function client(threadId, messages = []) {
  const agent = new HttpAgent({ url, threadId, initialMessages: messages });
  const events = [];
  agent.subscribe({
    onEvent({ event }) {
      EventSchemas.parse(event);
      kinds.add(event.type);
      events.push(event);
    },
  });
  return { agent, events };
}

async function say(agent, text, parameters) {
  agent.addMessage({ id: crypto.randomUUID(), role: 'user', content: text });
  return agent.runAgent(parameters);
}

const texts = (agent, role) => agent.messages.filter((m) => m.role === role).map((m) => m.content);
const last = (events) => events.at(-1);
const of = (events, type) => events.filter((event) => event.type === type);
const resolve = (agent, responses) => {
  const answers = agent.pendingInterrupts.map((i) => [i.id, responses(i)]);
  return agent.runAgent({ resume: buildResumeArray(agent.pendingInterrupts, Object.fromEntries(answers)) });
};

async function reasoningTextAndTools() {
  const { agent, events } = client('talk');
  await say(agent, 'How many sheep are there?');
  assert.deepEqual(texts(agent, 'assistant'), ['Nine sheep.']);
  assert.deepEqual(last(events).outcome, { type: 'success' });
  assert.equal(last(events).usage[0].totalTokens, 7);
  assert.deepEqual(agent.state, { sheep: 9 });
  assert.deepEqual(of(events, 'CUSTOM')[0].name, 'weather');

  await say(agent, 'count');
  assert.deepEqual(texts(agent, 'reasoning'), ['Let me see.']);
  assert.deepEqual(texts(agent, 'tool'), ['9']);
  const call = agent.messages.find((message) => message.toolCalls);
  assert.equal(call.content, 'I count.');
  assert.deepEqual(call.toolCalls[0].function, { name: 'count', arguments: '{}' });
  assert.equal(texts(agent, 'assistant').at(-1), 'count: 9');
  assert.ok(of(events, 'STEP_STARTED').length >= 3);
}

async function approvals() {
  const { agent, events } = client('pay');
  await say(agent, 'pay');
  const [interrupt] = agent.pendingInterrupts;
  assert.equal(interrupt.reason, 'tool_call');
  assert.deepEqual(interrupt.responseSchema.required, ['approved']);
  await resolve(agent, () => ({ status: 'resolved', payload: { approved: true } }));
  assert.deepEqual(texts(agent, 'tool'), ['paid']);
  assert.equal(texts(agent, 'assistant').at(-1), 'pay: paid');

  await say(agent, 'pay twice');
  assert.equal(agent.pendingInterrupts.length, 2);
  await resolve(agent, (i) => ({ status: 'resolved', payload: { approved: i.metadata.action.arguments.to === 'a', reason: 'Too much.' } }));
  // A result is sent when its call ends, and a denied call ends at once.
  const result = (id) => of(events, 'TOOL_CALL_RESULT').findLast((e) => e.toolCallId === id);
  assert.deepEqual([result('p').content, result('p').metadata.status], ['paid', 'ok']);
  assert.match(result('q').content, /Too much/);
  assert.equal(result('q').metadata.status, 'denied');

  await say(agent, 'pay');
  const edited = { approved: true, editedArgs: { amount: 1 } };
  await resolve(agent, () => ({ status: 'resolved', payload: edited }));
  const note = 'The user changed arguments of this call before it ran: {"amount":1}';
  assert.equal(texts(agent, 'tool').at(-1), `paid\n${note}`);
}

async function questions() {
  const { agent } = client('ask');
  await say(agent, 'ask');
  const [interrupt] = agent.pendingInterrupts;
  assert.deepEqual([interrupt.reason, interrupt.message], ['input_required', 'Which colour?']);
  assert.deepEqual(interrupt.responseSchema, { type: 'string', enum: ['red', 'blue'] });
  const wrong = agent.clone();
  wrong.pendingInterrupts = agent.pendingInterrupts;
  console.error = () => {};
  await assert.rejects(resolve(wrong, () => ({ status: 'resolved', payload: 'green' })), /red/);
  await resolve(agent, () => ({ status: 'resolved', payload: 'blue' }));
  assert.match(texts(agent, 'assistant').at(-1), /^ask_user: .*blue/s);

  await say(agent, 'ask');
  await resolve(agent, () => ({ status: 'cancelled' }));
  assert.match(texts(agent, 'tool').at(-1), /cancelled/);
}

async function subAgents() {
  const { agent, events } = client('delegate');
  await say(agent, 'delegate');
  const [started] = of(events, 'SUBAGENT_STARTED');
  assert.deepEqual([started.name, started.parentToolCallId], ['helper', 'h']);
  const text = agent.messages.find((message) => message.content === 'I pay.');
  assert.equal(text.subagentRunId, started.subagentRunId);
  assert.deepEqual(of(events, 'SUBAGENT_FINISHED')[0].outcome, { type: 'suspended' });
  const [interrupt] = agent.pendingInterrupts;
  assert.equal(interrupt.toolCallId, 'h~p');
  await resolve(agent, () => ({ status: 'resolved', payload: { approved: true } }));
  assert.equal(texts(agent, 'assistant').at(-1), 'helper: I have paid.');
}

async function failures() {
  const { agent, events } = client('fail');
  await say(agent, 'fail');
  assert.deepEqual([last(events).type, last(events).code], ['RUN_ERROR', 'auth']);
  await say(agent, 'withdraw');
  assert.equal(texts(agent, 'assistant').at(-1), 'Right.');
  assert.ok(!texts(agent, 'assistant').includes('Wrong.'));
  console.error = () => {};
  const other = new HttpAgent({ url: `${address}/ag-ui/nobody` });
  await assert.rejects(say(other, 'Hello'), /HTTP 404/);
}

async function stop() {
  const { agent, events } = client('hang');
  const running = say(agent, 'hang');
  while (!of(events, 'TEXT_MESSAGE_CONTENT').length) await new Promise((done) => setImmediate(done));
  const headers = { 'content-type': 'application/json' };
  const stopped = await fetch(`${url}/hang/stop`, { method: 'POST', headers, body: '{}' });
  assert.equal(stopped.status, 202);
  await running;
  assert.deepEqual(last(events).outcome, { type: 'cancelled' });
  await say(agent, 'How many?');
  assert.equal(texts(agent, 'assistant').at(-1), 'Nine sheep.');
}

// The client disconnects in mid-run. The run continues, and a new process follows it.
async function reload() {
  const { agent, events } = client('slow');
  await say(agent, 'How many?');
  const running = say(agent, 'slow');
  while (!of(events, 'TEXT_MESSAGE_CONTENT').some((e) => e.delta === 'Slowly, ')) await new Promise((done) => setImmediate(done));
  agent.abortRun();
  await running;
  const { stdout } = await promisify(execFile)(process.execPath, [process.argv[1], address, 'follow', 'slow']);
  assert.match(stdout, /followed/);

  // A message that is sent twice does not start another run.
  const { agent: twice, events: replayed } = client('slow', agent.messages.filter((m) => m.role === 'user').slice(1));
  await twice.runAgent();
  assert.equal(texts(twice, 'assistant').at(-1), 'Slowly, nine.');
  assert.equal(of(replayed, 'TEXT_MESSAGE_START').length, 1);
}

async function follow() {
  const { agent, events } = client(thread);
  const running = agent.runAgent();
  while (!of(events, 'TEXT_MESSAGE_CONTENT').length) await new Promise((done) => setImmediate(done));
  await say(client('other').agent, 'open');
  await running;
  assert.deepEqual(texts(agent, 'user'), ['How many?', 'slow']);
  assert.deepEqual(texts(agent, 'assistant'), ['Nine sheep.', 'Slowly, nine.']);
  assert.deepEqual(last(events).outcome, { type: 'success' });

  const { agent: later } = client(thread);
  await later.runAgent();
  assert.deepEqual(later.messages.map((m) => m.id), agent.messages.map((m) => m.id));
  console.log('followed');
}

// Each event of the file conforms to the schema, and the events of each response to their order.
async function check() {
  for (const response of readFileSync(thread, 'utf8').trim().split('\n\n')) {
    const events = response.split('\n').map((line) => EventSchemas.parse(JSON.parse(line)));
    events.forEach((event) => kinds.add(event.type));
    await lastValueFrom(verifyEvents()(from(events)));
  }
  for (const kind of ['SUBAGENT_FINISHED', 'ACTIVITY_SNAPSHOT', 'STATE_SNAPSHOT', 'RUN_ERROR']) assert.ok(kinds.has(kind), kind);
  console.log([...kinds].sort().join(' '));
}

if (mode === 'check') {
  await check();
} else if (mode === 'follow') {
  await follow();
} else {
  for (const part of [reasoningTextAndTools, approvals, questions, subAgents, failures, stop, reload]) {
    await part();
    console.log(`${part.name}: ok`);
  }
  console.log([...kinds].sort().join(' '));
}
