// One call of a tool: its arguments, its output while it runs, its diff, and the card that asks for a decision.

import { agentOf, button, denial, emptyCard, row } from './card.js';
import { MAX_CHARS, bounded, el, truncated, visible } from './dom.js';
import { questionCard, questionOf } from './question.js';
import { allows } from './terms.js';
import { drawItems, progress, writtenBy } from './work.js';

/** Maximum number of lines drawn of one text. */
const MAX_LINES = 2_000;
/** Milliseconds before the preview of a pending call is requested. */
const PREVIEW_DELAY = 100;
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
/** Returns output without the colours of terminals. */
const plain = (text) => bounded(text.replace(/\x1b\[[0-9;?]*[A-Za-z]/g, ''));
/** Returns a value as text: strings unchanged, small values in one line, large ones in many. */
function asText(value) {
  const line = typeof value === 'string' ? value : JSON.stringify(value);
  return visible(typeof value === 'string' || line.length <= 72 ? line : JSON.stringify(value, null, 2));
}

/** Draws lines with their colours, given as `[kind, text]`. */
function coloured(lines) {
  const box = el('pre', { class: 'diff', tabindex: 0 });
  for (const [kind, text] of lines.slice(0, MAX_LINES)) box.append(el('span', { class: kind }, text));
  if (lines.length > MAX_LINES) box.append(el('span', { class: 'hunk' }, `… and ${lines.length - MAX_LINES} lines more`));
  return box;
}

function diff(text) {
  const kind = (line, at) => (line.startsWith('@@') || (at < 2 && /^(---|\+\+\+) /.test(line))
    ? 'hunk' : { '+': 'add', '-': 'del' }[line[0]] ?? 'same');
  return coloured(text.replace(/\n$/, '').split('\n').map((line, at) => [kind(line, at), line]));
}

/** Draws arguments as a list of names and values, and a replacement as a diff. */
function drawArguments(value) {
  if (value === null || typeof value !== 'object' || Array.isArray(value)) return [pre(asText(value))];
  const { old_string: before, new_string: after } = value;
  const edit = typeof before === 'string' && typeof after === 'string';
  const rows = Object.entries(value).filter(([name]) => !edit || !name.endsWith('_string')).map(([name, it]) => {
    const text = asText(it);
    return el('div', { class: 'arg' }, el('span', {}, name), text.includes('\n') ? pre(text) : el('code', {}, text));
  });
  if (edit) {
    const lines = (text, kind, sign) => (text ? visible(text).replace(/\n$/, '').split('\n').map((line) => [kind, sign + line]) : []);
    rows.push(coloured([...lines(before, 'del', '-'), ...lines(after, 'add', '+')]));
  }
  return rows;
}

/** Returns the argument shown in the head of a call. */
function gist(value) {
  if (value === null || typeof value !== 'object') return '';
  const texts = Object.values(value).filter((it) => typeof it === 'string');
  const first = ['command', 'path', 'pattern', 'query', 'question', 'url'].map((name) => value[name]).find((it) => typeof it === 'string');
  return truncated(visible((first ?? texts[0] ?? '').split('\n', 1)[0]), 120);
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
    this.cards = new Map(); // of the actions of its sub-agent, by their calls
    this.node = el('div', { class: 'call' }, this.details);
    this.name = name;
    this.setStatus('writing');
  }

  setStatus(status, more = '') {
    this.node.dataset.status = status;
    this.state.textContent = (STATES[status] ?? status) + more;
  }

  /** Appends raw text of the arguments while the model writes it. */
  add(delta) {
    this.raw += delta;
    if (!this.args.firstChild) this.args.append(pre(''));
    if (this.raw.length <= MAX_CHARS) this.args.firstChild.append(delta);
  }

  /** Shows the complete arguments. */
  setRawArguments(raw) {
    this.raw = raw;
    const value = parse(raw);
    this.setArguments(value === undefined ? raw : value);
    this.setStatus('ready');
  }

  setArguments(value) {
    this.label.textContent = gist(value);
    this.args.replaceChildren(...drawArguments(value));
  }

  start(args, time) {
    this.started = time;
    this.setArguments(args);
    this.removeCard();
    this.setStatus('running');
  }

  update(update) {
    if (update.output !== undefined) {
      this.live ??= this.out.appendChild(pre('', 'live'));
      const down = this.live.scrollHeight - this.live.scrollTop - this.live.clientHeight < 30;
      this.live.append(update.output);
      while (this.live.childNodes.length > MAX_LINES) this.live.firstChild.remove();
      if (down) this.live.scrollTop = this.live.scrollHeight;
    } else if (update.progress && !this.cards.size) {
      this.node.dataset.status = 'running';
      const { done, total, message } = update.progress;
      this.state.textContent = `${message || 'running…'} ${total ? `${done}/${total}` : ''}`;
    }
  }

  /** Shows the message with the result. */
  end(result, time) {
    if (this.ended) return;
    this.ended = true;
    this.removeCard();
    const took = this.started && time ? (time - this.started) / 1000 : 0;
    this.setStatus(result.status, took >= 0.1 ? ` · ${took.toFixed(took < 10 ? 1 : 0)} s` : '');
    const { details } = result;
    if (this.asks) this.details.open = true; // a question and its answer belong to the conversation
    this.out.replaceChildren();
    if (typeof details?.diff === 'string' && details.diff) {
      this.args.replaceChildren(); // the diff shows them
      this.out.append(diff(details.diff));
      this.details.open = this.name !== 'diff';
      this.state.textContent += ` · +${Number(details.added)} −${Number(details.removed)}`;
    } else if (writtenBy(result)) {
      this.args.replaceChildren();
      this.label.textContent = progress(details.todos);
      this.out.append(drawItems(details.todos));
    } else {
      for (const part of result.content) this.out.append(part.type === 'image' ? image(part) : pre(plain(part.text ?? '')));
      if (details?.end && details.session) this.out.append(el('p', { class: 'note' }, `The sub-agent’s session is ${details.session}.`));
    }
    if (typeof details?.exit_code === 'number' && details.exit_code) this.state.textContent += ` · exit ${details.exit_code}`;
  }

  /** Asks for a decision, which `decide(body)` sends. `preview()` reads the change that the call would make. */
  ask(action, decide, preview) {
    this.setStatus('waiting');
    this.setArguments(action.arguments);
    const question = questionOf(action);
    this.args.hidden = !action.request || Boolean(question); // the card shows them
    this.asks = Boolean(question);
    this.card = actionCard(action, decide, preview);
    this.node.append(this.card);
  }

  /** Asks for a decision that its sub-agent needs. */
  askForAgent(action, decide) {
    this.setStatus('waiting');
    this.cards.get(action.call)?.node.remove();
    const node = actionCard(action, decide);
    this.cards.set(action.call, { node, action });
    this.node.append(node);
  }

  note(text) { this.notes.append(el('p', { class: 'note' }, text)); }

  /** Shows an approval of an action that needs further approvals. */
  approved(who) {
    this.note(`Approved by ${who}. More approvals are required.`);
  }

  /** Shows the decision that resolved an action of its sub-agent. */
  resolvedForAgent(call, decision, who) {
    const known = this.cards.get(call);
    if (!known) return;
    known.node.remove();
    this.cards.delete(call);
    const [kind, more] = kindOf(decision);
    this.note(`${known.action.name}: ${wordsFor(kind, more, who, questionOf(known.action))}`);
    if (!this.cards.size) this.setStatus('running');
  }

  /** Shows the decision that resolved the action. */
  resolved(decision, who) {
    this.removeCard();
    const [kind, more] = kindOf(decision);
    this.note(wordsFor(kind, more, who, this.asks));
    if (kind === 'approve_with') this.setArguments(more);
    this.setStatus(kind === 'deny' ? 'denied' : 'ready');
  }

  removeCard() {
    this.card?.remove();
    this.card = null;
    for (const { node } of this.cards.values()) node.remove();
    this.cards.clear();
    this.args.hidden = false;
  }
}

/** Returns the kind of a decision, and its content. */
const kindOf = (decision) => (typeof decision === 'string' ? [decision] : Object.entries(decision)[0]);

/** Returns the text for a decision. */
function wordsFor(kind, more, who, asks) {
  const by = who ? ` by ${who}` : '';
  const words = {
    approve: `Approved${by}.`, approve_with: `Approved with other arguments${by}.`,
    deny: `Denied${by}${more ? `: ${more}` : '.'}`,
    provide: asks ? `Answered${by}.` : more?.result ? `The result was provided${by}.` : `The input was provided${by}.`,
  };
  return words[kind] ?? kind;
}

/** Draws an image of a message. */
export function image({ media_type: type, data }) {
  if (!IMAGES.includes(type)) return pre(`An image of type ${type}.`);
  return el('img', { src: `data:${type};base64,${data}`, alt: 'Image', loading: 'lazy' });
}

/** Creates the card of an action: a question, or a call. */
export function actionCard(action, decide, preview) {
  const question = questionOf(action);
  return question ? questionCard(question, action, decide, drawArguments) : card(action, decide, preview);
}

function card(action, decide, preview) {
  const request = action.request;
  const name = visible(action.name);
  const agent = agentOf(action) && `${agentOf(action)}: `;
  const text = agent + (request ? `${name} asks: ${request.kind}` : `Run ${name}?`);
  const { node, title, face, showProblem, resolve } = emptyCard(text, action, decide);
  const back = () => button('Back', () => (showProblem(''), showChoices(), title.focus()));
  let change = null; // nodes shown instead of the arguments, or with them
  let shown; // the digest of the change that is shown: only that one is approved
  const content = () => el('div', { class: 'args' }, ...(change ?? drawArguments(request?.data ?? action.arguments)));
  // The JSON that may be sent besides yes and no: the input for a tool, or other arguments.
  const json = request
    ? { open: 'Provide…', label: 'Input as JSON', start: '', go: 'Provide', body: (data) => ({ decision: 'provide', data }) }
    : {
      open: 'Edit…', label: 'Arguments as JSON', start: JSON.stringify(action.arguments, null, 2), go: 'Approve as edited',
      body: (value) => ({ decision: 'approve_with', arguments: value }),
    };

  function showChoices() {
    face.replaceChildren(content(), row(
      ...(allows(action, 'approve')
        ? [button(request ? 'Done' : 'Approve', () => resolve({ decision: 'approve', change: shown }), 'primary approve')] : []),
      ...(allows(action, request ? 'provide' : 'approve_with') ? [button(json.open, edit, 'edit')] : []),
      button('Deny…', deny, 'deny')));
  }

  function edit() {
    const field = el('textarea', { class: 'json', spellcheck: 'false', 'aria-label': json.label });
    field.value = json.start;
    field.rows = Math.min(20, field.value.split('\n').length + 1);
    const go = button(json.go, () => resolve(json.body(parse(field.value))), 'primary approve');
    const check = () => {
      const why = problemOf(field.value, !request);
      field.setAttribute('aria-invalid', Boolean(why));
      go.disabled = Boolean(why);
      showProblem(why);
    };
    field.addEventListener('input', check);
    go.disabled = !json.start;
    face.replaceChildren(...(request ? [content()] : []), field, row(go, back()));
    field.focus();
  }

  function deny() {
    const { reason, go } = denial('Deny', 'Why not? The model reads this.', resolve);
    face.replaceChildren(content(), reason, row(go, back()));
    reason.focus();
  }

  /** Shows the change that the call would make, unless the action was decided meanwhile. */
  async function showPreview() {
    const { digest, diff: text, change: of, problem } = (node.isConnected && (await preview())) || {};
    if (digest !== action.digest || (text === undefined && !problem)) return;
    shown = of;
    const note = problem ?? (text ? '' : 'The call would change no line.');
    change = text ? [diff(visible(text))] : [...drawArguments(action.arguments), el('p', { class: 'note' }, visible(note))];
    const [before, next] = [face.querySelector(':scope > .args'), content()];
    const focused = before?.contains(document.activeElement);
    before?.replaceWith(next);
    if (focused) next.querySelector('[tabindex]')?.focus();
  }

  showChoices();
  // Delayed, since events of earlier decisions follow at once. Without a preview the arguments are shown.
  if (!request && preview) setTimeout(() => showPreview().catch(() => {}), PREVIEW_DELAY);
  return node;
}

/** Returns why a text cannot be sent as JSON, or an empty text if it can. */
function problemOf(text, object) {
  try {
    const value = JSON.parse(text);
    const fits = !object || (value !== null && typeof value === 'object' && !Array.isArray(value));
    return fits ? '' : 'The arguments must be one JSON object.';
  } catch (error) {
    return `This is not JSON yet: ${error.message}`;
  }
}
