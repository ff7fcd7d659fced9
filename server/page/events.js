// The events of a session. A browser opens six connections to a server over HTTP/1.1, so the tabs of the page share one
// stream. The tab that holds a lock reads it for all, and passes each frame to the tab that follows its session. When that
// tab is closed, the next one gets the lock.

import { ApiError, BASE, call, hex, isTemporary, newId, token } from './api.js';
import { frames } from './frames.js';

/** The number of earlier events per page. */
export const PAGE_EVENTS = 400;
/** Milliseconds between attempts to reconnect. */
const MIN_RETRY_DELAY = 500, MAX_RETRY_DELAY = 15_000;

const tab = newId();
let group = null; // the tabs that share a stream with this one
let joining = null; // set while the group is being joined
let current = null; // the session that this tab follows

/** A delay that grows from one attempt to the next, and ends early when the network or the user is back. */
class Backoff {
  delay = MIN_RETRY_DELAY;
  reset() { this.delay = MIN_RETRY_DELAY; }
  end() { this.done?.(); }
  wait() {
    const pause = this.delay * (0.75 + Math.random() / 2);
    this.delay = Math.min(this.delay * 2, MAX_RETRY_DELAY);
    return new Promise((done) => {
      const timer = setTimeout(done, pause);
      this.done = () => (clearTimeout(timer), done());
    });
  }
}

/**
 * Streams the events of a session, starting near its end. After a break it continues after the last numbered event.
 * `on.event(envelope, number)`: the number is missing for parts of replies; `on.live()`: the stream is open; `on.waiting(error)`: it will reconnect; `on.gone(error)`: it will
 * not; `on.restart()`: discard all events. Returns a function that ends the stream.
 */
export function follow(session, on) {
  let after = 0, feed = null, gone = false;
  const backoff = new Backoff();

  function subscribe() {
    const unfollow = feed ? [feed] : [];
    feed = `${tab}.${newId()}`; // so that frames of an earlier feed are ignored
    group.change({ follow: [{ feed, session, ...(after ? { after } : { last: PAGE_EVENTS }) }], unfollow });
  }

  async function failed(error) {
    feed = null;
    if (error?.kind === 'after_the_end') { // the log has become shorter
      after = 0;
      on.restart();
      return subscribe();
    }
    if (!isTemporary(error)) {
      gone = true;
      return on.gone(error);
    }
    on.waiting(error);
    await backoff.wait();
    if (current === mine && !feed) subscribe();
  }

  const mine = {
    backoff,
    renew: () => gone || subscribe(),
    lost: (error) => gone || ((feed = null), on.waiting(error)),
    receive(frame) {
      if (frame.feed !== feed) return;
      if (frame.type === 'open') return on.live();
      if (frame.type === 'error') return void failed(new ApiError(undefined, frame.error));
      if (frame.type === 'end') return void failed(null);
      backoff.reset();
      if (frame.id) {
        if (frame.id <= after) return;
        after = frame.id;
      }
      try {
        on.event(frame.event, frame.id);
      } catch (error) {
        reportError(error); // an event that cannot be drawn is skipped
      }
    },
  };
  current = mine;
  group && !joining ? subscribe() : join();
  return () => {
    if (current !== mine) return;
    current = null;
    if (feed) group?.change({ follow: [], unfollow: [feed] });
  };
}

/** Joins the tabs with the same token. To the server they are one reader. */
function join() {
  joining ??= groupName().then((name) => {
    joining = null;
    group?.leave();
    group = new Group(name);
    current?.renew();
  });
}

/** Returns the name of the group of this tab's token, or null if sharing is impossible: over HTTP from another machine. */
async function groupName() {
  if (!navigator.locks || !crypto.subtle) return null;
  const own = token() ?? '';
  const hash = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(own));
  return own === (token() ?? '') ? `loopwright ${BASE.pathname} ${hex(new Uint8Array(hash))}` : groupName();
}

class Group {
  constructor(name) {
    this.name = name;
    this.left = new AbortController();
    this.stream = null; // the id of the open stream, in the tab that reads it
    this.failure = null; // the reason that it is not open
    this.tabs = new Map(); // by id: the channel to a tab, and its feeds
    this.backoff = new Backoff();
    this.broken = new AbortController();
    this.next = { follow: [], unfollow: [] };
    this.sending = false;
    this.present = Promise.resolve();
    if (!name) return void this.read();
    this.all = this.channel(name, (message) => this[message.type](message));
    this.channel(`${name} ${tab}`, (frame) => current?.receive(frame));
    this.present = this.hold(`${name} ${tab}`); // while it is held, this tab is open
    this.hold(name).then(() => this.read());
  }

  leave() {
    this.left.abort();
    this.broken.abort();
    this.tabs.forEach(({ channel }) => channel?.close());
  }

  channel(name, receive) {
    const channel = new BroadcastChannel(name);
    channel.onmessage = ({ data }) => receive(data);
    this.left.signal.addEventListener('abort', () => channel.close());
    return channel;
  }

  /** Holds a lock until this tab leaves. Resolves when it has the lock. */
  hold(name) {
    const { signal } = this.left;
    return new Promise((held) => {
      const keep = () => (held(), new Promise((release) => signal.addEventListener('abort', release)));
      navigator.locks.request(name, { signal }, keep).catch(() => {}); // it has left
    });
  }

  /** Sends a message to all tabs, including this one: the name of a method, and its arguments. */
  tell(message) {
    this.all?.postMessage(message);
    this[message.type](message);
  }

  /** Changes the sessions that this tab follows. */
  async change(change) {
    await this.present;
    if (!this.left.signal.aborted) this.tell({ type: 'changed', from: tab, ...change });
  }

  /* Messages */

  opened() { current?.renew(); }

  lost({ error }) { current?.lost(error && new ApiError(error.status, error)); }

  woken() {
    this.backoff.end();
  }

  /** Handles a change of the sessions that a tab follows. The tab that reads the stream sends it to the server. */
  changed({ from, follow, unfollow }) {
    if (!this.stream) {
      if (this.failure) this.tell(this.failure);
      return;
    }
    if (follow.length && !this.tabs.has(from)) this.meet(from);
    const feeds = this.tabs.get(from)?.feeds;
    unfollow.forEach((feed) => feeds?.delete(feed));
    follow.forEach(({ feed }) => feeds.add(feed));
    this.next.follow = this.next.follow.filter(({ feed }) => !unfollow.includes(feed)).concat(follow);
    this.next.unfollow.push(...unfollow);
    this.send();
  }

  /* The tab that reads the stream */

  /** Adds a tab, and removes it when it is closed. */
  meet(from) {
    const channel = from === tab ? null : new BroadcastChannel(`${this.name} ${from}`);
    this.tabs.set(from, { channel, feeds: new Set() });
    if (!channel) return;
    const closed = () => {
      const { feeds } = this.tabs.get(from);
      channel.close();
      this.tabs.delete(from);
      this.changed({ from, follow: [], unfollow: [...feeds] });
    };
    navigator.locks.request(`${this.name} ${from}`, { signal: this.left.signal }, closed).catch(() => {}); // this tab has left
  }

  /** Sends the changes to the server, one request after the other. Changes that come meanwhile are sent together. */
  async send() {
    if (this.sending) return;
    this.sending = true;
    const { broken } = this;
    try {
      while (this.stream && this.next.follow.length + this.next.unfollow.length) {
        const change = this.next;
        this.next = { follow: [], unfollow: [] };
        await call('POST', `events/${this.stream}`, change);
      }
    } catch {
      broken.abort();
    }
    this.sending = false;
  }

  pass(frame) {
    const from = frame.feed.split('.')[0];
    if (from === tab) current?.receive(frame);
    else this.tabs.get(from)?.channel.postMessage(frame);
  }

  /** Reads the stream for all tabs, until this one is closed. */
  async read() {
    const options = { signal: this.left.signal };
    addEventListener('online', () => this.woken(), options);
    while (!this.left.signal.aborted) {
      let failure = null;
      try {
        await this.readOnce();
      } catch (error) {
        failure = error;
      }
      this.stream = null;
      if (this.left.signal.aborted) return;
      const error = failure instanceof ApiError ? { message: failure.message, kind: failure.kind, status: failure.status } : null;
      this.failure = { type: 'lost', error };
      this.tell(this.failure);
      await this.backoff.wait();
    }
  }

  async readOnce() {
    this.broken = new AbortController();
    for await (const frame of frames('POST', 'events', {}, this.broken)) {
      if (frame.feed) this.pass(frame);
      if (frame.type !== 'stream') continue;
      this.backoff.reset();
      [this.stream, this.failure] = [frame.stream, null];
      this.tell({ type: 'opened' });
    }
  }
}

addEventListener('token', () => group && join());
document.addEventListener('visibilitychange', () => {
  if (document.visibilityState !== 'visible') return;
  current?.backoff.end();
  group?.tell({ type: 'woken' });
});
addEventListener('online', () => current?.backoff.end());
