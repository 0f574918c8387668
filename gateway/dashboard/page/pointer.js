// Finds the line of a text that a problem is about. The API names it by a JSON pointer (RFC 6901), or, of a text that
// cannot be read at all, by line and column.

/// The index of the line; of what cannot be found, that of the closest thing around it.
export function lineOf(text, pointer) {
  const numbers = /^(\d+):\d+$/.exec(pointer);
  if (numbers) return Number(numbers[1]) - 1;
  const keys = pointer.split('/').slice(1).map((key) => key.replaceAll('~1', '/').replaceAll('~0', '~'));
  const offset = /^\s*[{[]/.test(text) ? inFlow(text, text.search(/[{[]/), keys) : inBlock(text, 0, text.length, keys);
  return text.slice(0, offset).split('\n').length - 1;
}

const indentOf = (line) => /^[ ]*/.exec(line)[0].length;
const bare = (key) => key.trim().replace(/^(["'])(.*)\1$/, '$2');

/// The lines of a part of the text that say something, with their offsets.
function linesOf(text, from, to) {
  const out = [];
  for (let at = from; at < to;) {
    const end = Math.min(to, (text.indexOf('\n', at) + 1 || text.length + 1) - 1);
    const line = text.slice(at, end);
    if (/\S/.test(line) && !/^\s*#/.test(line)) out.push({ at, line });
    at = end + 1;
  }
  return out;
}

/// In indented lines.
function inBlock(text, from, to, keys) {
  const lines = linesOf(text, from, to);
  if (lines.length === 0) return from;
  // The first line may begin in the middle, behind a dash.
  const column = (at) => at - (text.lastIndexOf('\n', at - 1) + 1);
  const indents = lines.map(({ at, line }) => column(at) + indentOf(line));
  const first = lines[0].at + indentOf(lines[0].line);
  if (keys.length === 0) return first;
  const [key, ...rest] = keys;
  const starts = lines.filter((_, index) => indents[index] === indents[0]).map(({ at, line }) => at + indentOf(line));
  const item = (at) => /^-(\s|$)/.test(text.slice(at, at + 2));
  const list = item(starts[0]);
  // A list may stand as far left as the key that it belongs to.
  const own = starts.filter((at) => item(at) === list);
  const named = (at) => bare(text.slice(at, text.indexOf('\n', at) + 1 || undefined).split(/:(?:\s|$)/)[0]) === key;
  const wanted = list ? own[Number(key)] : own.find(named);
  if (wanted === undefined) return first;
  const next = own.find((at) => at > wanted);
  const end = next === undefined ? to : text.lastIndexOf('\n', next) + 1;
  const lineEnd = text.indexOf('\n', wanted) < 0 ? text.length : text.indexOf('\n', wanted);
  const after = list ? wanted + 1 : wanted + text.slice(wanted, lineEnd).search(/:(\s|$)/) + 1;
  const value = after + text.slice(after, lineEnd).search(/\S|$/);
  if (rest.length === 0) return wanted;
  if ('{['.includes(text[value] ?? ' ')) return inFlow(text, value, rest);
  if (value >= lineEnd || text[value] === '#') {
    const inside = linesOf(text, lineEnd + 1, end);
    return inside.length === 0 ? wanted : inBlock(text, lineEnd + 1, end, rest);
  }
  return list ? inBlock(text, value, end, rest) : wanted;
}

/// In braces and brackets, from the one that opens.
function inFlow(text, open, keys) {
  if (keys.length === 0) return open;
  const [key, ...rest] = keys;
  const list = text[open] === '[';
  let depth = 0;
  let count = 0;
  let start = open + 1;
  for (let at = open; at < text.length; at += 1) {
    const sign = text[at];
    if (sign === '"' || sign === "'") {
      const close = text.slice(at + 1).search(sign === '"' ? /(?<!\\)"/ : /'/);
      if (close < 0) return open;
      at += close + 1;
    } else if ('{['.includes(sign)) depth += 1;
    if (depth === 1 && (sign === ',' || sign === '}' || sign === ']')) {
      const entry = text.slice(start, at);
      const begin = start + entry.search(/\S|$/);
      const name = /^\s*("(?:[^"\\]|\\.)*"|'[^']*'|[^:,]*?)\s*:/.exec(entry);
      if (list ? String(count) === key : name && bare(name[1]) === key) {
        const inner = list ? begin : start + name[0].length + text.slice(start + name[0].length, at).search(/\S|$/);
        return rest.length > 0 && '{['.includes(text[inner]) ? inFlow(text, inner, rest) : begin;
      }
      count += 1;
      start = at + 1;
    }
    if ('}]'.includes(sign) && sign !== '') depth -= 1;
    if (depth === 0 && at > open) return open;
  }
  return open;
}
