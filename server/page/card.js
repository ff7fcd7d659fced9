// The common parts of cards that ask the user: a title, a face, the error of the last decision, a way to deny.

import { el, visible } from './dom.js';
import { drawTerms } from './terms.js';

export const button = (text, onclick, kind = '') => el('button', { type: 'button', class: kind, onclick }, text);
export const row = (...buttons) => el('div', { class: 'row' }, ...buttons);

/** Returns the sub-agent that needs a decision, as `outer/inner`, or an empty text. */
export const agentOf = ({ path = [] }) => visible(path.join('/'));

/** Creates a card without content. `resolve(body)` sends a decision on the action, and shows why it was refused. */
export function emptyCard(text, action, decide) {
  const title = el('h3', { tabindex: -1, 'aria-level': 2 }, text);
  const problem = el('p', { class: 'problem', role: 'alert', hidden: true });
  const showProblem = (why) => ((problem.textContent = why), (problem.hidden = !why));
  const face = el('div');
  const node = el('section', { class: 'card', 'aria-label': text, 'data-digest': action.digest }, title, drawTerms(action), face, problem);

  async function resolve(body) {
    showProblem('');
    const all = [...node.querySelectorAll('button')];
    all.forEach((one) => (one.disabled = true));
    try {
      await decide({ digest: action.digest, ...body });
    } catch (error) {
      // The path of the decision itself means nothing to the user, who pressed a button.
      const path = error.path && error.path !== '/decision' ? `${error.path}: ` : '';
      showProblem(path + error.message);
      all.forEach((one) => (one.disabled = false));
    }
  }

  return { node, title, face, showProblem, resolve };
}

/** Creates the field for the reason of a denial, and the button that denies. */
export function denial(label, hint, resolve) {
  const reason = el('input', { class: 'reason', placeholder: hint, 'aria-label': 'Reason' });
  const deny = () => resolve({ decision: 'deny', reason: reason.value.trim() || 'The user does not want this.' });
  reason.addEventListener('keydown', (key) => key.key === 'Enter' && !key.isComposing && deny());
  return { reason, go: button(label, deny, 'danger') };
}
