// A conversation on the page, derived from a session's events. It is the same after a reload, a break and in every tab.

import { count, debounced, el, short, visible } from './dom.js';
import { Markdown } from './markdown.js';
import { ToolCall, image } from './tool.js';
import { asleep, writtenBy } from './work.js';

/** Milliseconds for which deltas are collected before they are drawn. */
const DRAW_DELAY = 30;
/** Events that do not change the state around the conversation. */
const STREAMED = ['message_update', 'detached_update', 'tool_execution_update'];
/** Returns the words for a limit, as `turns of the session`. */
const limitOf = (limit) => limit.replace('wall_', '').replace(/_/g, ' ')
  .replace(/^(session|part) (.*)/, (_, of, what) => `${what} of ${of === 'part' ? 'a part' : 'the session'}`);

/** A text that is drawn while it streams, by `push`. */
class Block {
  text = '';
  drawn = 0;
  add(delta) { this.text += delta; }
  draw() {
    if (this.drawn < this.text.length) this.push(this.text.slice(this.drawn));
    this.drawn = this.text.length;
  }
}

/** Text of a reply. */
class Text extends Block {
  kind = 'text';
  node = el('div', { class: 'md' });
  markdown = new Markdown(this.node);
  push(text) { this.markdown.push(text); }
  end() {
    this.draw();
    this.markdown.end();
  }
}

/** The thinking of the model, collapsed. */
class Thinking extends Block {
  kind = 'thinking';
  label = el('summary', {}, 'Thinking…');
  body = el('div', { class: 'thought' });
  node = el('details', { class: 'thinking' }, this.label, this.body);
  push(text) { this.body.append(text); }
  end() {
    this.draw();
    this.label.textContent = 'Thought';
    this.node.hidden = !this.text.trim();
  }
}

/** Returns whether a reply has neither text nor calls. */
const isEmpty = (parts) => !parts.some((part) => part.type === 'tool_call' || (part.type === 'text' && part.text.trim()));

/** A reply of the model: its blocks, in the order of their starts. A detached reply has a speaker. */
class Reply {
  constructor(speaker) {
    this.heading = speaker === undefined ? [] : [el('p', { class: 'speaker' }, speaker)];
    this.node = el('article', { class: 'assistant', 'aria-label': speaker ?? 'Reply', 'aria-busy': 'true' });
    this.clear();
  }

  clear() {
    this.blocks = new Map();
    this.node.replaceChildren(...this.heading);
  }

  addBlock(number, kind, name) {
    const block = kind.startsWith('tool_call') ? new ToolCall(name) : kind === 'text' ? new Text() : new Thinking();
    this.blocks.set(number, block);
    this.node.append(block.node);
    return block;
  }

  update({ kind, block, delta, name }) {
    if (kind === 'tool_call_start') return void this.addBlock(block, kind, name);
    const existing = this.blocks.get(block);
    if (kind === 'tool_call') existing?.add(delta);
    else (existing ?? this.addBlock(block, kind)).add(delta);
  }

  draw() {
    for (const block of this.blocks.values()) block.draw?.();
  }

  /** Shows the complete message. Streamed blocks stay if they are equal. Returns the calls with their ids. */
  end({ parts, stop }) {
    const blocks = [...this.blocks.values()];
    const same = blocks.length === parts.length && parts.every((part, at) =>
      part.type === 'tool_call' ? blocks[at].name === part.name : blocks[at].kind === part.type && blocks[at].text === part.text);
    if (!same) {
      this.clear();
      parts.forEach(({ type, name, text }, at) => this.addBlock(at, type, name).add(text ?? ''));
    }
    this.node.removeAttribute('aria-busy');
    const calls = [];
    [...this.blocks.values()].forEach((block, at) => {
      if (!(block instanceof ToolCall)) return block.end();
      block.setRawArguments(parts[at].arguments);
      calls.push([parts[at].id, block]);
    });
    const why = { length: 'The reply was cut off: it reached the limit of its length.', content_filter: 'The provider’s filter cut the reply off.', interrupted: 'Interrupted.' }[stop]
      ?? (isEmpty(parts) ? 'The reply is empty.' : null);
    if (why) this.node.append(el('p', { class: 'note' }, why));
    return calls;
  }
}

/** A countdown to the next attempt of a failed request. */
class Retry {
  constructor({ attempt, max_attempts: max, delay_ms: delay, reason, time }) {
    const until = time + delay;
    this.node = el('div', { class: 'notice', role: 'status' });
    this.draw = () => {
      const left = Math.max(0, Math.ceil((until - Date.now()) / 1000));
      this.node.textContent = `${reason} Trying again ${left ? `in ${left} s` : 'now'} (attempt ${attempt} of ${max}).`;
    };
    this.timer = setInterval(this.draw, 1000);
    this.draw();
  }
  end() {
    clearInterval(this.timer);
    this.node.remove();
  }
}

/**
 * Draws events into `root`. `on.changed(event)`: the state around it has changed; `on.replied(text)`: the model has just completed
 * this reply; `on.ended(outcome)`: a run has ended; `on.decide(call, body)` sends a decision; `on.preview(call)` reads the
 * change of a pending call; `on.continue()` continues a run.
 */
export class Conversation {
  constructor(root, on) {
    Object.assign(this, { root, on });
    this.calls = new Map(); // by id
    this.open = new Map(); // streaming replies, by number
    this.actions = new Map(); // pending actions, by call
    this.requests = new Map(); // texts that wait for a run of their own, by input
    this.continueButton = el('button', { type: 'button', class: 'continue', onclick: on.continue }, 'Continue');
    this.scheduleDraw = debounced(DRAW_DELAY, () => this.open.forEach((reply) => reply.draw()));
    this.clear();
  }

  clear() {
    this.root.replaceChildren();
    this.waiting?.end();
    this.waiting = null; // the notice that a request will be retried
    for (const map of [this.calls, this.open, this.actions]) map.clear();
    this.run = null; // the id of the run in progress
    this.interruption = null; // the notice that a crash has interrupted the run
    this.compacting = false; // whether the run only compacts
    this.queue = []; // { input, queue, text } of steers and follow-ups
    this.todos = undefined; // the model's todo list, once it is known
    this.todoCall = null; // the call that wrote it
    this.stages = undefined; // the stages of the pattern's work, once they are known
    this.first = null; // the number of the first event shown
  }

  /** Takes from the status of the session what events have not said. */
  know({ todos, stages }) {
    this.todos ??= todos;
    this.stages ??= stages;
  }

  get running() { return this.run !== null && !this.interruption; }

  /** Prepares for a new stream, which repeats tools' output and detached replies. A streaming reply restarts on its own. */
  reconnected() {
    for (const call of this.calls.values()) call.live?.replaceChildren();
    for (const [id, { heading }] of this.open) if (heading.length) this.drop(id);
  }

  add(node) {
    this.root.append(node);
    return node;
  }

  notice(text, kind = '', ...more) {
    return this.add(el('div', { class: `notice ${kind}` }, el('span', {}, text), ...more));
  }

  /** Adds a notice of a failure after which the user can continue. The last such notice has the button. */
  failed(text) {
    return this.notice(text, 'error', this.continueButton);
  }

  /** Returns the reply with this number, adding it if necessary. */
  reply(id, speaker) {
    let reply = this.open.get(id);
    if (!reply) {
      reply = new Reply(speaker);
      this.open.set(id, reply);
      this.add(reply.node);
    }
    return reply;
  }

  /** Draws earlier events, the first of which has this number. They contain no open work. */
  prepend(events, first) {
    const page = new Conversation(el('div'), { changed() {}, replied() {}, ended() {} });
    events.forEach((event) => page.apply(event));
    page.continueButton.remove();
    this.root.prepend(...page.root.childNodes);
    this.first = first;
  }

  apply(event) {
    if (event.parent) return; // a sub-agent's
    this[event.type]?.(event);
    if (!STREAMED.includes(event.type)) this.on.changed(event);
  }

  agent_start({ run_id: run, cause }) {
    this.run = run;
    this.compacting = Boolean(cause?.compact);
    this.requests.delete(cause?.user_request ?? cause?.continue);
    this.continueButton.remove();
  }

  turn_start({ run_id: run }) {
    this.run = run; // the first event may be this one
    this.compacting = false;
  }

  message_start({ message_id: id, role }) {
    if (role === 'assistant') this.reply(id).clear();
  }

  retry(event) {
    this.waiting?.end();
    this.waiting = new Retry(event);
    this.add(this.waiting.node);
  }

  message_update(event) {
    if (event.kind !== 'withdrawn') this.waiting?.end();
    if (event.kind === 'withdrawn') this.open.get(event.message_id)?.clear();
    else this.reply(event.message_id, event.speaker).update(event);
    this.scheduleDraw();
  }

  detached_update(event) {
    if (event.kind === 'withdrawn') this.drop(event.message_id);
    else this.message_update(event);
  }

  /** Removes a reply that streamed. */
  drop(id) {
    this.open.get(id)?.node.remove();
    this.open.delete(id);
  }

  message_end({ message }) {
    if (message.role === 'user') this.user(message);
    else if (message.role === 'tool_result') this.calls.get(message.call)?.end(message);
    else if (message.role === 'custom') this.notice(message.kind);
    else if (message.role === 'detached') {
      this.reply(message.id, message.speaker).end(message);
      this.open.delete(message.id);
    }
    else {
      const streamed = this.open.has(message.id); // false for earlier messages
      const reply = this.reply(message.id);
      this.open.delete(message.id);
      for (const [id, call] of reply.end(message)) this.calls.set(id, call);
      if (streamed) this.on.replied(message.parts.filter((part) => part.type === 'text').map((part) => part.text).join('\n'));
    }
  }

  user(message) {
    const article = el('article', { class: 'user', 'aria-label': 'You' });
    for (const part of message.content) article.append(part.type === 'image' ? image(part) : el('div', {}, part.text));
    this.add(article);
  }

  call(id, name) {
    let call = this.calls.get(id);
    if (!call) {
      call = new ToolCall(name);
      this.calls.set(id, call);
      this.add(call.node);
    }
    return call;
  }

  tool_execution_start({ call, name, arguments: args, time }) {
    this.call(call, name).start(args, time);
  }

  tool_execution_update({ call, update }) {
    this.calls.get(call)?.update(update);
  }

  tool_execution_end({ call, name, result, time }) {
    this.call(call, name).end(result, time);
    this.written(this.calls.get(call), writtenBy(result));
    for (const id of this.actions.keys()) if (id === call || id.startsWith(`${call}~`)) this.actions.delete(id);
  }

  /** Shows the list that a call has written instead of the earlier one. */
  written(call, todos) {
    if (!todos) return;
    if (this.todoCall && this.todoCall !== call) this.todoCall.node.hidden = true;
    [this.todos, this.todoCall] = [todos, call];
  }

  /** Returns the call whose sub-agent needs this decision, if there is one. */
  outer(id) {
    const ends = this.calls.has(id) ? [] : [...id.matchAll(/~/g)].map(({ index }) => index);
    return ends.map((end) => this.calls.get(id.slice(0, end))).find(Boolean);
  }

  external_action(action) {
    this.actions.set(action.call, action);
    const decide = (body) => this.on.decide(action.call, body);
    const outer = this.outer(action.call);
    if (outer) outer.askForAgent(action, decide);
    else this.call(action.call, action.name).ask(action, decide, () => this.on.preview?.(action.call));
  }

  external_action_approval({ call, approval }) {
    (this.outer(call) ?? this.calls.get(call))?.approved(approval.by);
  }

  external_action_end({ call, decision, by }) {
    this.actions.delete(call);
    const outer = this.outer(call);
    if (outer) outer.resolvedForAgent(call, decision, by);
    else this.calls.get(call)?.resolved(decision, by);
  }

  custom({ kind, data }) {
    if (kind === 'stages' && Array.isArray(data)) this.stages = data;
    if (kind === 'goal' && data?.rounds !== undefined) {
      this.notice(`The goal is ${data.reached ? '' : 'not '}reached after ${count(data.rounds, 'round')}.`);
    }
    if (kind === 'goal_progress' && data) this.notice(`Round ${data.round} of ${data.rounds}: ${visible(data.why || 'the goal is not reached.')}`);
  }

  queue_update({ added, removed = [] }) {
    this.queue = this.queue.filter(({ input }) => !removed.includes(input));
    if (added) this.queue.push(added);
  }

  compaction({ messages, message, summarised, error, tokens_before: before, tokens_after: after }) {
    const replaced = count(messages, 'message');
    const what = summarised ? `${replaced} became a summary` : `${replaced} left out${error ? `: ${error}` : ''}`;
    const text = message.content.map((part) => part.text ?? '').join('\n');
    this.add(el('details', { class: 'compaction' },
      el('summary', {}, `${what} · about ${short(before)} → ${short(after)} tokens`), el('div', { class: 'thought' }, text)));
  }

  reset() {
    const { run } = this;
    this.clear();
    [this.run, this.todos, this.stages] = [run, [], []];
    this.notice('The conversation was reset.');
  }

  agent_end(end) {
    this.run = null;
    this.waiting?.end();
    // A reply without content leaves no message.
    for (const reply of this.open.values()) reply.node.remove();
    this.open.clear();
    if (end.end === 'error' && this.compacting) this.notice(end.error, 'error');
    else if (end.end === 'error') this.failed(end.error ?? 'The run failed.');
    if (end.end === 'limit') this.failed(end.error ?? `The limit of ${limitOf(end.limit)} is used up.`);
    const more = end.limit?.startsWith('session') ? '.' : ': a message continues the work.';
    if (end.end !== 'limit' && end.limit) this.notice(`The limit of ${limitOf(end.limit)} is reached${more}`);
    if (end.end === 'aborted') this.notice('Stopped.');
    if (end.end === 'sleeping') this.notice(`${asleep(end)}.`);
    if (end.handed_back?.length) this.notice(`Not sent: ${end.handed_back.join(' · ')}`);
    this.on.ended(end);
  }

  /** Shows or removes the notice that a crash has interrupted this run (or null). No event reports an interrupted run, but the server does. */
  interrupted(run, why = 'The server stopped in the middle of this run.') {
    if (run === null || run !== this.run) {
      this.interruption?.remove();
      this.interruption = null;
    } else this.interruption ??= this.failed(why);
  }
}
