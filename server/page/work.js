// The work in progress, above the message: the stages of the agent's pattern, and the model's todo list.

import { byId, count, el, visible } from './dom.js';
import { showTodos } from './todos.js';

/** The words for the current stage, by the status of the session. */
const WORDS = { working: 'running', waiting: 'waits for you', away: 'interrupted', ready: 'paused' };

const time = (at) => new Date(at).toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' });
const day = (at) => (new Date(at).toDateString() === new Date().toDateString() ? '' : `${new Date(at).toLocaleDateString()} `);

/** Returns how long a stage took, as `0.4 s` or `3 min`. */
function took({ since, until }) {
  const seconds = Math.max(0, until - since) / 1000;
  return seconds < 90 ? `${seconds.toFixed(seconds < 10 ? 1 : 0)} s` : `${Math.round(seconds / 60)} min`;
}

/** Returns the branches of a stage, as `3 branches: 1 done, 1 running, 1 waits for you`. */
function branches({ of, done = 0, failed = 0, running = 0, waiting = 0 }, runs) {
  const parts = [
    done && `${done} done`, failed && `${failed} failed`, runs && running && `${running} running`,
    waiting && count(waiting, 'waits for you', 'wait for you'),
  ].filter(Boolean);
  return `${count(of, 'branch', 'branches')}${parts.length && done < of ? `: ${parts.join(', ')}` : ''}`;
}

function drawStage(stage, status, runs) {
  const current = stage.until === undefined;
  const more = [
    stage.visits > 1 && `${stage.visits} times`, stage.branches && branches(stage.branches, current && runs),
    !current && took(stage),
  ].filter(Boolean);
  return el('li', { 'data-status': current ? 'in_progress' : 'completed' },
    el('span', { 'aria-hidden': 'true' }, current ? '● ' : '✓ '), visible(stage.name),
    el('span', { class: 'unseen' }, ` (${current ? WORDS[status] : 'done'})`),
    more.length > 0 && el('span', { class: 'more' }, ` · ${more.join(' · ')}`));
}

let shown = ''; // the content of the panel, as JSON

/** Shows the stages while the pattern is at one, and the todo list until it is completed. */
export function showWork({ stages = [], todos, running }, status) {
  showTodos(todos);
  const panel = byId('stages');
  const at = stages.find(({ until }) => until === undefined);
  panel.hidden = !at;
  if (!at || shown === (shown = JSON.stringify([stages, status, running]))) return;
  const summary = `At ${visible(at.name)} since ${day(at.since)}${time(at.since)} · ${WORDS[status]}`;
  panel.replaceChildren(el('summary', {}, summary), el('ul', { class: 'todos' }, ...stages.map((stage) => drawStage(stage, status, running))));
}
