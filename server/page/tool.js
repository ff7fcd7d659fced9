// One call of a tool: its arguments, its output as it comes, its diff, and the card that asks whether it may run.

import { cut, el } from './dom.js';

/** Characters and lines that are drawn of one text. */
const MOST = 100_000, LINES = 2_000;
const IMAGES = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'];
const STATES = {
  writing: 'writing…', ready: 'ready', waiting: 'waits for you', running: 'running…', ok: 'done', error: 'failed',
  denied: 'denied', skipped: 'skipped', aborted: 'stopped', outcome_unknown: 'outcome unknown',
};

const parse = (text) => {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
};

const pre = (text, kind = '') => el('pre', { class: kind, tabindex: 0 }, text);
const most = (text) => (text.length > MOST ? `${text.slice(0, MOST)}… and ${text.length - MOST} characters more` : text);
/** Output, without the colours of terminals. */
const plain = (text) => most(text.replace(/\x1b\[[0-9;?]*[A-Za-z]/g, ''));
/** What somebody decides on: characters that would hide or turn others are named. */
const visible = (text) =>
  most(text.replace(/[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g,
    (one) => `⟨U+${one.charCodeAt(0).toString(16).padStart(4, '0')}⟩`));
/** Text as it is, small values in one line, large ones in many. */
function written(value) {
  const line = typeof value === 'string' ? value : JSON.stringify(value);
  return visible(typeof value === 'string' || line.length <= 72 ? line : JSON.stringify(value, null, 2));
}

/** Lines with their colours, as `[kind, text]`. */
function coloured(lines) {
  const box = el('pre', { class: 'diff', tabindex: 0 });
  for (const [kind, text] of lines.slice(0, LINES)) box.append(el('span', { class: kind }, text));
  if (lines.length > LINES) box.append(el('span', { class: 'hunk' }, `… and ${lines.length - LINES} lines more`));
  return box;
}

function diff(text) {
  const kind = (line) =>
    /^(---|\+\+\+|@@)/.test(line) ? 'hunk' : { '+': 'add', '-': 'del' }[line[0]] ?? 'same';
  return coloured(text.replace(/\n$/, '').split('\n').map((line) => [kind(line), line]));
}

/** Arguments as a list of names and values; a replacement as a diff. */
function shown(value) {
  if (value === null || typeof value !== 'object' || Array.isArray(value)) return [pre(written(value))];
  const { old_string: before, new_string: behind } = value;
  const edit = typeof before === 'string' && typeof behind === 'string';
  const rows = Object.entries(value).filter(([name]) => !edit || !name.endsWith('_string')).map(([name, it]) => {
    const text = written(it);
    return el('div', { class: 'arg' }, el('span', {}, name), text.includes('\n') ? pre(text) : el('code', {}, text));
  });
  if (edit) {
    const lines = (text, kind, sign) => (text ? visible(text).replace(/\n$/, '').split('\n').map((line) => [kind, sign + line]) : []);
    rows.push(coloured([...lines(before, 'del', '-'), ...lines(behind, 'add', '+')]));
  }
  return rows;
}

/** What of the arguments stands in the head of a call. */
function gist(value) {
  if (value === null || typeof value !== 'object') return '';
  const texts = Object.values(value).filter((it) => typeof it === 'string');
  const first = ['command', 'path', 'pattern', 'query', 'url'].map((name) => value[name]).find((it) => typeof it === 'string');
  return cut(visible((first ?? texts[0] ?? '').split('\n', 1)[0]), 120);
}

/** A call on the page. */
export class ToolCall {
  constructor(name) {
    this.raw = '';
    this.label = el('span', { class: 'gist' });
    this.state = el('span', { class: 'state' });
    this.summary = el('summary', {}, el('b', {}, name), ' ', this.label, ' ', this.state);
    this.args = el('div', { class: 'args' });
    this.notes = el('div');
    this.out = el('div', { class: 'out' });
    this.details = el('details', {}, this.summary, this.args, this.notes, this.out);
    this.card = null;
    this.node = el('div', { class: 'call' }, this.details);
    this.name = name;
    this.is('writing');
  }

  is(status, more = '') {
    this.node.dataset.status = status;
    this.state.textContent = (STATES[status] ?? status) + more;
  }

  /** The arguments' raw text as the model writes it. */
  write(delta) {
    this.raw += delta;
    if (!this.args.firstChild) this.args.append(pre(''));
    if (this.raw.length <= MOST) this.args.firstChild.append(delta);
  }

  /** The arguments are whole. */
  written(raw) {
    this.raw = raw;
    const value = parse(raw);
    this.arguments(value === undefined ? raw : value);
    this.is('ready');
  }

  arguments(value) {
    this.label.textContent = gist(value);
    this.args.replaceChildren(...shown(value));
  }

  start(args, time) {
    this.started = time;
    this.arguments(args);
    this.uncard();
    this.is('running');
  }

  update(update) {
    if (update.output !== undefined) {
      this.live ??= this.out.appendChild(pre('', 'live'));
      const down = this.live.scrollHeight - this.live.scrollTop - this.live.clientHeight < 30;
      this.live.append(update.output);
      while (this.live.childNodes.length > LINES) this.live.firstChild.remove();
      if (down) this.live.scrollTop = this.live.scrollHeight;
    } else if (update.progress) {
      const { done, total, message } = update.progress;
      this.state.textContent = `${message || 'running…'} ${total ? `${done}/${total}` : ''}`;
    }
  }

  /** The message of its result. */
  end(result, time) {
    if (this.ended) return;
    this.ended = true;
    this.uncard();
    const took = this.started && time ? (time - this.started) / 1000 : 0;
    this.is(result.status, took >= 0.1 ? ` · ${took.toFixed(took < 10 ? 1 : 0)} s` : '');
    const { details } = result;
    this.out.replaceChildren();
    if (typeof details?.diff === 'string' && details.diff) {
      this.args.replaceChildren(); // the diff says it all
      this.out.append(diff(details.diff));
      this.details.open = this.name !== 'diff';
      this.state.textContent += ` · +${Number(details.added)} −${Number(details.removed)}`;
    } else {
      for (const piece of result.content) this.out.append(piece.type === 'image' ? image(piece) : pre(plain(piece.text ?? '')));
    }
    if (typeof details?.exit_code === 'number' && details.exit_code) this.state.textContent += ` · exit ${details.exit_code}`;
  }

  /** It waits for an answer, which `decide(body)` sends. */
  ask(action, decide) {
    this.is('waiting');
    this.arguments(action.arguments);
    this.args.hidden = !action.request; // the card shows them
    this.card = card(this.name, action, decide);
    this.node.append(this.card);
  }

  answered(decision, who) {
    this.uncard();
    const [kind, more] = typeof decision === 'string' ? [decision] : Object.entries(decision)[0];
    const by = who ? ` by ${who}` : '';
    const words = {
      approve: `Approved${by}.`, approve_with: `Approved with other arguments${by}.`, deny: `Denied${by}${more ? `: ${more}` : '.'}`,
      result: `The result was given${by}.`, answer: `Answered${by}.`,
    };
    this.notes.append(el('p', { class: 'note' }, words[kind] ?? kind));
    if (kind === 'approve_with') this.arguments(more);
    this.is(kind === 'deny' ? 'denied' : 'ready');
  }

  uncard() {
    this.card?.remove();
    this.card = null;
    this.args.hidden = false;
  }
}

function image({ media_type: type, data }) {
  if (!IMAGES.includes(type)) return pre(`An image of type ${type}.`);
  return el('img', { src: `data:${type};base64,${data}`, alt: 'Image', loading: 'lazy' });
}

function card(name, action, decide) {
  const title = el('h3', { tabindex: -1 }, action.request ? `${name} asks: ${action.request.kind}` : `Run ${name}?`);
  const problem = el('p', { class: 'problem', role: 'alert', hidden: true });
  const say = (text) => ((problem.textContent = text), (problem.hidden = !text));
  const face = el('div');
  const node = el('section', { class: 'card', 'aria-label': title.textContent, 'data-digest': action.digest }, title, face, problem);
  const button = (text, onclick, kind = '') => el('button', { type: 'button', class: kind, onclick }, text);
  const row = (...buttons) => el('div', { class: 'row' }, ...buttons);
  const back = () => button('Back', () => (say(''), look(), title.focus()));
  const shows = () => el('div', { class: 'args' }, ...shown(action.request?.data ?? action.arguments));
  // What may be sent besides yes and no: an answer to a tool that asks, or other arguments.
  const json = action.request
    ? { open: 'Answer…', label: 'Answer as JSON', start: '', go: 'Answer', body: (data) => ({ decision: 'answer', data }) }
    : {
      open: 'Edit…', label: 'Arguments as JSON', start: JSON.stringify(action.arguments, null, 2), go: 'Approve as edited',
      body: (value) => ({ decision: 'approve_with', arguments: value }),
    };

  async function answer(body) {
    say('');
    const all = [...node.querySelectorAll('button')];
    all.forEach((one) => (one.disabled = true));
    try {
      await decide({ digest: action.digest, ...body });
    } catch (why) {
      say(why.path ? `${why.path}: ${why.message}` : why.message);
      all.forEach((one) => (one.disabled = false));
    }
  }

  function look() {
    face.replaceChildren(shows(), row(
      button(action.request ? 'Done' : 'Approve', () => answer({ decision: 'approve' }), 'primary approve'),
      button(json.open, edit, 'edit'),
      button('Deny…', deny, 'deny')));
  }

  function edit() {
    const field = el('textarea', { class: 'json', spellcheck: 'false', 'aria-label': json.label });
    field.value = json.start;
    field.rows = Math.min(20, field.value.split('\n').length + 1);
    const go = button(json.go, () => answer(json.body(parse(field.value))), 'primary approve');
    const check = () => {
      const why = wrong(field.value, !action.request);
      field.setAttribute('aria-invalid', Boolean(why));
      go.disabled = Boolean(why);
      say(why);
    };
    field.addEventListener('input', check);
    go.disabled = !json.start;
    face.replaceChildren(...(action.request ? [shows()] : []), field, row(go, back()));
    field.focus();
  }

  function deny() {
    const reason = el('input', { class: 'reason', placeholder: 'Why not? The model is told.', 'aria-label': 'Reason' });
    const go = () => answer({ decision: 'deny', reason: reason.value.trim() || 'The user does not want this.' });
    reason.addEventListener('keydown', (key) => key.key === 'Enter' && !key.isComposing && go());
    face.replaceChildren(shows(), reason, row(button('Deny', go, 'danger'), back()));
    reason.focus();
  }

  look();
  return node;
}

/** Why a text cannot be sent as JSON; empty if it can. */
function wrong(text, object) {
  try {
    const value = JSON.parse(text);
    const fits = !object || (value !== null && typeof value === 'object' && !Array.isArray(value));
    return fits ? '' : 'The arguments must be one JSON object.';
  } catch (why) {
    return `This is not JSON yet: ${why.message}`;
  }
}
