// The page: the list of sessions, one conversation, and the composer of messages.

import { ApiError, call, newId, send } from './api.js';
import { arrange, byId, debounced, el, onClick, short } from './dom.js';
import { PAGE_EVENTS, follow } from './events.js';
import { acceptImages, putBack, takeImages } from './images.js';
import { showMemory } from './memory.js';
import { editSettings } from './settings.js';
import { addressParameters } from './token.js';
import { Conversation } from './view.js';
import { asleep, showWork } from './work.js';

const [log, scroll, prompt, problem] = ['log', 'scroll', 'prompt', 'problem'].map(byId);
const narrow = matchMedia('(max-width: 760px)');

/** The request that distils facts from the conversation. */
const DISTIL = '/memory distil';
/** The number of sessions per page. */
const PAGE_SESSIONS = 30;
/** Events that change the list of sessions, and events that change the state around the conversation. */
const LIST_EVENTS = ['agent_start', 'agent_end', 'external_action', 'external_action_end'];
const SESSION_EVENTS = ['turn_end', 'compaction', 'reset'];

let session = null; // the id of the open session
let conversation = null;
let info = null; // its info from the server
let understood = []; // the commands of its agent
let served = { agents: [], memory: false }; // the server's agents, and whether it remembers facts about the user
let stream = 'live'; // or 'opening', 'waiting', 'gone'
let unfollow = () => {};
let stopping = false; // this tab has requested an abort of the run
let following = true; // whether the view follows the end
let announced = ''; // the last reply, for screen readers
let focusedCard = null; // the card that had the keyboard last
let draft = {}; // settings of the next session

const path = (rest = '') => `sessions/${encodeURIComponent(session)}${rest}`;

/** Shows an error or a text below the conversation. An empty text hides it. */
function report(message) {
  problem.textContent = message?.message ?? message ?? '';
  problem.classList.toggle('error', message instanceof Error);
  problem.hidden = !problem.textContent;
}

/** Returns a function that reports the errors of `work`. */
const reporting = (work) => async (...given) => {
  report('');
  try {
    return await work(...given);
  } catch (error) {
    report(error);
  }
};

/* The open session */

function open(id) {
  unfollow();
  session = id;
  info = null;
  understood = [];
  [announced, following, stopping] = ['', true, false];
  stream = id ? 'opening' : 'live';
  report('');
  document.body.classList.remove('nav');
  list();
  byId('empty').hidden = Boolean(id);
  conversation = new Conversation(log, {
    changed,
    ended,
    replied: (text) => (announced = text),
    decide: (action, body) => call('POST', path(`/actions/${encodeURIComponent(action)}`), body),
    preview: (action) => call('GET', path(`/actions/${encodeURIComponent(action)}/preview`)),
    continue: reporting(() => call('POST', path('/continue'), {})),
  });
  const mine = conversation;
  unfollow = !id ? () => {} : follow(id, {
    event(event, number) {
      mine.first ??= number;
      mine.apply(event);
    },
    live: () => {
      if (stream === 'waiting') report('');
      stream = 'live';
      mine.reconnected();
      changed();
    },
    waiting: (error) => ((stream = 'waiting'), error instanceof ApiError && report(error), show()),
    gone: (error) => ((stream = 'gone'), report(error), show()),
    restart: () => mine.clear(),
  });
  show();
  refresh();
  if (!narrow.matches) prompt.focus();
}

function ended(end) {
  if (stopping && end.handed_back?.length && !prompt.value) {
    prompt.value = end.handed_back.join('\n\n');
    grow();
  }
  stopping = false;
}

/** Returns a debounced function that reads from the server. */
const reading = (read) => debounced(150, async () => {
  try {
    await read();
    list();
    show();
  } catch {
    // The stream of events reports that the server is unreachable.
  }
});

/** Reads the open session. */
const refreshSession = reading(async () => {
  const id = session;
  const one = id && (await call('GET', path()));
  if (!one || id !== session) return;
  info = one.session;
  understood = one.commands;
  conversation.know(one);
  conversation.interrupted(one.interrupted ? info.run : null, one.held);
  const { title, run, changed, pending = [], settings } = info;
  const known = listed.find((other) => other.id === id);
  const { model, interrupted, wakes_at, awaited_signals } = one;
  if (known) Object.assign(known, { name: settings?.name, model, title, run, changed, pending_actions: pending.length, interrupted, wakes_at, awaited_signals });
});

let listed = []; // the sessions in the list, the last changed first
let nextPage = null; // the position of the first session after the list

/** Reads the first page of the list. Sessions of later pages stay if they still come after it. */
const refreshList = reading(async () => {
  const page = await call('GET', `sessions?limit=${PAGE_SESSIONS}`);
  const last = page.next ? page.sessions.at(-1).changed : -1;
  const behind = listed.filter((one) => one.changed < last && !page.sessions.some(({ id }) => id === one.id));
  listed = [...page.sessions, ...behind];
  if (!behind.length) nextPage = page.next;
});

/** Adds the next page of the list. */
const showMore = reporting(async () => {
  const page = await call('GET', `sessions?limit=${PAGE_SESSIONS}&after=${encodeURIComponent(nextPage)}`);
  listed.push(...page.sessions.filter(({ id }) => !listed.some((one) => one.id === id)));
  nextPage = page.next;
  list();
});

const refresh = () => (refreshSession(), refreshList());
const scheduleShow = debounced(0, show); // once for all events that arrive together

/** Updates the page after an event, or after the stream was opened. */
function changed(event) {
  scheduleShow();
  if (!event || LIST_EVENTS.includes(event.type)) refresh();
  else if (SESSION_EVENTS.includes(event.type) || conversation.interruption) refreshSession();
}

let confirming = null; // the session that one more click deletes

let rows = new Map(); // by session: the content of its row, as a text, and the element

/** Draws the list. A row with unchanged content keeps its element, so that a click in progress is not lost. */
function list() {
  const focused = document.activeElement?.dataset.key;
  byId('more-sessions').hidden = !nextPage;
  listed.sort((a, b) => b.changed - a.changed);
  rows = new Map(listed.map((one) => {
    const run = one.interrupted || (one.id === session && conversation.interruption) ? 'interrupted' : 'working';
    const shown = {
      id: one.id, title: one.name || one.title || 'New session',
      state: one.pending_actions ? 'waits for you' : one.run ? run : one.wakes_at || one.awaited_signals ? asleep(one) : ago(one.changed),
      setup: [one.model, one.directory].filter(Boolean).join(' · '),
      current: one.id === session, confirm: one.id === confirming,
    };
    const text = JSON.stringify(shown);
    const known = rows.get(one.id);
    return [one.id, known?.text === text ? known : { text, element: row(shown) }];
  }));
  arrange(byId('list'), [...rows.values()].map((one) => one.element));
  if (focused) [...byId('list').querySelectorAll('[data-key]')].find((one) => one.dataset.key === focused)?.focus();
}

function row({ id, title, state, setup, current, confirm }) {
  const link = el('a', { href: `#s=${encodeURIComponent(id)}`, 'aria-current': current && 'page', 'data-key': id },
    el('span', { class: 'name' }, title), el('span', { class: 'when' }, state), setup && el('span', { class: 'setup', title: setup }, setup));
  const button = el('button', {
    class: confirm ? 'quiet confirm' : 'quiet', title: 'Delete', 'data-key': `-${id}`,
    'aria-label': confirm ? `Yes, delete ${title}` : `Delete ${title}`,
    onclick: reporting((event) => event.detail > 1 || remove(id)), // a double click confirms nothing
  }, confirm ? 'Delete?' : '✕');
  return el('li', {}, link, button);
}

/** Deletes a session at the second click. */
async function remove(id) {
  const confirmed = confirming === id;
  confirming = confirmed ? null : id;
  list();
  if (!confirmed) return;
  await call('DELETE', `sessions/${encodeURIComponent(id)}`);
  listed = listed.filter((one) => one.id !== id);
  if (id === session) location.hash = '';
  refresh();
}

function ago(time) {
  const minutes = (Date.now() - time) / 60_000;
  if (!time || minutes < 1) return 'now';
  if (minutes < 60) return `${Math.floor(minutes)} min`;
  if (minutes < 1440) return `${Math.floor(minutes / 60)} h`;
  return new Date(time).toLocaleDateString();
}

/** Returns the status of the session, as `[kind, words]`. */
function status() {
  const { running, interruption, compacting, actions } = conversation;
  if (stream !== 'live') return ['away', { opening: 'Opening…', waiting: 'Reconnecting…', gone: 'Not there' }[stream]];
  if (interruption) return ['away', 'Interrupted'];
  if (actions.size) return ['waiting', 'Waits for you'];
  if (running) return ['working', compacting ? 'Compacting…' : 'Working…'];
  return ['ready', session ? 'Ready' : ''];
}

/** Returns the commands of the agent of the session, or of the next session. */
function commands() {
  return session ? understood : served.agents.find(({ name }) => name === byId('agent').value)?.commands ?? [];
}

/** Returns the hint about the Enter key and the commands. */
function hint() {
  const hints = ['Enter sends', 'Shift+Enter for a new line'];
  if (commands().includes('/plan')) hints.push('/plan plans first');
  if (served.memory) hints.push('/memory');
  return hints.join(' · ');
}

/** Draws the state around the conversation. */
function show() {
  const { running, actions, queue, requests } = conversation;
  const [kind, words] = status();
  if (byId('status').textContent !== words) byId('status').textContent = words;
  byId('status').dataset.state = kind;
  const title = info?.settings?.name || info?.title || (session ? 'Session' : 'New session');
  byId('title').textContent = title;
  document.title = `${actions.size ? '(?) ' : running ? '• ' : ''}${title} — loopwright`;
  byId('spent').textContent = spent();
  byId('compact').hidden = !session || kind !== 'ready';
  Object.assign(byId('stop'), { hidden: !running, disabled: stopping });
  byId('send').textContent = running ? 'Steer' : 'Send';
  byId('hint').textContent = running
    ? 'Enter steers · Alt+Enter sends when the run is done · Esc stops'
    : actions.size ? 'A message instead of a decision denies the pending actions' : hint();
  showWork(conversation, words);
  const texts = (kind) => queue.filter((queued) => queued.queue === kind).map(({ text }) => text);
  const lines = [
    ...texts('steering').map((text) => ['Steers', text]),
    ...[...requests.values(), ...texts('follow_up')].map((text) => ['Next', text]),
  ];
  byId('queue').replaceChildren(...lines.map(([kind, text]) => el('li', {}, el('b', {}, kind), ' ', text)));
  if (byId('announced').textContent !== announced) byId('announced').textContent = announced;
  readEarlier();
  moveFocus();
}

/** Moves the focus to a card with a question unless the user types, and back to the message when the card is gone. */
function moveFocus() {
  const card = conversation.actions.size ? log.querySelector('.card h3') : null;
  const lost = document.activeElement === document.body;
  const free = lost || (document.activeElement === prompt && !prompt.value);
  if (card && card !== focusedCard && free) card.focus({ preventScroll: true }); // not its buttons: the user may be about to press Enter
  else if (focusedCard && !card && lost) prompt.focus({ preventScroll: true });
  focusedCard = card;
}

function spent() {
  if (!info?.usage) return '';
  const { input = 0, output = 0, cache_read: read = 0, cache_write: write = 0 } = info.usage;
  if (!input && !output) return '';
  const cost = info.cost ? ` · $${info.cost.toFixed(info.cost < 0.1 ? 4 : 2)}` : '';
  return `${short(input + read + write)} in · ${short(output)} out${cost}`;
}

/* The message */

const submit = reporting(async (later) => {
  const message = prompt.value.trim();
  const images = takeImages();
  if (!message && !images.length) return;
  const command = /^\/(compact|memory)(?:\s+(.*))?$/s.exec(message);
  const distils = message === DISTIL && commands().includes(DISTIL);
  if (command && !distils) {
    putBack(images);
    prompt.value = '';
    grow();
    return command[1] === 'memory' ? memory(command[2]?.trim() ?? '') : compact(command[2]);
  }
  if (!session) {
    const created = await create().catch((error) => (putBack(images), Promise.reject(error)));
    history.pushState(null, '', `#s=${encodeURIComponent(created.id)}`);
    open(created.id);
  }
  const [mine, at] = [conversation, path()];
  if (mine.running && (distils || (/^\/plan(\s|$)/.test(message) && commands().includes('/plan')))) {
    putBack(images);
    return report(distils ? 'Facts can be distilled when the run is done.' : 'A plan can be asked for when the run is done.');
  }
  const route = !mine.running ? '/prompt' : later ? '/follow-up' : '/steer';
  const id = newId();
  prompt.value = '';
  grow();
  following = true;
  if (route === '/prompt') mine.requests.set(id, message || 'An image.');
  show();
  try {
    await send(at + route, { id, ...(message && { message }), ...(images.length && { images }) });
  } catch (error) {
    mine.requests.delete(id);
    putBack(images);
    if (!prompt.value) prompt.value = message;
    grow();
    show();
    throw error;
  }
  if (route !== '/prompt') await deliver(at);
});

/** Creates a session with the settings that the user has chosen. */
async function create() {
  const [workDir, agent] = [byId('dir').value.trim(), byId('agent').value];
  const created = await call('POST', 'sessions', { ...draft, ...(workDir && { workDir }), ...(agent && { agent }) });
  draft = {};
  return created;
}

/** Reads the server's agents and features. Shows a choice of agents if there are several. */
const showAgents = reporting(async () => {
  served = await call('GET', 'agents');
  const { agents } = served;
  byId('agents').hidden = agents.length < 2;
  byId('agent').replaceChildren(...agents.map(({ name }) => el('option', {}, name)));
  show();
});

const showSettings = reporting(async () => {
  const id = session;
  if (!id) {
    const agent = byId('agent').value;
    return agent && editSettings(draft, `agents/${encodeURIComponent(agent)}`, async (change) => {
      const kept = Object.entries({ ...draft, ...change }).filter(([, value]) => value !== null);
      draft = Object.fromEntries(kept);
    });
  }
  const at = path();
  const { session: { settings } } = await call('GET', at);
  return editSettings(settings ?? {}, `${at}/agent`, async (change) => {
    if (Object.keys(change).length) await call('PATCH', at, change);
    if (id === session) refresh();
  });
});

/** Starts a run for a message whose run had just ended. Otherwise the message would wait for the next run. */
async function deliver(at) {
  const { running, interrupted, queue, session: { pending } } = await call('GET', at);
  const queued = queue.steering.length + queue.follow_up.length > 0;
  if (!queued || running || interrupted || pending?.length) return;
  await call('POST', `${at}/continue`, {}).catch((error) => {
    if (error.kind !== 'conflict') throw error; // another client has started one
  });
}

const compact = reporting(async (instructions) => {
  const done = session && (await call('POST', path('/compact'), { instructions }));
  if (!done?.compactions.length) report('There is nothing to compact yet: the last turns always stay complete.');
});

/** Shows the remembered facts. `find WORDS` shows the matching ones. */
const memory = reporting((text) => {
  if (text === 'distil') throw new Error('The agent of this session distils no facts.');
  const [, words] = /^find\s+(.+)$/s.exec(text) ?? [];
  if (text && !words) throw new Error('Write /memory, /memory find WORDS or /memory distil; facts are deleted in the list.');
  return showMemory(words ?? '');
});

const stop = reporting(async () => {
  if (!conversation.running || stopping) return;
  stopping = true;
  show();
  try {
    await call('POST', path('/abort'), { run: conversation.run });
  } catch (error) {
    stopping = false;
    show();
    throw error;
  }
});

function grow() {
  prompt.style.height = 'auto';
  prompt.style.height = `${Math.min(prompt.scrollHeight + 2, innerHeight / 3)}px`;
}

/* Following the end of the conversation */

function followEnd() {
  if (following) scroll.scrollTop = scroll.scrollHeight;
  byId('down').hidden = following;
}

// Only the user scrolls up.
let top = 0;
scroll.addEventListener('scroll', () => {
  const end = scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 60;
  if (end || scroll.scrollTop < top) following = end;
  top = scroll.scrollTop;
  byId('down').hidden = following;
  readEarlier();
});
const sizes = new ResizeObserver(followEnd);
sizes.observe(log);
sizes.observe(scroll);
onClick('down', () => ((following = true), followEnd(), prompt.focus()));

/* Earlier events, drawn when the user scrolls to them */

const showEarlier = reporting(async () => {
  const mine = conversation;
  const { first } = mine;
  if (mine.reading || !(first > 1)) return;
  mine.reading = true;
  try {
    const page = await call('GET', path(`/history?before=${first}&limit=${PAGE_EVENTS}`));
    if (mine !== conversation || mine.first !== first) return;
    const below = scroll.scrollHeight - scroll.scrollTop;
    mine.prepend(page.events, page.before ?? 1);
    scroll.scrollTop = scroll.scrollHeight - below;
    top = scroll.scrollTop;
  } finally {
    mine.reading = false;
  }
  show();
});

/** Reads earlier events if the user is near the first one shown, or if all of them fit into the view. */
function readEarlier() {
  byId('earlier').hidden = !(conversation.first > 1);
  const near = !following && scroll.scrollTop < scroll.clientHeight;
  if (conversation.first > 1 && (near || scroll.scrollHeight <= scroll.clientHeight)) showEarlier();
}

/* Keys, buttons, addresses */

function nav(shown) {
  document.body.classList.toggle('nav', shown);
  byId('menu').setAttribute('aria-expanded', shown);
  (shown ? byId('new') : prompt).focus();
}

byId('composer').addEventListener('submit', (event) => (event.preventDefault(), submit(false)));
onClick('stop', stop);
document.querySelector('.skip').addEventListener('click', (event) => (event.preventDefault(), prompt.focus()));
byId('agent').addEventListener('change', show);
onClick('compact', () => compact());
onClick('show-settings', showSettings);
acceptImages(reporting);
onClick('menu', () => nav(true));
onClick('hide', () => nav(false));
onClick('earlier', showEarlier);
onClick('more-sessions', showMore);
onClick('new', () => (location.hash ? (location.hash = '') : open(null)));
prompt.addEventListener('input', grow);
prompt.addEventListener('keydown', (key) => {
  if (key.key !== 'Enter' || key.shiftKey || key.isComposing) return;
  key.preventDefault();
  submit(key.altKey);
});
addEventListener('keydown', (key) => {
  if (key.isComposing || document.querySelector('dialog[open]')) return;
  if (key.key === 'Escape') return document.body.classList.contains('nav') ? nav(false) : stop();
  if (key.key === '/' && !/^(INPUT|TEXTAREA)$/.test(document.activeElement?.tagName)) {
    key.preventDefault();
    prompt.focus();
  }
});

/** Applies the address: `#s=ID` names the session, and `#token=…` passes a token. */
function address() {
  const given = addressParameters();
  const id = given.get('s') || null;
  if (id !== session || !conversation) open(id);
}

addEventListener('hashchange', address);
addEventListener('popstate', address);
document.addEventListener('visibilitychange', () => document.visibilityState === 'visible' && refresh());
address();
showAgents();
