// A server with the official SDK, which speaks version 2026-07-28 of MCP and refuses earlier ones:
// `node modern.mjs` on its standard input and output; `node modern.mjs http` on a free port, whose
// address it prints.

import { createServer } from 'node:http';
import { Readable } from 'node:stream';

import { McpServer, acceptedContent, createMcpHandler, fromJsonSchema, inputRequired, inputResponse } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';

const object = (properties) => ({ type: 'object', properties, required: Object.keys(properties) });
const schema = (properties) => fromJsonSchema(object(properties));
const text = (text) => ({ content: [{ type: 'text', text }] });

let cancelled = 0;
let description = 'Is green.';

/** Tells clients that a tool has changed: over HTTP, each request has a server of its own. */
let announce = (tool) => tool.update({ description });

function asks(field, type, message) {
  return { [field]: inputRequired.elicit({ message, requestedSchema: object({ [field]: { type } }) }) };
}

/** Asks in two rounds: the state of the second one is the answer to the first. */
function order(_, { mcpReq }) {
  const name = mcpReq.requestState() ?? acceptedContent(mcpReq.inputResponses, 'name')?.name;
  if (name === undefined) return inputRequired({ inputRequests: asks('name', 'string', 'For whom?') });
  const cups = acceptedContent(mcpReq.inputResponses, 'cups')?.cups;
  if (cups !== undefined) return text(`${cups} cups for ${name}.`);
  return inputRequired({ inputRequests: asks('cups', 'integer', 'How many cups?'), requestState: name });
}

/** Asks for the roots and a reply of the client's model in one round. */
function look(_, { mcpReq }) {
  const roots = inputResponse(mcpReq.inputResponses, 'roots');
  const reply = inputResponse(mcpReq.inputResponses, 'reply');
  if (roots.kind === 'roots') return text(`${roots.roots[0].uri}: ${reply.result.content.text}`);
  const messages = [{ role: 'user', content: { type: 'text', text: 'What do you see?' } }];
  const sampling = inputRequired.createMessage({ messages, maxTokens: 10 });
  return inputRequired({ inputRequests: { roots: inputRequired.listRoots(), reply: sampling } });
}

async function wait(_, { mcpReq }) {
  const progress = { progressToken: mcpReq._meta.progressToken, progress: 1, total: 2, message: 'I wait.' };
  const aborted = new Promise((done) => mcpReq.signal.addEventListener('abort', done));
  await mcpReq.notify({ method: 'notifications/progress', params: progress });
  await aborted;
  cancelled += 1;
  return text('Cancelled.');
}

function paint(leaf) {
  description = 'Is red.';
  announce(leaf);
  return text('Painted.');
}

function factory() {
  const server = new McpServer({ name: 'modern', version: '1.0.0' }, { capabilities: { tools: { listChanged: true } } });
  const none = { inputSchema: schema({}) };
  const terms = { a: { type: 'integer' }, b: { type: 'integer' } };
  const add = { inputSchema: schema(terms), outputSchema: schema({ sum: { type: 'integer' } }) };
  server.registerTool('add', add, ({ a, b }) => ({ ...text(`${a + b}`), structuredContent: { sum: a + b } }));
  server.registerTool('order', none, order);
  server.registerTool('look', none, look);
  server.registerTool('wait', none, wait);
  server.registerTool('cancelled', none, () => text(`${cancelled}`));
  const leaf = server.registerTool('leaf', { description, ...none }, () => text('Rustle.'));
  server.registerTool('paint', none, () => paint(leaf));
  const poem = { contents: [{ uri: 'memo://poem', text: 'Nine sheep.' }] };
  server.registerResource('poem', 'memo://poem', { mimeType: 'text/plain' }, () => poem);
  const greet = ({ name }) => ({ messages: [{ role: 'user', content: { type: 'text', text: `Greet ${name}.` } }] });
  server.registerPrompt('greet', { argsSchema: schema({ name: { type: 'string' } }) }, greet);
  return server;
}

function serveHttp() {
  const handler = createMcpHandler(factory, { legacy: 'reject' });
  announce = () => handler.notify.toolsChanged();
  const server = createServer(async (request, response) => {
    const gone = new AbortController();
    response.on('close', () => gone.abort());
    const { method, headers } = request;
    const body = method === 'POST' ? Readable.toWeb(request) : undefined;
    const url = `http://${headers.host}${request.url}`;
    const answer = await handler.fetch(new Request(url, { method, headers, body, duplex: 'half', signal: gone.signal }));
    response.writeHead(answer.status, Object.fromEntries(answer.headers));
    if (answer.body) Readable.fromWeb(answer.body).on('error', () => response.destroy()).pipe(response);
    else response.end();
  });
  server.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}/mcp`));
}

if (process.argv[2] === 'http') serveHttp();
else serveStdio(factory, { legacy: 'reject' });
