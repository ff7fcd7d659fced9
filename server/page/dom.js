// Small helpers for building the page from nodes. Strings only ever become text.

/** Creates an element with attributes (`on…` are listeners) and children. Strings become text nodes. */
export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, '');
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child != null && child !== false));
  return element;
}

/** Makes these elements the children of `parent`, in this order. Existing children are not moved. */
export function arrange(parent, elements) {
  const wanted = new Set(elements);
  [...parent.children].filter((one) => !wanted.has(one)).forEach((one) => one.remove());
  let at = parent.firstElementChild;
  for (const one of elements) {
    if (one === at) at = at.nextElementSibling;
    else parent.insertBefore(one, at);
  }
}

/** Returns a function that does `work` once, after a delay in milliseconds, however many calls come until then. */
export function debounced(delay, work) {
  let timer = null;
  return () => (timer ??= setTimeout(() => ((timer = null), work()), delay));
}

/** Returns the element with this id. */
export const byId = (id) => document.getElementById(id);

export const onClick = (id, work) => byId(id).addEventListener('click', work);

/** Returns a text cut to `max` characters. */
export const truncated = (text, max) => (text.length > max ? `${text.slice(0, max)}…` : text);

/** Maximum number of characters drawn of one text. */
export const MAX_CHARS = 100_000;

export const bounded = (text) =>
  (text.length > MAX_CHARS ? `${text.slice(0, MAX_CHARS)}… and ${text.length - MAX_CHARS} characters more` : text);

/** Returns a text to decide on. Characters that would hide or reorder others are replaced by their names. */
export const visible = (text) =>
  bounded(text.replace(/[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g,
    (one) => `⟨U+${one.charCodeAt(0).toString(16).padStart(4, '0')}⟩`));

/** Returns a number with a word, as `1 round` or `2 rounds`. */
export const count = (number, word, words = `${word}s`) => `${number} ${number === 1 ? word : words}`;

/** Returns `12,345` as `12.3k`. */
export function short(number) {
  if (number < 1000) return String(number);
  return number < 1e6 ? `${(number / 1000).toFixed(1)}k` : `${(number / 1e6).toFixed(2)}M`;
}
