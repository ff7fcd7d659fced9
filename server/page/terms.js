// The terms of an action, shown besides its arguments to the person who decides.

import { el, visible } from './dom.js';

/** Returns whether a kind of decision is accepted. */
export function allows({ terms = {} }, kind) {
  const { decisions = [], quorum = 0 } = terms;
  return (!decisions.length || decisions.includes(kind)) && (quorum < 2 || kind === 'approve');
}

/** Draws the description, the roles, the deadline and the approvals so far. Returns an empty element without any. */
export function drawTerms({ terms = {}, approvals = [] }) {
  const { description, roles = [], deadline, default_decision: taken, quorum = 0 } = terms;
  const box = el('div', { class: 'terms' });
  const line = (text, kind = 'note') => box.append(el('p', { class: kind }, visible(text)));
  if (description) line(description, 'description');
  if (roles.length) line(`Who may decide: ${roles.join(', ')}.`);
  if (deadline) {
    const word = { deny: 'denied', approve: 'approved' }[taken] ?? 'decided';
    line(`Without a decision it is ${word} at ${new Date(deadline).toLocaleString()}.`);
  }
  if (quorum > 1) {
    const by = approvals.map((approval) => approval.by).join(', ');
    line(`${approvals.length} of ${quorum} approvals${by ? `: ${by}` : ''}.`);
  }
  return box;
}
