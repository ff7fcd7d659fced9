// The facts that agents remember about the user, in a dialog: to see and to forget.

import { call } from './api.js';
import { byId, el } from './dom.js';

const PAGE = 100;
let confirming = false; // one more click deletes all facts

/** Shows the dialog. Fails if the server remembers no facts. */
export async function showMemory() {
  confirming = false;
  await draw();
  if (!byId('memory').open) byId('memory').showModal();
}

/** Draws the first `shown` facts. */
async function draw(shown = PAGE) {
  const [facts, more] = await read(shown);
  byId('facts').replaceChildren(...facts.map(row));
  byId('facts-note').textContent = facts.length ? 'Agents use these facts in later sessions.' : 'There are no remembered facts.';
  byId('facts-problem').hidden = true;
  byId('more-facts').hidden = !more;
  byId('more-facts').onclick = attempt(() => draw(shown + PAGE));
  byId('forget-all').hidden = !facts.length;
  byId('forget-all').textContent = confirming ? 'Forget all facts?' : 'Forget all';
}

/** Returns the first facts, and whether there are more. */
async function read(count) {
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
const attempt = (work) => () => work().catch((error) => {
  byId('facts-problem').textContent = error.message;
  byId('facts-problem').hidden = false;
});

byId('forget-all').addEventListener('click', attempt(async () => {
  const confirmed = confirming;
  confirming = !confirmed;
  if (confirmed) await call('DELETE', 'memory');
  await draw(Math.max(PAGE, byId('facts').children.length));
}));
