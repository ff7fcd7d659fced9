// The frames of an event stream.

/** Returns the data of the frames of an event stream. `received` is called for each chunk. */
export async function* frames(body, received) {
  let rest = '', data = [];
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
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
      yield data.join('\n');
      data = [];
    }
  }
}
