// The page for people who only decide: the pending actions that they may see, of all sessions.

import { call, newId, send } from './api.js';
import { byId, el } from './dom.js';
import { frames } from './frames.js';
import { actionCard } from './tool.js';
import { addressParameters } from './token.js';

/** Milliseconds between attempts to reconnect. */
const RETRY_DELAY = 2_000;

const log = byId('log'), cards = new Map();

const keyOf = (session, id) => JSON.stringify([session, id]);

function showStatus(text, state) {
  byId('status').textContent = text;
  byId('status').dataset.state = state;
}

function count() {
  byId('none').hidden = cards.size > 0;
  document.title = cards.size ? `(${cards.size}) Inbox` : 'Inbox';
}

/** Shows an action. Replaces its earlier state. */
function pending(action) {
  const key = keyOf(action.session, action.call), known = cards.get(key);
  if (known && JSON.stringify(known.action) === JSON.stringify(action)) return;
  const path = `sessions/${encodeURIComponent(action.session)}/actions/${encodeURIComponent(action.call)}`;
  const node = actionCard(action, (body) => send(path, { ...body, id: newId() }), () => call('GET', `${path}/preview`));
  const since = new Date(action.since).toLocaleString();
  node.append(el('p', { class: 'note' }, `Session ${action.session}, since ${since}`));
  if (known) known.node.replaceWith(node);
  else {
    log.append(node);
    byId('announced').textContent = `${action.name} waits for a decision.`;
  }
  cards.set(key, { node, action });
  count();
}

function resolved(session, id) {
  const key = keyOf(session, id), known = cards.get(key);
  if (!known) return;
  const focused = known.node.contains(document.activeElement);
  known.node.remove();
  cards.delete(key);
  count();
  if (focused) byId('scroll').focus();
}

/** Reads the stream until it ends. */
async function read() {
  const seen = new Set();
  for await (const frame of frames('GET', 'inbox/events', undefined, new AbortController())) {
    if (frame.type === 'pending') {
      seen.add(keyOf(frame.action.session, frame.action.call));
      pending(frame.action);
    } else if (frame.type === 'resolved') {
      resolved(frame.session, frame.call);
    } else if (frame.type === 'ready') {
      for (const [key, { action }] of [...cards]) if (!seen.has(key)) resolved(action.session, action.call);
      showStatus('', 'ready');
      count();
    }
  }
}

addressParameters();
for (;;) {
  await read().catch(() => {});
  showStatus('Reconnecting…', 'away');
  await new Promise((done) => setTimeout(done, RETRY_DELAY));
}
