// Streaming Markdown to DOM nodes. HTML in it is plain text, images become links, and links lead only to http, https
// or mail. A finished block is never redrawn.

import { el, truncated } from './dom.js';

const FENCE = /^\s*(`{3,20}|~{3,20})([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*)$/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const QUOTE = /^ {0,3}> ?(.*)$/;
const DIVIDER = /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;
/** Maximum size of a block, beyond which it is drawn in parts, and maximum nesting. */
const MAX_BLOCK_CHARS = 20_000, MAX_DEPTH = 6;

function kindOf(line) {
  if (!line.trim()) return 'blank';
  if (FENCE.test(line)) return 'code';
  if (HEADING.test(line)) return 'heading';
  if (RULE.test(line)) return 'rule';
  if (ITEM.test(line)) return 'list';
  if (QUOTE.test(line)) return 'quote';
  return 'text';
}

/** Draws the pushed text into `root`. */
export class Markdown {
  constructor(root, depth = 0) {
    Object.assign(this, { root, depth, tail: '', open: null, preview: null });
  }

  /** Appends text, in chunks of any size. */
  push(text) {
    const lines = (this.tail + text).split('\n');
    this.tail = lines.pop();
    if (lines.length) this.unpreview();
    for (const line of lines) this.line(line);
    if (this.tail.length > MAX_BLOCK_CHARS) this.breakLine();
    this.show();
  }

  /** Draws a part of a line that is too long. */
  breakLine() {
    this.unpreview();
    if (this.open?.kind === 'code') this.open.code.append(this.tail);
    else this.line(this.tail), this.close();
    this.tail = '';
  }

  /** Ends the text. */
  end() {
    this.unpreview();
    if (this.tail) this.line(this.tail);
    this.tail = '';
    this.close();
  }

  line(line) {
    const { open } = this;
    if (open?.kind === 'code') return this.codeLine(line);
    if (open && continues(open, line)) {
      open.blank = kindOf(line) === 'blank';
      if (open.kind === 'text' && open.lines.length === 1 && isTable(open.lines[0], line)) open.kind = 'table';
      open.lines.push(line);
      open.size += line.length;
      if (open.size > MAX_BLOCK_CHARS) this.close();
      return;
    }
    this.close();
    const kind = kindOf(line);
    if (kind === 'blank') return;
    this.open = { kind, lines: [line], size: line.length, at: null };
    if (kind === 'code') this.openCode(line);
    if (kind === 'heading' || kind === 'rule') this.close();
  }

  openCode(line) {
    const [, fence, words] = FENCE.exec(line);
    const code = el('code');
    const copy = el('button', { class: 'quiet copy', type: 'button', onclick: () => copyCode(code, copy) }, 'Copy');
    const head = el('div', { class: 'head' }, el('span', {}, words.trim().split(/\s/, 1)[0]), copy);
    this.root.append(el('div', { class: 'code' }, head, el('pre', { tabindex: 0 }, code)));
    Object.assign(this.open, { fence, code, indent: /^\s*/.exec(line)[0].length });
  }

  codeLine(line) {
    const { fence, code, indent } = this.open;
    const bare = line.trim();
    if (bare.startsWith(fence) && !bare.replaceAll(fence[0], '')) return void (this.open = null);
    code.append(`${line.slice(Math.min(indent, /^\s*/.exec(line)[0].length))}\n`);
  }

  /** Draws the open block, with the line that is not complete yet. */
  show() {
    const { open, tail } = this;
    if (open?.kind === 'code') {
      const shown = /^\s*[`~]+\s*$/.test(tail) ? '' : tail;
      if (!this.preview) open.code.append((this.preview = document.createTextNode('')));
      this.preview.data = shown;
      return;
    }
    const continuing = open && tail && continues(open, tail);
    if (open) this.draw(open, continuing ? [...open.lines, tail] : open.lines, true);
    this.unpreview();
    const kind = kindOf(tail);
    if (continuing || kind === 'blank' || kind === 'code' || /^\s*([-*+#>|`~]+|\d+[.)]?)\s*$/.test(tail)) return;
    const block = { kind, at: null };
    this.draw(block, [tail], true);
    this.preview = block.at;
  }

  unpreview() {
    this.preview?.remove();
    this.preview = null;
  }

  close() {
    const { open } = this;
    if (open && open.kind !== 'code') this.draw(open, open.lines, false);
    this.open = null;
  }

  draw(block, lines, partial) {
    const node = this.block(block.kind, lines, partial);
    if (block.at) block.at.replaceWith(node);
    else this.root.append(node);
    block.at = node;
  }

  block(kind, lines, partial) {
    switch (kind) {
      case 'heading': {
        const [, marks, text] = HEADING.exec(lines[0]);
        return el(`h${Math.min(6, marks.length + 1)}`, {}, ...inline(text.trimEnd().replace(/ #+$/, ''), partial));
      }
      case 'rule': return el('hr');
      case 'list': return list(lines, partial);
      case 'table': return table(lines, partial);
      case 'quote': {
        const quote = el('blockquote');
        const text = lines.map((line) => QUOTE.exec(line)?.[1] ?? line).join('\n');
        if (this.depth >= MAX_DEPTH) quote.append(text);
        else {
          const inner = new Markdown(quote, this.depth + 1);
          inner.push(text);
          inner.end();
        }
        return quote;
      }
      default: return el('p', {}, ...inline(lines.join('\n'), partial));
    }
  }
}

/** Returns whether a line belongs to the open block. */
function continues(open, line) {
  const kind = kindOf(line);
  switch (open.kind) {
    case 'text':
      return kind === 'text' || (kind === 'list' && /^\s*\d/.test(line) && !/^\s*1[.)]/.test(line))
        || (open.lines.length === 1 && isTable(open.lines[0], line));
    case 'list':
      if (kind === 'blank') return !open.blank;
      return kind === 'list' || (kind === 'text' && (!open.blank || /^\s{2,}/.test(line)));
    case 'quote': return kind === 'quote' || kind === 'text';
    case 'table': return kind === 'text' && line.includes('|');
    default: return false;
  }
}

const isTable = (head, line) => head.includes('|') && line.length < 1000 && line.includes('-') && DIVIDER.test(line);

function list(lines, partial) {
  const root = el('div', { class: 'list' });
  const levels = []; // the open lists: indentation, kind, element, last item of each
  let item = null;
  const draw = (last) => item?.at.append(...inline(item.text, last));
  for (const line of lines) {
    const found = ITEM.exec(line);
    if (!found) {
      if (item && line.trim()) item.text += `\n${line.trim()}`;
      continue;
    }
    draw(false);
    const indent = found[1].replaceAll('\t', '    ').length;
    const ordered = /\d/.test(found[2]);
    while (levels.length > 1 && indent < levels.at(-1).indent) levels.pop();
    let top = levels.at(-1);
    const deeper = top && indent >= top.indent + 2 && levels.length < MAX_DEPTH;
    if (!top || deeper || top.ordered !== ordered) {
      if (top && !deeper) levels.pop();
      const at = levels.at(-1)?.item ?? root;
      const made = ordered ? el('ol', { start: parseInt(found[2], 10) }) : el('ul');
      at.append(made);
      levels.push((top = { indent, ordered, made, item: null }));
    }
    const at = (top.item = el('li'));
    top.made.append(at);
    const task = /^\[([ xX])\]\s+(.*)$/.exec(found[3]);
    if (task) {
      const name = truncated(task[2], 200);
      at.append(el('input', { type: 'checkbox', disabled: true, checked: task[1] !== ' ', 'aria-label': name }), ' ');
    }
    item = { at, text: task ? task[2] : found[3] };
  }
  draw(partial);
  return root;
}

/** Returns the class of a column from its cell in the divider, such as `:-:` or `-:`. */
const alignment = (cell) => (!cell.endsWith(':') ? null : cell.startsWith(':') ? 'center' : 'right');

function table(lines, partial) {
  const cells = (line) => line.trim().replace(/^\|/, '').replace(/\|$/, '').split(/(?<!\\)\|/).slice(0, 64);
  const columns = lines.length > 1 ? cells(lines[1]).map((cell) => alignment(cell.trim())) : [];
  const row = (line, tag) => el('tr', {}, ...cells(line).map((cell, at) =>
    el(tag, { class: columns[at] }, ...inline(cell.trim().replaceAll('\\|', '|'), partial))));
  const body = el('tbody', {}, ...lines.slice(2).map((line) => row(line, 'td')));
  return el('div', { class: 'table', tabindex: 0 }, el('table', {}, el('thead', {}, row(lines[0], 'th')), body));
}

const SPECIAL = /[\\`*_~[!<&]|https?:\/\//g;
const LINK = /!?\[((?:[^[\]\\]|\\.|\[[^[\]]{0,200}\]){0,1000})\]\(\s*<?((?:[^\s<>()]|\([^\s<>()]{0,500}\)){0,2000})>?(?:\s+"[^"]{0,500}")?\s*\)/y;
const ANGLE = /<((?:https?:\/\/|mailto:)[^\s<>]{1,2000})>/y;
const ENTITY = /&(?:#(\d{1,7})|#x([\da-f]{1,6})|([a-z]\w{1,9}));/iy;
const BARE = /https?:\/\/[^\s<>"'`|]{1,2000}/y;

/** Returns the address, or null if a link may not lead to it. */
function safe(address) {
  try {
    const url = new URL(address);
    return ['http:', 'https:', 'mailto:'].includes(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

/** The named characters that models write. Other names stay unchanged. */
const NAMED = {
  amp: '&', lt: '<', gt: '>', quot: '"', apos: '’', nbsp: '\u00a0', copy: '©', reg: '®', trade: '™', deg: '°', plusmn: '±',
  times: '×', divide: '÷', middot: '·', bull: '•', hellip: '…', ndash: '–', mdash: '—', lsquo: '‘', rsquo: '’', ldquo: '“',
  rdquo: '”', laquo: '«', raquo: '»', larr: '←', rarr: '→', uarr: '↑', darr: '↓', euro: '€', pound: '£', sect: '§', micro: 'µ',
  frac12: '½', le: '≤', ge: '≥', ne: '≠', asymp: '≈', infin: '∞', check: '✓',
};

/** Returns the character that an entity stands for, or null. */
function character([, decimal, hexadecimal, name]) {
  if (name) return Object.hasOwn(NAMED, name) ? NAMED[name] : null;
  const code = decimal ? parseInt(decimal, 10) : parseInt(hexadecimal, 16);
  return code > 0x1f && code <= 0x10ffff && !(code >= 0xd800 && code < 0xe000) ? String.fromCodePoint(code) : null;
}

const decoded = (text) =>
  text.replace(/&(?:#(\d{1,7})|#x([\da-f]{1,6})|([a-z]\w{1,9}));/gi, (whole, ...groups) => character([whole, ...groups]) ?? whole);

const anchor = (href, ...children) =>
  el('a', { href, title: href, target: '_blank', rel: 'noopener noreferrer nofollow' }, ...children);

/** Returns the nodes of a text. With `partial`, the text may end within open markup. */
export function inline(text, partial = false, depth = 0, linked = false) {
  const out = [];
  const missing = new Set(); // markers without an end from here on
  let plain = 0, at = 0;
  const match = (pattern, from) => ((pattern.lastIndex = from), pattern.exec(text));
  const take = (upTo, ...nodes) => {
    if (plain < at) out.push(text.slice(plain, at));
    out.push(...nodes);
    plain = at = upTo;
  };
  while (at < text.length) {
    const found = match(SPECIAL, at);
    if (!found) break;
    at = found.index;
    const mark = found[0];
    if (mark === '\\') {
      if (/[!-/:-@[-`{-~]/.test(text[at + 1] ?? '')) take(at + 1), (at += 1);
      else at += 1;
      continue;
    }
    if (mark === '`') {
      const run = /^`+/.exec(text.slice(at, at + 64))[0];
      const close = missing.has(run) ? -1 : closing(text, run, at + run.length);
      if (close >= 0) take(close + run.length, el('code', {}, text.slice(at + run.length, close).trim()));
      else if (partial && at + run.length < text.length) take(text.length, el('code', {}, text.slice(at + run.length)));
      else missing.add(run), (at += run.length);
      continue;
    }
    if (mark === '&') {
      const entity = match(ENTITY, at);
      const shown = entity && character(entity);
      if (shown) take(at + entity[0].length, shown);
      else at += 1;
      continue;
    }
    if (mark === '[' || mark === '!' || mark === '<' || mark.startsWith('http')) {
      const link = linked ? null : linkAt(text, at, mark, match, depth);
      if (link) take(link.end, link.node);
      else at += mark === '!' || mark === '[' || mark === '<' ? 1 : mark.length;
      continue;
    }
    const double = text[at + 1] === mark;
    const marker = double ? mark + mark : mark;
    const inside = at + marker.length;
    const opens = /\S/.test(text[inside] ?? ' ') && depth < MAX_DEPTH && marker !== '~'
      && !(mark === '_' && /\w/.test(text[at - 1] ?? ' '));
    const close = opens && !missing.has(marker) ? ending(text, marker, inside, missing) : -1;
    const tag = marker === '~~' ? 'del' : double ? 'strong' : 'em';
    if (close >= 0) take(close + marker.length, el(tag, {}, ...inline(text.slice(inside, close), false, depth + 1, linked)));
    else if (opens && partial && double) take(text.length, el(tag, {}, ...inline(text.slice(inside), true, depth + 1, linked)));
    else at += marker.length;
  }
  at = text.length;
  if (plain < at) out.push(text.slice(plain));
  return out;
}

/** Returns the position of a run of backticks of exactly this length, or -1. */
function closing(text, run, from) {
  for (let at = text.indexOf(run, from); at >= 0; at = text.indexOf(run, at)) {
    let end = at + run.length;
    while (text[end] === '`') end += 1;
    if (end === at + run.length) return at;
    at = end;
  }
  return -1;
}

/** Returns the end of an emphasis among the first candidates, or -1. */
function ending(text, marker, from, missing) {
  let at = from;
  for (let tries = 0; tries < 16; tries += 1) {
    at = text.indexOf(marker, at + (tries ? 1 : 0));
    if (at < 0) {
      if (!tries) missing.add(marker);
      return -1;
    }
    if (marker.length === 2 && text[at + 2] === marker[0]) at += 1;
    const single = marker.length === 1 && (text[at + 1] === marker || text[at - 1] === marker);
    const within = marker[0] === '_' && /\w/.test(text[at + marker.length] ?? ' ');
    if (at > from && /\S/.test(text[at - 1]) && !single && !within) return at;
    if (single) at += 1;
  }
  return -1;
}

/** Returns the host of a link whose text names another host, so that a reader without a pointer sees it. */
function otherHost(text, href) {
  const { host } = new URL(href);
  const named = text.toLowerCase().match(/(?:[\p{L}\p{N}-]{1,63}\.){1,8}\p{L}{2,63}(?![\p{L}\p{N}-])/gu) ?? [];
  return host && named.length && !named.every((one) => host === one || host === `www.${one}` || `www.${host}` === one) ? host : null;
}

/** Returns an address in a text without the punctuation after it. Brackets that it opens belong to it. */
function bare(address) {
  let end = address.length;
  const count = (bracket) => address.slice(0, end).split(bracket).length;
  let extra = count(')') - count('(');
  while (end > 0) {
    const last = address[end - 1];
    if (last === ')' ? extra <= 0 : !/[.,;:!?\]*_~]/.test(last)) break;
    if (last === ')') extra -= 1;
    end -= 1;
  }
  return address.slice(0, end);
}

function linkAt(text, at, mark, match, depth) {
  if (mark === '[' || mark === '!') {
    const found = match(LINK, at);
    const href = found && safe(decoded(found[2]));
    if (!href) return null;
    const words = depth < MAX_DEPTH ? inline(found[1] || href, false, depth + 1, true) : [found[1]];
    const node = anchor(href, ...words);
    const host = otherHost(node.textContent, href);
    if (host) node.append(el('span', { class: 'host' }, ` (${host})`));
    return { end: at + found[0].length, node };
  }
  const found = match(mark === '<' ? ANGLE : BARE, at);
  if (!found || (mark !== '<' && /\w/.test(text[at - 1] ?? ' '))) return null;
  const address = mark === '<' ? found[1] : bare(found[0]);
  const href = safe(address);
  return href && { end: at + (mark === '<' ? found[0].length : address.length), node: anchor(href, address) };
}

async function copyCode(code, button) {
  try {
    await navigator.clipboard.writeText(code.textContent);
    button.textContent = 'Copied';
  } catch {
    getSelection().selectAllChildren(code);
    button.textContent = 'Selected';
  }
}
