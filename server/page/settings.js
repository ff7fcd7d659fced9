// A dialog with the settings of the open session, or of the next one.

import { call } from './api.js';
import { byId, el } from './dom.js';

const TEXTS = ['name', 'model', 'thinking'];
const LIMITS = ['maxTurns', 'maxSessionTurns', 'maxSessionTokens', 'maxSessionCost'];

/**
 * Shows settings. `agent` is the route that describes the agent. `save(change)` gets the new values, `null` for settings that
 * are up to the agent, and its error is shown.
 */
export async function editSettings(settings, agent, save) {
  const [{ default: usual, models }, { tools }] = await Promise.all([
    call('GET', 'models'),
    call('GET', agent).catch(() => ({ tools: [] })), // the agent cannot be built yet, for example without a model
  ]);
  for (const name of [...TEXTS, ...LIMITS]) field(name).value = settings[name] ?? '';
  field('model').placeholder = usual ?? 'PROVIDER/NAME';
  byId('models').replaceChildren(...models.map(option));
  byId('approvals').replaceChildren(...approvals(settings.approve ?? [], tools));
  problem('');
  byId('settings-form').onsubmit = async (event) => {
    if (event.submitter?.value !== 'save') return;
    event.preventDefault();
    problem('');
    try {
      await save(changes(settings));
      byId('settings').close();
    } catch (error) {
      problem((error.path ? `${error.path.slice(1)}: ` : '') + error.message);
    }
  };
  byId('settings').showModal();
}

const field = (name) => byId(`set-${name}`);

function problem(text) {
  byId('settings-problem').textContent = text;
  byId('settings-problem').hidden = !text;
}

function option({ id, context_window: window, prices }) {
  const facts = [window && `${Math.round(window / 1000)}k`, prices && `$${prices.input} / $${prices.output}`];
  return el('option', { value: id }, facts.filter(Boolean).join(' · '));
}

/** Returns a checkbox for each tool that would ask, and for each allowed tool. */
function approvals(allowed, tools) {
  const asking = tools.filter(({ approval, effect }) => approval !== 'never' && effect !== 'read_only');
  const names = new Set(['all', ...asking.map(({ name }) => name), ...allowed]);
  return [...names].map((name) => el('label', {},
    el('input', { type: 'checkbox', value: name, checked: allowed.includes(name) }), name === 'all' ? 'all tools' : name));
}

/** Returns the values that differ from the settings. */
function changes(settings) {
  const value = (name) => field(name).value.trim();
  const all = {};
  for (const name of TEXTS) all[name] = value(name) || null;
  for (const name of LIMITS) all[name] = value(name) ? Number(value(name)) : null;
  const allowed = [...byId('approvals').querySelectorAll(':checked')].map((box) => box.value);
  all.approve = allowed.length || settings.approve ? allowed : null;
  const same = (name) => JSON.stringify(all[name]) === JSON.stringify(settings[name] ?? null);
  return Object.fromEntries(Object.entries(all).filter(([name]) => !same(name)));
}
