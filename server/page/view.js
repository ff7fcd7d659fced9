// A conversation on the page: a fold of a session's events, the same after a reload, a break and in every tab.

import { el, short, soon } from './dom.js';
import { Markdown } from './markdown.js';
import { ToolCall } from './tool.js';

/** Milliseconds in which deltas are gathered before they are drawn. */
const GATHER = 30;
/** Events that change nothing around the conversation. */
const STREAMED = ['message_update', 'tool_execution_update'];
const LIMITS = { turns: 'turns', tokens: 'tokens', cost: 'cost', wall_time: 'time' };

/** Text of a reply, drawn as it comes. */
class Text {
  constructor() {
    this.node = el('div', { class: 'md' });
    this.markdown = new Markdown(this.node);
    [this.kind, this.text, this.drawn] = ['text', '', 0];
  }
  add(delta) { this.text += delta; }
  draw() {
    if (this.drawn < this.text.length) this.markdown.push(this.text.slice(this.drawn));
    this.drawn = this.text.length;
  }
  end() {
    this.draw();
    this.markdown.end();
  }
}

/** What the model thinks: folded away. */
class Thinking {
  constructor() {
    this.label = el('summary', {}, 'Thinking…');
    this.body = el('div', { class: 'thought' });
    this.node = el('details', { class: 'thinking' }, this.label, this.body);
    [this.kind, this.text, this.drawn] = ['thinking', '', 0];
  }
  add(delta) { this.text += delta; }
  draw() {
    this.body.append(this.text.slice(this.drawn));
    this.drawn = this.text.length;
  }
  end() {
    this.draw();
    this.label.textContent = 'Thought';
    this.node.hidden = !this.text.trim();
  }
}

/** A reply of the model: blocks in the order in which they began. */
class Reply {
  constructor() {
    this.node = el('article', { class: 'assistant', 'aria-label': 'Reply', 'aria-busy': 'true' });
    this.blocks = new Map();
  }

  clear() {
    this.blocks.clear();
    this.node.replaceChildren();
  }

  put(number, block) {
    this.blocks.set(number, block);
    this.node.append(block.node);
    return block;
  }

  update({ kind, block, delta, name }) {
    if (kind === 'tool_call_start') return void this.put(block, new ToolCall(name));
    const known = this.blocks.get(block);
    if (kind === 'tool_call') known?.write(delta);
    else (known ?? this.put(block, kind === 'text' ? new Text() : new Thinking())).add(delta);
  }

  draw() {
    for (const block of this.blocks.values()) block.draw?.();
  }

  /** The whole message: what was streamed stays where it is the same. Gives the calls with their ids. */
  end({ parts, stop }) {
    const blocks = [...this.blocks.values()];
    const same = blocks.length === parts.length && parts.every((part, at) =>
      part.type === 'tool_call' ? blocks[at].name === part.name : blocks[at].kind === part.type && blocks[at].text === part.text);
    if (!same) {
      this.clear();
      parts.forEach((part, at) => {
        if (part.type === 'tool_call') return this.put(at, new ToolCall(part.name));
        this.put(at, part.type === 'text' ? new Text() : new Thinking()).add(part.text);
      });
    }
    this.node.removeAttribute('aria-busy');
    const calls = [];
    [...this.blocks.values()].forEach((block, at) => {
      if (!(block instanceof ToolCall)) return block.end();
      block.written(parts[at].arguments);
      calls.push([parts[at].id, block]);
    });
    const why = { length: 'The reply was cut off: it reached the limit of its length.', content_filter: 'The provider’s filter cut the reply off.', aborted: 'Stopped.', interrupted: 'Interrupted.' }[stop];
    if (why) this.node.append(el('p', { class: 'note' }, why));
    return calls;
  }
}

/**
 * Folds events into `root`. `on.changed()`: what stands around it has changed; `on.said(text)`: the model has said this, just now;
 * `on.ended(outcome)`: a run has ended; `on.decide(call, body)` sends an answer; `on.again()` lets a run go on.
 */
export class Conversation {
  constructor(root, on) {
    Object.assign(this, { root, on });
    this.calls = new Map(); // by id
    this.open = new Map(); // replies that stream, by number
    this.waiting = new Map(); // actions that wait for an answer, by call
    this.pending = new Map(); // texts that wait for a run of their own, by input
    this.goOn = el('button', { type: 'button', class: 'again', onclick: on.again }, 'Continue');
    this.drawSoon = soon(GATHER, () => this.open.forEach((reply) => reply.draw()));
    this.clear();
  }

  clear() {
    this.root.replaceChildren();
    for (const map of [this.calls, this.open, this.waiting]) map.clear();
    this.run = null; // the id of the one that goes on
    this.cut = null; // the notice that a crash has cut it off
    this.compacts = false; // and that is all it does
    this.queue = { steering: [], followUp: [] };
  }

  get running() { return this.run !== null && !this.cut; }

  /** What goes on is sent again from here on; a reply begins anew by itself. */
  joins() {
    for (const call of this.calls.values()) call.live?.replaceChildren();
  }

  add(node) {
    this.root.append(node);
    return node;
  }

  notice(text, kind = '', ...more) {
    return this.add(el('div', { class: `notice ${kind}` }, el('span', {}, text), ...more));
  }

  /** Something failed that can be gone on with: the last such notice has the button. */
  failed(text) {
    return this.notice(text, 'error', this.goOn);
  }

  /** The reply with this number, as far as it has come. */
  reply(id) {
    let reply = this.open.get(id);
    if (!reply) {
      reply = new Reply();
      this.open.set(id, reply);
      this.add(reply.node);
    }
    return reply;
  }

  apply(event) {
    if (event.parent) return; // a sub-agent's
    this[event.type]?.(event);
    if (!STREAMED.includes(event.type)) this.on.changed();
  }

  agent_start({ run_id: run, cause }) {
    this.run = run;
    this.compacts = Boolean(cause?.compact);
    this.pending.delete(cause?.user_request ?? cause?.continue);
    this.goOn.remove();
  }

  turn_start() {
    this.compacts = false;
  }

  message_start({ message_id: id, role }) {
    if (role === 'assistant') this.reply(id).clear();
  }

  message_update(event) {
    if (event.kind === 'withdrawn') this.open.get(event.message_id)?.clear();
    else this.reply(event.message_id).update(event);
    this.drawSoon();
  }

  message_end({ message }) {
    if (message.role === 'user') this.user(message);
    else if (message.role === 'tool_result') this.calls.get(message.call)?.end(message);
    else if (message.role === 'custom') this.notice(message.kind);
    else {
      const streamed = this.open.has(message.id); // and is not told of the past
      const reply = this.reply(message.id);
      this.open.delete(message.id);
      for (const [id, call] of reply.end(message)) this.calls.set(id, call);
      if (streamed) this.on.said(message.parts.filter((part) => part.type === 'text').map((part) => part.text).join('\n'));
    }
  }

  user(message) {
    const article = el('article', { class: 'user', 'aria-label': 'You' });
    for (const piece of message.content) article.append(el('div', {}, piece.type === 'text' ? piece.text : 'An image.'));
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
    this.waiting.delete(call);
  }

  external_action(action) {
    this.waiting.set(action.call, action);
    this.call(action.call, action.name).ask(action, (body) => this.on.decide(action.call, body));
  }

  external_action_end({ call, decision, by }) {
    this.waiting.delete(call);
    this.calls.get(call)?.answered(decision, by);
  }

  queue_update({ steering, follow_up: followUp }) {
    this.queue = { steering, followUp };
  }

  compaction({ messages, message, summarised, error, tokens_before: before, tokens_after: after }) {
    const count = messages === 1 ? '1 message' : `${messages} messages`;
    const what = summarised ? `${count} became a summary` : `${count} left out${error ? `: ${error}` : ''}`;
    const text = message.content.map((piece) => piece.text ?? '').join('\n');
    this.add(el('details', { class: 'compaction' },
      el('summary', {}, `${what} · about ${short(before)} → ${short(after)} tokens`), el('div', { class: 'thought' }, text)));
  }

  reset() {
    const { run } = this;
    this.clear();
    this.run = run;
    this.notice('The conversation began anew.');
  }

  agent_end(end) {
    this.run = null;
    // A reply of which nothing was said leaves no message.
    for (const reply of this.open.values()) reply.node.remove();
    this.open.clear();
    if (end.end === 'error' && this.compacts) this.notice(end.error, 'error');
    else if (end.end === 'error') this.failed(end.error ?? 'The run failed.');
    if (end.end === 'limit') this.failed(end.error ?? `The limit of ${LIMITS[end.limit] ?? end.limit} is used up.`);
    if (end.end === 'aborted') this.notice('Stopped.');
    if (end.handed_back?.length) this.notice(`Not sent: ${end.handed_back.join(' · ')}`);
    this.on.ended(end);
  }

  /** The run that a crash has left open, or null. The server tells of it, and no event: once it goes on the notice goes. */
  interrupted(run) {
    if (run === null || run !== this.run) {
      this.cut?.remove();
      this.cut = null;
    } else this.cut ??= this.failed('The server stopped in the middle of this run.');
  }
}
