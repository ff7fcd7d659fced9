// Streams of events.

import { request } from './api.js';

/** Milliseconds after which a silent stream counts as dead. The server sends something every 15 s. */
const SILENCE_TIMEOUT = 40_000;

/** Sends a request, and returns the frames of the event stream that answers it, until `broken`, which silence aborts too. */
export async function* frames(method, path, body, broken) {
  let timer, rest = '', data = [];
  const received = () => (clearTimeout(timer), (timer = setTimeout(() => broken.abort(), SILENCE_TIMEOUT)));
  try {
    received();
    const response = await request(method, path, { body, signal: broken.signal });
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      received();
      const lines = (rest + value).split(/\r?\n/);
      rest = lines.pop();
      for (const line of lines) {
        const [, field, text] = /^([^:]*):? ?(.*)$/s.exec(line);
        if (field === 'data') data.push(text);
        if (line || !data.length) continue;
        yield JSON.parse(data.join('\n'));
        data = [];
      }
    }
  } finally {
    clearTimeout(timer);
  }
}
