// The server's routes: requests with the token, and a stream of events that comes back after any break.

const BASE = new URL('api/', document.baseURI);
const KEY = 'loopwright-token';
/** Milliseconds: a stream that is silent for so long is dead, since the server speaks every 15 s. */
const SILENCE = 40_000;
const FIRST_WAIT = 500, LONGEST_WAIT = 15_000;

/** The server said no. */
export class Refused extends Error {
  constructor(status, error) {
    super(error?.message ?? `The server answered with status ${status}.`);
    Object.assign(this, { status, kind: error?.kind, path: error?.path });
  }
}

let asking = null;
let ask = async () => null;

/** Who asks the person for a token, told whether the server refused one; gives the token, or null. */
export const onToken = (asks) => (ask = asks);

export function keepToken(token) {
  sessionStorage.setItem(KEY, token);
}

async function request(method, path, { body, signal } = {}) {
  for (;;) {
    const token = sessionStorage.getItem(KEY);
    const headers = token ? { authorization: `Bearer ${token}` } : {};
    if (body !== undefined) headers['content-type'] = 'application/json';
    const init = { method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body) };
    const response = await fetch(new URL(path, BASE), init);
    if (response.ok) return response;
    const told = await response.json().catch(() => null);
    const why = new Refused(response.status, told?.error);
    if (why.kind !== 'token') throw why;
    // Many requests may be refused at once; the person is asked once.
    if (token === sessionStorage.getItem(KEY)) {
      asking ??= ask(Boolean(token)).finally(() => (asking = null));
      const given = await asking;
      if (!given) throw why;
      keepToken(given);
    }
  }
}

/** A request with a JSON answer. */
export async function call(method, path, body) {
  const response = await request(method, path, { body });
  return response.status === 204 ? null : response.json();
}

/** An id for an input: sent again, it changes nothing. */
export const newId = () =>
  Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, '0')).join('');

/** A request whose body has such an id: once more where the network failed. */
export const send = (path, body) =>
  call('POST', path, body).catch((why) => {
    if (why instanceof Refused) throw why;
    return call('POST', path, body);
  });

/** Whether the same request may do better later: when the server or the network is back, or the session is free. */
const mayPass = (why) => !(why instanceof Refused) || why.status >= 500 || [409, 429].includes(why.status);

/**
 * All events of a session, from its first, then live. What comes after a break follows on the last numbered event.
 * `on.event(envelope)`; `on.live()`; `on.waiting(why)`: it is tried again; `on.gone(why)`: it is not; `on.anew()`: forget
 * what came. Gives what ends it.
 */
export function follow(session, on) {
  const stop = new AbortController();
  let after = 0, wait = FIRST_WAIT, hurry = () => {};
  const wake = () => document.visibilityState === 'visible' && hurry();
  const options = { signal: stop.signal };
  addEventListener('online', wake, options);
  document.addEventListener('visibilitychange', wake, options);

  async function once() {
    const silent = new AbortController();
    let timer;
    const heard = () => (clearTimeout(timer), (timer = setTimeout(() => silent.abort(), SILENCE)));
    try {
      heard();
      const signal = AbortSignal.any([stop.signal, silent.signal]);
      const response = await request('GET', `sessions/${encodeURIComponent(session)}/events?after=${after}`, { signal });
      on.live();
      for await (const { id, data } of frames(response.body, heard)) {
        wait = FIRST_WAIT;
        if (id) {
          if (Number(id) <= after) continue;
          after = Number(id);
        }
        try {
          on.event(JSON.parse(data));
        } catch (why) {
          reportError(why); // what cannot be drawn is left out, and the rest goes on
        }
      }
    } finally {
      clearTimeout(timer);
    }
  }

  (async () => {
    while (!stop.signal.aborted) {
      let failed = null;
      try {
        await once();
      } catch (why) {
        failed = why;
      }
      if (stop.signal.aborted) return;
      if (failed?.kind === 'after_the_end') { // the log is shorter than what we have seen of it
        after = 0;
        on.anew();
        continue;
      }
      if (!mayPass(failed)) return on.gone(failed);
      const pause = wait * (0.75 + Math.random() / 2);
      on.waiting(failed);
      await new Promise((done) => {
        const timer = setTimeout(done, pause);
        hurry = () => (clearTimeout(timer), done());
        stop.signal.addEventListener('abort', hurry, { once: true });
      });
      wait = Math.min(wait * 2, LONGEST_WAIT);
    }
  })();
  return () => stop.abort();
}

/** The frames of an event stream, as `{id, data}`; `heard` is called for whatever comes. */
async function* frames(body, heard) {
  let rest = '', id = '', data = [];
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    heard();
    const lines = (rest + value).split(/\r?\n/);
    rest = lines.pop();
    for (const line of lines) {
      if (!line) {
        if (data.length) yield { id, data: data.join('\n') };
        [id, data] = ['', []];
        continue;
      }
      const [, field, text] = /^([^:]*):? ?(.*)$/s.exec(line);
      if (field === 'data') data.push(text);
      else if (field === 'id') id = text;
    }
  }
}
