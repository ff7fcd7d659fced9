// The card of a question: its text, and the form for the answer.

import { agentOf, button, denial, emptyCard, row } from './card.js';
import { el, visible } from './dom.js';

let cards = 0; // names of radio buttons and ids of hints are unique on the page

/** Returns the question that a pending action asks: `{question, form, options, schema}`, or null. */
export function questionOf({ request }) {
  const forms = ['choice', 'several', 'text', 'json', 'secret'];
  const asks = request?.kind === 'question' && typeof request.data?.question === 'string' && forms.includes(request.data.form);
  return asks ? request.data : null;
}

/** Creates the card. `drawArguments` draws a schema. */
export function questionCard(question, action, decide, drawArguments) {
  const { node, title, face, showProblem, resolve } = emptyCard(`${agentOf(action) || 'The agent'} asks`, action, decide);
  const hint = `question-${++cards}`;
  const text = el('p', { class: 'question', id: hint }, visible(question.question));
  const input = { choice: options, several: options, text: writing, json, secret }[question.form]();
  const provide = (data) => resolve({ decision: 'provide', data });

  /** Radio buttons, or checkboxes if several options can be chosen. */
  function options() {
    const several = question.form === 'several';
    const all = question.options.map((option) => ({
      option, box: el('input', { type: several ? 'checkbox' : 'radio', name: hint, onchange: () => showProblem('') }),
    }));
    const chosen = () => all.filter(({ box }) => box.checked).map(({ option }) => option);
    const labels = all.map(({ option, box }) => el('label', {}, box, el('span', {}, visible(option))));
    const group = el('div', { class: 'options', role: several ? 'group' : 'radiogroup', 'aria-labelledby': hint }, ...labels);
    return {
      fields: [group],
      answer: () => (several ? chosen() : chosen()[0]),
      missing: 'Choose one of the options.',
    };
  }

  /** A text of any number of lines. */
  function writing() {
    const field = el('textarea', { class: 'answer', rows: 3, 'aria-labelledby': hint });
    return { fields: [field], answer: () => field.value.trim() || undefined, missing: 'Type an answer.' };
  }

  /** JSON, and the schema that it must match. */
  function json() {
    const field = el('textarea', { class: 'json', spellcheck: 'false', 'aria-labelledby': hint });
    const schema = el('details', {}, el('summary', {}, 'Schema'), el('div', { class: 'args' }, ...drawArguments(question.schema)));
    const answer = () => {
      if (!field.value.trim()) return undefined;
      try {
        return JSON.parse(field.value);
      } catch (error) {
        throw new Error(`This is not JSON: ${error.message}`);
      }
    };
    return { fields: [schema, field], answer, missing: 'Type an answer in JSON.' };
  }

  /** A hidden text, which the browser should not store. */
  function secret() {
    const field = el('input', { type: 'password', class: 'answer', autocomplete: 'off', 'aria-labelledby': hint });
    return { fields: [field], answer: () => field.value || undefined, missing: 'Type an answer.' };
  }

  function send() {
    let answer;
    try {
      answer = input.answer();
    } catch (error) {
      return showProblem(error.message);
    }
    if (answer === undefined) return showProblem(input.missing);
    provide(answer);
  }

  // Enter answers, except in a field of several lines, where Ctrl+Enter does.
  function key(event) {
    const inLines = event.target.tagName === 'TEXTAREA';
    if (event.key !== 'Enter' || event.isComposing || event.target.tagName === 'SUMMARY' || (inLines && !event.ctrlKey)) return;
    event.preventDefault();
    send();
  }
  input.fields.forEach((field) => field.addEventListener('keydown', key));

  function ask() {
    face.replaceChildren(text, ...input.fields, row(button('Answer', send, 'primary approve'), button('Decline…', decline, 'deny')));
  }

  function decline() {
    const { reason, go } = denial('Decline', 'Why not? The agent reads this.', resolve);
    const back = button('Back', () => (showProblem(''), ask(), title.focus()));
    face.replaceChildren(text, reason, row(go, back));
    reason.focus();
  }

  ask();
  return node;
}
