// The dialog that asks for the server's token.

import { onToken, storeToken } from './api.js';
import { byId } from './dom.js';

onToken((refused) => new Promise((done) => {
  const dialog = byId('ask');
  byId('ask-why').textContent = refused
    ? 'That is not a token of this server. Try again.'
    : 'Your token is the one that you were given, or that of --token and LOOPWRIGHT_TOKEN when the server was started.';
  byId('token').value = '';
  dialog.returnValue = '';
  dialog.addEventListener('close', () => done(dialog.returnValue ? byId('token').value.trim() : null), { once: true });
  dialog.showModal();
}));

/** Takes a token out of the address, and returns the other parameters there. */
export function addressParameters() {
  const given = new URLSearchParams(location.hash.slice(1));
  if (given.has('token')) {
    storeToken(given.get('token'));
    given.delete('token');
    history.replaceState(null, '', given.size ? `#${given}` : location.pathname);
  }
  return given;
}
