// The server's routes: requests with the token, and a stream of events that reconnects after any break.

const BASE = new URL('api/', document.baseURI);
const TOKEN_KEY = 'loopwright-token';
/** Milliseconds after which a silent stream is dead: the server sends something every 15 s. */
const SILENCE_TIMEOUT = 40_000;
/** Milliseconds between attempts to reconnect. */
const MIN_RETRY_DELAY = 500, MAX_RETRY_DELAY = 15_000;

/** The server refused a request. */
export class ApiError extends Error {
  constructor(status, error) {
    super(error?.message ?? `The server responded with status ${status}.`);
    Object.assign(this, { status, kind: error?.kind, path: error?.path });
  }
}

let asking = null;
let askForToken = async () => null;

/** Sets the function that asks the user for a token. It receives whether the server refused one, and returns one or null. */
export const onToken = (ask) => (askForToken = ask);

export function storeToken(token) {
  sessionStorage.setItem(TOKEN_KEY, token);
}

async function request(method, path, { body: json, signal } = {}) {
  for (;;) {
    const token = sessionStorage.getItem(TOKEN_KEY);
    const headers = token ? { authorization: `Bearer ${token}` } : {};
    if (json !== undefined) headers['content-type'] = 'application/json';
    const init = { method, headers, signal, body: json === undefined ? undefined : JSON.stringify(json) };
    const response = await fetch(new URL(path, BASE), init);
    if (response.ok) return response;
    const body = await response.json().catch(() => null);
    const error = new ApiError(response.status, body?.error);
    if (error.kind !== 'token') throw error;
    // Many requests may be refused at once; the user is asked once.
    if (token === sessionStorage.getItem(TOKEN_KEY)) {
      asking ??= askForToken(Boolean(token)).finally(() => (asking = null));
      const given = await asking;
      if (!given) throw error;
      storeToken(given);
    }
  }
}

/** Sends a request and returns the JSON of the response. */
export async function call(method, path, body) {
  const response = await request(method, path, { body });
  return response.status === 204 ? null : response.json();
}

/** Returns an id for an input: repeated input with the same id changes nothing. */
export const newId = () =>
  Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, '0')).join('');

/** Sends a request whose body has such an id, and repeats it once if the network failed. */
export const send = (path, body) =>
  call('POST', path, body).catch((error) => {
    if (error instanceof ApiError) throw error;
    return call('POST', path, body);
  });

/** Returns whether a request may succeed later: when the server or the network is back, or the session is free. */
const isTemporary = (error) => !(error instanceof ApiError) || error.status >= 500 || [409, 429].includes(error.status);

/**
 * Streams all events of a session, from its first. After a break it continues after the last numbered event.
 * `on.event(envelope)`; `on.live()`: the stream is open; `on.waiting(error)`: it will reconnect; `on.gone(error)`: it will
 * not; `on.restart()`: discard all events. Returns a function that ends it.
 */
export function follow(session, on) {
  const stop = new AbortController();
  let after = 0, delay = MIN_RETRY_DELAY, retryNow = () => {};
  const wake = () => document.visibilityState === 'visible' && retryNow();
  const options = { signal: stop.signal };
  addEventListener('online', wake, options);
  document.addEventListener('visibilitychange', wake, options);

  async function once() {
    const silent = new AbortController();
    let timer;
    const received = () => (clearTimeout(timer), (timer = setTimeout(() => silent.abort(), SILENCE_TIMEOUT)));
    try {
      received();
      const signal = AbortSignal.any([stop.signal, silent.signal]);
      const response = await request('GET', `sessions/${encodeURIComponent(session)}/events?after=${after}`, { signal });
      on.live();
      for await (const { id, data } of frames(response.body, received)) {
        delay = MIN_RETRY_DELAY;
        if (id) {
          if (Number(id) <= after) continue;
          after = Number(id);
        }
        try {
          on.event(JSON.parse(data));
        } catch (error) {
          reportError(error); // an event that cannot be drawn is left out
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
      } catch (error) {
        failed = error;
      }
      if (stop.signal.aborted) return;
      if (failed?.kind === 'after_the_end') { // the log has become shorter
        after = 0;
        on.restart();
        continue;
      }
      if (!isTemporary(failed)) return on.gone(failed);
      const pause = delay * (0.75 + Math.random() / 2);
      on.waiting(failed);
      await new Promise((done) => {
        const timer = setTimeout(done, pause);
        retryNow = () => (clearTimeout(timer), done());
        stop.signal.addEventListener('abort', retryNow, { once: true });
      });
      delay = Math.min(delay * 2, MAX_RETRY_DELAY);
    }
  })();
  return () => stop.abort();
}

/** Returns the frames of an event stream, as `{id, data}`. `received` is called for each chunk. */
async function* frames(body, received) {
  let rest = '', id = '', data = [];
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    received();
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
