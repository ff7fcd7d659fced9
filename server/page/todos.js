// The model's todo list.

import { byId, el, visible } from './dom.js';

const MARKS = { pending: ['○', 'to do'], in_progress: ['●', 'in progress'], completed: ['✓', 'done'] };
const is = (status) => (item) => item.status === status;

/** Returns the list that a call has written, or undefined. */
export const writtenBy = ({ name, status, details }) =>
  (name === 'write_todos' && status === 'ok' && Array.isArray(details?.todos) ? details.todos : undefined);

/** Returns what is done and the work in progress, as `1 of 3 done: Fix it`. */
export function progress(todos) {
  const working = todos.find(is('in_progress'));
  return `${todos.filter(is('completed')).length} of ${todos.length} done${working ? `: ${visible(working.content)}` : ''}`;
}

/** Draws the items of a list. */
export function drawTodos(todos) {
  return el('ul', { class: 'todos' }, ...todos.map(({ content, status }) => {
    const [mark, word] = MARKS[status] ?? ['?', status];
    return el('li', { 'data-status': status },
      el('span', { 'aria-hidden': 'true' }, `${mark} `), visible(content), el('span', { class: 'unseen' }, ` (${word})`));
  }));
}

let shown = ''; // the list as JSON

/** Shows the list above the message, unless it is completed. */
export function showTodos(todos = []) {
  const panel = byId('todos');
  panel.hidden = todos.every(is('completed'));
  if (shown === (shown = JSON.stringify(todos))) return;
  panel.replaceChildren(el('summary', {}, `Todo · ${progress(todos)}`), drawTodos(todos));
}
