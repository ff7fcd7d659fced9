// The server's routes: requests with the token.

export const BASE = new URL('api/', document.baseURI);
const TOKEN_KEY = 'loopwright-token';

/** The error for a request without a response. Browsers only say "Failed to fetch". */
const UNREACHABLE = 'The server does not respond. Check that it is running and that you are online, then try again.';

/** The error of a request that the server refused. */
export class ApiError extends Error {
  constructor(status, error) {
    super(error?.message ?? `The server responded with status ${status}.`);
    Object.assign(this, { status, kind: error?.kind, path: error?.path });
  }
}

let asking = null;
let askForToken = async () => null;

/** Sets the function that asks the user for a token. It receives whether the server refused a token, and returns a token or null. */
export const onToken = (ask) => (askForToken = ask);

export const token = () => sessionStorage.getItem(TOKEN_KEY);

/** Stores the token of this tab, and dispatches an event. */
export function storeToken(given) {
  sessionStorage.setItem(TOKEN_KEY, given);
  dispatchEvent(new Event('token'));
}

export async function request(method, path, { body: json, signal } = {}) {
  for (;;) {
    const sent = token();
    const headers = sent ? { authorization: `Bearer ${sent}` } : {};
    if (json !== undefined) headers['content-type'] = 'application/json';
    const init = { method, headers, signal, body: json === undefined ? undefined : JSON.stringify(json) };
    const response = await fetch(new URL(path, BASE), init).catch((error) => {
      throw error.name === 'AbortError' ? error : new Error(UNREACHABLE, { cause: error });
    });
    if (response.ok) return response;
    const body = await response.json().catch(() => null);
    const error = new ApiError(response.status, body?.error);
    if (error.kind !== 'token') throw error;
    // Many requests may be refused at the same time, but the user is asked once.
    if (sent === token()) {
      asking ??= askForToken(Boolean(sent)).finally(() => (asking = null));
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

/** Returns an id for an input. An input that is repeated with the same id changes nothing. */
export const newId = () => hex(crypto.getRandomValues(new Uint8Array(12)));

export const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');

/** Sends a request whose body has such an id. Repeats it once if the network failed. */
export const send = (path, body) =>
  call('POST', path, body).catch((error) => {
    if (error instanceof ApiError) throw error;
    return call('POST', path, body);
  });

/** Returns whether a request may succeed later: when the server or the network is back, or the session is free. */
export const isTemporary = (error) => !(error instanceof ApiError) || error.status >= 500 || error.status === 429
  || ['conflict', 'too_many', 'draining', 'internal'].includes(error.kind);
