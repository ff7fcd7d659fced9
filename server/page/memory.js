// A dialog with the facts that agents remember about the user, to read and to forget.

import { call } from './api.js';
import { byId, el } from './dom.js';

const PAGE = 100;
let words = ''; // only facts that match these words are shown
let confirming = false; // one more click deletes all facts

/** Shows the facts, or only the matching ones (`fit`). Fails if the server remembers no facts. */
export async function showMemory(fit) {
  words = fit;
  confirming = false;
  await draw();
  if (!byId('memory').open) byId('memory').showModal();
}

/** Draws the first `shown` facts. */
async function draw(shown = PAGE) {
  const [facts, more] = await read(shown);
  byId('facts').replaceChildren(...facts.map(row));
  const none = words ? 'There are no remembered facts that fit.' : 'There are no remembered facts.';
  byId('facts-note').textContent = facts.length ? 'Agents use these facts in later sessions.' : none;
  byId('facts-problem').hidden = true;
  byId('more-facts').hidden = !more;
  byId('more-facts').onclick = attempt(() => draw(shown + PAGE));
  byId('forget-all').hidden = !facts.length || Boolean(words);
  byId('forget-all').textContent = confirming ? 'Forget all facts?' : 'Forget all';
}

/** Returns the first facts, and whether more follow. */
async function read(count) {
  if (words) return [(await call('GET', `memory?query=${encodeURIComponent(words)}`)).facts, false];
  const facts = [];
  for (let after = 0; facts.length < count;) {
    const page = await call('GET', `memory?after=${after}&limit=${PAGE}`);
    facts.push(...page.facts);
    if (page.after == null) return [facts, false];
    ({ after } = page);
  }
  return [facts, true];
}

function row({ id, text, refreshed }) {
  const forget = attempt(async () => {
    await call('DELETE', `memory/${id}`);
    await draw(byId('facts').children.length);
  });
  return el('li', {},
    el('span', { class: 'fact' }, text),
    el('time', { datetime: new Date(refreshed).toISOString() }, new Date(refreshed).toLocaleDateString()),
    el('button', { type: 'button', class: 'quiet', 'aria-label': `Forget: ${text}`, onclick: forget }, 'Forget'));
}

/** Returns a function that shows the error of `work` in the dialog. */
const attempt = (work) => (event) => work(event).catch((error) => {
  byId('facts-problem').textContent = error.message;
  byId('facts-problem').hidden = false;
});

byId('forget-all').addEventListener('click', attempt(async (event) => {
  if (event.detail > 1) return; // a double click confirms nothing
  if (confirming) await call('DELETE', 'memory');
  confirming = !confirming;
  await draw(Math.max(PAGE, byId('facts').children.length));
}));
