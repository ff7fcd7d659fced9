// The rows of the comparison with pi: the `Agent` of pi-agent-core over pi-ai, and for what needs
// a store its `AgentHarness` with a session in JSON Lines.
import fs from 'node:fs';
import path from 'node:path';
import {
  Agent, AgentHarness, BACKGROUND_CONTEXT, JsonlSessionRepo,
} from '@earendil-works/pi-agent-core';
import { NodeExecutionEnv } from '@earendil-works/pi-agent-core/node';
import { createModels, createProvider } from '@earendil-works/pi-ai';
import { openAICompletionsApi } from '@earendil-works/pi-ai/api/openai-completions.lazy';

const TURNS = 100;
const AGENTS = 200;
const WARM_UP = 20;
const WAIT_SECONDS = Number(process.env.WAIT_SECONDS ?? 20);
const SLOW = Number(process.env.SLOW ?? 0);
const [row, dir] = process.argv.slice(2);
const baseUrl = process.env.MOCK;
const sleep = (seconds) => new Promise((done) => { setTimeout(done, seconds * 1000); });

const models = createModels();
models.setProvider(createProvider({
  id: 'mock',
  name: 'Mock',
  baseUrl,
  auth: { apiKey: { name: 'Mock', resolve: async () => ({ auth: { apiKey: 'none' } }) } },
  models: [{
    id: 'mock',
    name: 'mock',
    api: 'openai-completions',
    provider: 'mock',
    baseUrl,
    reasoning: false,
    input: ['text'],
    cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 },
    contextWindow: 10_000_000,
    maxTokens: 32_000,
  }],
  api: openAICompletionsApi(),
}));

function tool(name, description, properties, run) {
  const parameters = { type: 'object', properties, required: Object.keys(properties) };
  const execute = async (_id, args) => ({
    content: [{ type: 'text', text: await run(args) }],
    details: undefined,
  });
  return { name, label: name, description, parameters, execute };
}

async function take({ euros }) {
  fs.appendFileSync(path.join(dir, 'effects'), `${euros}\n`);
  await sleep(SLOW);
  return `charged ${euros} euros`;
}

const tools = [
  tool('echo', 'Returns the text.', { text: { type: 'string' } }, async ({ text }) => text),
  tool('boom', 'Fails.', {}, async () => { throw new Error('boom'); }),
  tool('hang', 'Never returns.', {}, () => new Promise(() => {})),
  tool('charge', 'Charges a card.', { euros: { type: 'integer' } }, take),
  tool('pay', 'Pays, if approved.', { euros: { type: 'integer' } }, take),
];

const harnessTools = tools.map((one) => ({
  ...one,
  execute: (id, args) => one.execute(id, args),
}));

function agent() {
  return new Agent({
    initialState: {
      systemPrompt: 'You call the tools.',
      model: models.getModel('mock', 'mock'),
      tools,
    },
    streamFn: models.streamSimple.bind(models),
  });
}

async function prompt(agent, text) {
  await agent.prompt(text);
  if (agent.state.errorMessage) throw new Error(agent.state.errorMessage);
  const last = agent.state.messages.at(-1);
  return last.content.map((part) => part.text ?? '').join('');
}

async function endOf(run) {
  const start = performance.now();
  const late = sleep(WAIT_SECONDS).then(() => ({ end: null }));
  const end = run.then((text) => ({ end: text }), (error) => ({ error: String(error) }));
  return { ...await Promise.race([end, late]), seconds: (performance.now() - start) / 1000 };
}

const cpuMs = () => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
};

async function turns() {
  const [wall, cpu, one] = [[], [], agent()];
  for (let number = 1; number <= TURNS; number += 1) {
    const [start, used] = [performance.now(), cpuMs()];
    await prompt(one, `Turn ${number}. CALL echo {"text": "${number}"}`);
    wall.push(performance.now() - start);
    cpu.push(cpuMs() - used);
  }
  return { wall_ms: wall, cpu_ms: cpu };
}

async function agents() {
  const live = [];
  const start = async (count) => {
    for (let number = 0; number < count; number += 1) {
      const one = agent();
      await prompt(one, 'Hello. CALL echo {"text": "hello"}');
      live.push(one);
    }
  };
  await start(WARM_UP);
  globalThis.gc();
  const [rss, used] = [process.memoryUsage().rss, cpuMs()];
  await start(AGENTS);
  const cpu = (cpuMs() - used) / AGENTS;
  globalThis.gc();
  const kib = (process.memoryUsage().rss - rss) / 1024 / AGENTS;
  return { agents: live.length - WARM_UP, cpu_ms_per_turn: cpu, kib_per_agent: kib };
}

async function steer() {
  const one = agent();
  const run = endOf(prompt(one, 'CALL charge {"euros": 20}'));
  while (!fs.existsSync(path.join(dir, 'effects'))) await sleep(0.005);
  one.steer({ role: 'user', content: 'STEER in dollars', timestamp: Date.now() });
  return run;
}

// `Agent` stores nothing; the harness does.
async function stored() {
  const context = BACKGROUND_CONTEXT;
  const fileSystem = new NodeExecutionEnv({ cwd: dir });
  const repo = new JsonlSessionRepo({ fileSystem, sessionsRoot: path.join(dir, 'sessions') });
  const isFirst = row === 'kill' || row === 'ask';
  const session = isFirst
    ? await repo.create({ cwd: dir }, context)
    : await repo.open((await repo.list(undefined, context))[0], context);
  const model = models.getModel('mock', 'mock');
  const options = { session, models, model, tools: harnessTools, systemPrompt: 'You call the tools.' };
  const { harness } = await AgentHarness.create(options, context);
  const lane = await harness.lane('main', context);
  // The first process waits for a person, and ends; the next one has the decision.
  harness.hooks.on('before_tool', ({ toolName }) => {
    if (toolName !== 'pay') return undefined;
    if (row === 'approve') return { args: { euros: 5 } };
    console.log(JSON.stringify({ pending: 1 }));
    process.exit(0);
  });
  const run = isFirst
    ? lane.prompt(TEXTS[row], undefined, context)
    : lane.resume(context);
  return endOf(run.then((end) => JSON.stringify(end).slice(0, 200)));
}

const TEXTS = {
  panic: 'CALL boom {}',
  hang: 'CALL hang {}',
  kill: 'CALL charge {"euros": 20}',
  ask: 'CALL pay {"euros": 20}',
  args: 'CALL charge {"euros": "twenty"}',
  args_text: 'CALL charge {"euros": "20"}',
};

let result;
if (row === 'turns') result = await turns();
else if (row === 'agents') result = await agents();
else if (row === 'steer') result = await steer();
else if (['kill', 'resume', 'ask', 'approve'].includes(row)) result = await stored();
else if (row in TEXTS) result = await endOf(prompt(agent(), TEXTS[row]));
// There are no time limits of tools.
else result = { not_offered: true };
console.log(JSON.stringify(result));
process.exit(0);
