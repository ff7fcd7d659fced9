// Small helpers for building the page out of nodes. Strings only ever become text.

/** An element with attributes (`on…` are listeners) and children; strings become text nodes. */
export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, '');
    else if (value !== false && value != null) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child != null && child !== false));
  return made;
}

/** A function that does `work` once, in so many milliseconds, however often it is called until then. */
export function soon(wait, work) {
  let timer = null;
  return () => (timer ??= setTimeout(() => ((timer = null), work()), wait));
}

/** The element with this id. */
export const by = (id) => document.getElementById(id);

/** A text cut to `most` characters. */
export const cut = (text, most) => (text.length > most ? `${text.slice(0, most)}…` : text);

/** `12,345` as `12.3k`. */
export function short(number) {
  if (number < 1000) return String(number);
  return number < 1e6 ? `${(number / 1000).toFixed(1)}k` : `${(number / 1e6).toFixed(2)}M`;
}
