// The work in progress, above the message: the stages of the agent's pattern, and the model's todo list.

import { byId, count, el, visible } from './dom.js';

const MARKS = { pending: ['○', 'to do'], in_progress: ['●', 'in progress'], completed: ['✓', 'done'] };
const is = (status) => (item) => item.status === status;

/** Returns until when, or for what, an agent sleeps. */
export const asleep = ({ wakes_at: time }) => (time ? `Asleep until ${new Date(time).toLocaleString()}` : 'Waits for an event');

/** Returns the todo list that a call has written, or undefined. */
export const writtenBy = ({ name, status, details }) =>
  (name === 'write_todos' && status === 'ok' && Array.isArray(details?.todos) ? details.todos : undefined);

/** Returns what is done and the work in progress, as `1 of 3 done: Fix it`. */
export function progress(todos) {
  const working = todos.find(is('in_progress'));
  return `${todos.filter(is('completed')).length} of ${todos.length} done${working ? `: ${visible(working.content)}` : ''}`;
}

/** Draws items, each with its status and with `more` about it. */
export const drawItems = (items) => el('ul', { class: 'todos' }, ...items.map(({ content, status, more }) => {
  const [mark, word] = MARKS[status] ?? ['?', status];
  return el('li', { 'data-status': status },
    el('span', { 'aria-hidden': 'true' }, `${mark} `), visible(content), el('span', { class: 'unseen' }, ` (${word})`),
    more && el('span', { class: 'more' }, ` · ${more}`));
}));

/** Returns branches as `3 branches: 1 done, 1 running, 1 waits for you`. */
function branchesOf({ of, done = 0, failed, running, waiting }, runs) {
  const waits = waiting === 1 ? 'waits for you' : 'wait for you';
  const parts = [[done, 'done'], [failed, 'failed'], [runs && running, 'running'], [waiting, waits]].filter(([n]) => n);
  return count(of, 'branch', 'branches') + (parts.length && done < of ? `: ${parts.map((part) => part.join(' ')).join(', ')}` : '');
}

/** Returns a stage as an item. Its branches run only while a run does. */
function itemOf({ name, since, until, visits, branches }, runs) {
  const more = [
    visits > 1 && `${visits} times`, branches && branchesOf(branches, runs && !until),
    until && `${((until - since) / 1000).toFixed(1)} s`,
  ];
  return { content: name, status: until ? 'completed' : 'in_progress', more: more.filter(Boolean).join(' · ') };
}

const drawn = {}; // the content of each panel, as JSON

/** Shows items below a summary, or no panel without one. */
function showPanel(id, summary, items) {
  byId(id).hidden = !summary;
  if (!summary || drawn[id] === (drawn[id] = JSON.stringify([summary, items]))) return;
  byId(id).replaceChildren(el('summary', {}, summary), drawItems(items));
}

/** Shows the stages while the pattern is at one, and the todo list until it is completed. */
export function showWork({ stages = [], todos = [], running }, status) {
  const at = stages.find(({ until }) => !until);
  showPanel('stages', at && `At ${visible(at.name)} since ${new Date(at.since).toLocaleString()} · ${status.toLowerCase()}`,
    stages.map((stage) => itemOf(stage, running)));
  showPanel('todos', !todos.every(is('completed')) && `Todo · ${progress(todos)}`, todos);
}
