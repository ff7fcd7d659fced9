// The page: sessions on the left, one conversation, and what a person says to it.

import { Refused, call, follow, keepToken, newId, onToken, send } from './api.js';
import { by, el, short, soon } from './dom.js';
import { Conversation } from './view.js';

const [log, scroll, prompt, problem] = ['log', 'scroll', 'prompt', 'problem'].map(by);
const narrow = matchMedia('(max-width: 760px)');

let session = null; // the id of the open one
let conversation = null;
let info = null; // what the server says of it
let stream = 'live'; // or 'opening', 'waiting', 'gone'
let unfollow = () => {};
let stopping = false; // this tab has asked for it
let stuck = true; // the view follows the end
let spoken = ''; // the last reply, to be read out
let asked = null; // the card that had the keyboard last

const path = (rest = '') => `sessions/${encodeURIComponent(session)}${rest}`;

/** Says what went wrong, or just something; nothing takes it back. */
function say(what) {
  problem.textContent = what?.message ?? what ?? '';
  problem.classList.toggle('error', what instanceof Error);
  problem.hidden = !problem.textContent;
}

const tried = (work) => async (...given) => {
  say('');
  try {
    return await work(...given);
  } catch (why) {
    say(why);
  }
};

/* The open session */

function open(id) {
  unfollow();
  [session, info, spoken, stuck, stopping] = [id, null, '', true, false];
  stream = id ? 'opening' : 'live';
  say('');
  document.body.classList.remove('nav');
  list();
  by('empty').hidden = Boolean(id);
  conversation = new Conversation(log, {
    changed,
    ended,
    said: (text) => (spoken = text),
    decide: (action, body) => call('POST', path(`/actions/${encodeURIComponent(action)}`), body),
    again: tried(() => call('POST', path('/continue'), {})),
  });
  const mine = conversation;
  unfollow = !id ? () => {} : follow(id, {
    event: (event) => mine.apply(event),
    live: () => {
      if (stream === 'waiting') say('');
      stream = 'live';
      mine.joins();
      changed();
    },
    waiting: (why) => ((stream = 'waiting'), why instanceof Refused && say(why), show()),
    gone: (why) => ((stream = 'gone'), say(why), show()),
    anew: () => mine.clear(),
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

/** What the server says of the sessions, soon, and once for many changes. */
const refresh = soon(150, async () => {
  const id = session;
  try {
    const [all, one] = await Promise.all([call('GET', 'sessions'), id && call('GET', path())]);
    listed = all.sessions.sort((a, b) => b.changed - a.changed);
    if (one && id === session) {
      info = one.session;
      conversation.interrupted(one.interrupted ? info.run : null);
    }
    list();
    show();
  } catch {
    // The stream of events says that the server is away.
  }
});

const showSoon = soon(0, show); // once for all events that came together
const changed = () => (showSoon(), refresh());

let listed = []; // the sessions in the list
let sure = null; // the session that would be deleted by one more click

function list() {
  const focused = document.activeElement?.dataset.key;
  by('list').replaceChildren(...listed.map((one) => {
    const title = one.title || one.settings?.name || 'New session';
    const run = one.interrupted || (one.id === session && conversation.cut) ? 'interrupted' : 'working';
    const state = one.pending?.length ? 'waits for you' : one.run ? run : ago(one.changed);
    const link = el('a', { href: `#s=${encodeURIComponent(one.id)}`, 'aria-current': one.id === session && 'page', 'data-key': one.id },
      el('span', { class: 'name' }, title), el('span', { class: 'when' }, state));
    const remove = el('button', {
      class: sure === one.id ? 'quiet sure' : 'quiet', title: 'Delete', 'data-key': `-${one.id}`,
      'aria-label': sure === one.id ? `Yes, delete ${title}` : `Delete ${title}`,
      onclick: tried(() => forget(one.id)),
    }, sure === one.id ? 'Delete?' : '✕');
    return el('li', {}, link, remove);
  }));
  if (focused) [...by('list').querySelectorAll('[data-key]')].find((one) => one.dataset.key === focused)?.focus();
}

async function forget(id) {
  const asked = sure === id;
  sure = asked ? null : id;
  list();
  if (!asked) return;
  await call('DELETE', `sessions/${encodeURIComponent(id)}`);
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

/** How the session stands, as `[kind, words]`. */
function standing() {
  const { running, cut, compacts, waiting } = conversation;
  if (stream !== 'live') return ['away', { opening: 'Opening…', waiting: 'Reconnecting…', gone: 'Not there' }[stream]];
  if (cut) return ['away', 'Interrupted'];
  if (waiting.size) return ['waiting', 'Waits for you'];
  if (running) return ['working', compacts ? 'Compacting…' : 'Working…'];
  return ['ready', session ? 'Ready' : ''];
}

/** Draws what stands around the conversation. */
function show() {
  const { running, waiting, queue, pending } = conversation;
  const [kind, words] = standing();
  if (by('status').textContent !== words) by('status').textContent = words;
  by('status').dataset.state = kind;
  const title = info?.title || (session ? 'Session' : 'New session');
  by('title').textContent = title;
  document.title = `${waiting.size ? '(?) ' : running ? '• ' : ''}${title} — loopwright`;
  by('spent').textContent = spent();
  by('compact').hidden = !session || kind !== 'ready';
  by('stop').hidden = !running;
  by('stop').disabled = stopping;
  by('send').textContent = running ? 'Steer' : 'Send';
  by('hint').textContent = running
    ? 'Enter steers · Alt+Enter when it is done · Esc stops'
    : waiting.size ? 'A message instead of an answer denies what waits' : 'Enter sends · Shift+Enter for a new line';
  const lines = [
    ...queue.steering.map((text) => ['Steers', text]),
    ...[...pending.values(), ...queue.followUp].map((text) => ['Next', text]),
  ];
  by('queue').replaceChildren(...lines.map(([kind, text]) => el('li', {}, el('b', {}, kind), ' ', text)));
  if (by('spoken').textContent !== spoken) by('spoken').textContent = spoken;
  attend();
}

/** The keyboard goes to a card that asks, unless somebody types, and back to the message when the card is gone. */
function attend() {
  const card = conversation.waiting.size ? log.querySelector('.card h3') : null;
  const lost = document.activeElement === document.body;
  const free = lost || (document.activeElement === prompt && !prompt.value);
  if (card && card !== asked && free) card.focus({ preventScroll: true }); // not its buttons: Enter may be on its way
  else if (asked && !card && lost) prompt.focus({ preventScroll: true });
  asked = card;
}

function spent() {
  if (!info?.usage) return '';
  const { input = 0, output = 0, cache_read: read = 0, cache_write: write = 0 } = info.usage;
  if (!input && !output) return '';
  const cost = info.cost ? ` · $${info.cost.toFixed(info.cost < 0.1 ? 4 : 2)}` : '';
  return `${short(input + read + write)} in · ${short(output)} out${cost}`;
}

/* The message */

const submit = tried(async (later) => {
  const message = prompt.value.trim();
  if (!message) return;
  const command = /^\/compact(?:\s+(.*))?$/s.exec(message);
  if (command) {
    prompt.value = '';
    grow();
    return compact(command[1]);
  }
  if (!session) {
    const [workDir, model] = [by('dir').value.trim(), by('model').value.trim()];
    const made = await call('POST', 'sessions', { ...(workDir && { workDir }), ...(model && { model }) });
    history.pushState(null, '', `#s=${encodeURIComponent(made.id)}`);
    open(made.id);
  }
  const [mine, at] = [conversation, path()];
  const lane = !mine.running ? '/prompt' : later ? '/follow-up' : '/steer';
  const id = newId();
  prompt.value = '';
  grow();
  stuck = true;
  if (lane === '/prompt') mine.pending.set(id, message);
  show();
  try {
    await send(at + lane, { id, message });
  } catch (why) {
    mine.pending.delete(id);
    if (!prompt.value) prompt.value = message;
    grow();
    show();
    throw why;
  }
  if (lane !== '/prompt') await deliver(at);
});

/** What was said to a run that had just ended would wait for the next one: then there is one. */
async function deliver(at) {
  const { running, interrupted, queue, session: { pending } } = await call('GET', at);
  const waits = queue.steering.length + queue.follow_up.length > 0;
  if (!waits || running || interrupted || pending?.length) return;
  await call('POST', `${at}/continue`, {}).catch((why) => {
    if (why.kind !== 'conflict') throw why; // somebody else was quicker
  });
}

const compact = tried(async (instructions) => {
  const done = session && (await call('POST', path('/compact'), { instructions }));
  if (!done?.compactions.length) say('There is nothing to compact yet: the last turns always stay whole.');
});

const stop = tried(async () => {
  if (!conversation.running || stopping) return;
  stopping = true;
  show();
  try {
    await call('POST', path('/abort'), {});
  } catch (why) {
    stopping = false;
    show();
    throw why;
  }
});

function grow() {
  prompt.style.height = 'auto';
  prompt.style.height = `${Math.min(prompt.scrollHeight + 2, innerHeight / 3)}px`;
}

/* Following the end of the conversation */

function follows() {
  if (stuck) scroll.scrollTop = scroll.scrollHeight;
  by('down').hidden = stuck;
}

// Only a person goes up.
let top = 0;
scroll.addEventListener('scroll', () => {
  const end = scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 60;
  if (end || scroll.scrollTop < top) stuck = end;
  top = scroll.scrollTop;
  by('down').hidden = stuck;
});
const sizes = new ResizeObserver(follows);
sizes.observe(log);
sizes.observe(scroll);
by('down').addEventListener('click', () => ((stuck = true), follows(), prompt.focus()));

/* Keys, buttons, addresses */

function nav(shown) {
  document.body.classList.toggle('nav', shown);
  by('menu').setAttribute('aria-expanded', shown);
  (shown ? by('new') : prompt).focus();
}

by('composer').addEventListener('submit', (event) => (event.preventDefault(), submit(false)));
by('stop').addEventListener('click', stop);
document.querySelector('.skip').addEventListener('click', (event) => (event.preventDefault(), prompt.focus()));
by('compact').addEventListener('click', () => compact());
by('menu').addEventListener('click', () => nav(true));
by('hide').addEventListener('click', () => nav(false));
by('new').addEventListener('click', () => (location.hash ? (location.hash = '') : open(null)));
prompt.addEventListener('input', grow);
prompt.addEventListener('keydown', (key) => {
  if (key.key !== 'Enter' || key.shiftKey || key.isComposing) return;
  key.preventDefault();
  submit(key.altKey);
});
addEventListener('keydown', (key) => {
  if (key.isComposing || by('ask').open) return;
  if (key.key === 'Escape') return document.body.classList.contains('nav') ? nav(false) : stop();
  if (key.key === '/' && !/^(INPUT|TEXTAREA)$/.test(document.activeElement?.tagName)) {
    key.preventDefault();
    prompt.focus();
  }
});

onToken((wrong) => new Promise((done) => {
  const dialog = by('ask');
  by('ask-why').textContent = wrong
    ? 'That is not the server’s token. Try again.'
    : 'Whoever started it knows the token: it was given with --token or in LOOPWRIGHT_TOKEN.';
  by('token').value = '';
  dialog.returnValue = '';
  dialog.addEventListener('close', () => done(dialog.returnValue ? by('token').value.trim() : null), { once: true });
  dialog.showModal();
}));

/** `#s=ID` names the session; `#token=…` hands a token over, and is taken out of the address. */
function address() {
  const given = new URLSearchParams(location.hash.slice(1));
  if (given.has('token')) {
    keepToken(given.get('token'));
    given.delete('token');
    history.replaceState(null, '', given.size ? `#${given}` : location.pathname);
  }
  const id = given.get('s') || null;
  if (id !== session || !conversation) open(id);
}

addEventListener('hashchange', address);
addEventListener('popstate', address);
document.addEventListener('visibilitychange', () => document.visibilityState === 'visible' && refresh());
address();
