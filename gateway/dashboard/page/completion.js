// What can stand at a place of a text: keys and values of the configuration's schema, which the API's description holds.

import { call } from './api.js';
import { state } from './store.js';

let description = null;

/// Loads the description once, and gives it with the schema of a kind; null if the API does not answer.
export async function schemaOf(kind) {
  description ??= call('openapi.json').then(({ body }) => body).catch(() => { description = null; return null; });
  const document = await description;
  const one = document?.paths[`/api/v1/${kind}/{name}`]?.put?.requestBody.content['application/json'].schema;
  return one ? { document, schema: one } : null;
}

/// The alternatives of a schema, without references and choices.
function alternatives({ document, schema }, depth = 0) {
  if (!schema || depth > 12) return [];
  if (schema.$ref) {
    const target = schema.$ref.slice(2).split('/').reduce((at, key) => at?.[key], document);
    return alternatives({ document, schema: target }, depth + 1);
  }
  const choices = schema.anyOf ?? schema.oneOf;
  // Choices beside properties only say which of these must be there.
  if (!choices || schema.properties) return [schema];
  return choices.flatMap((one) => alternatives({ document, schema: one }, depth + 1));
}

/// The alternatives below a path of keys; `-` is an entry of a list.
function below({ document, schema }, path) {
  let here = alternatives({ document, schema });
  for (const key of path) {
    const next = here.flatMap((one) => {
      if (key === '-') return one.items ? [one.items] : [];
      const found = one.properties?.[key] ?? (typeof one.additionalProperties === 'object' ? one.additionalProperties : undefined);
      // A form without a list, of a key that may have one: `to: {upstream: shop}`.
      return found ? [found] : [];
    });
    here = next.flatMap((one) => alternatives({ document, schema: one }));
  }
  return here;
}

const unquoted = (key) => key.trim().replace(/^(["'])(.*)\1$/, '$2');
const KEY = /^((?:- +)*)((?:"[^"]*"|'[^']*'|[^\s#:{}[\],&*!|>'"%@`-][^:#{}[\],]*?)) *:(?:\s|$)/;

/// Splits a line into its dashes with their columns, and the rest.
function dashes(line) {
  const columns = [];
  let at = /^ */.exec(line)[0].length;
  while (line[at] === '-' && (line[at + 1] === ' ' || line[at + 1] === undefined)) {
    columns.push(at);
    at += 1;
    while (line[at] === ' ') at += 1;
  }
  return { columns, at, rest: line.slice(at) };
}

/// Where a position is: `{ path, key, typed, from, present }`. `key`: the key whose value is typed, or null where a key is
/// typed. `present`: the keys that stand beside it. Null in comments and block texts.
export function placeAt(lines, line, column) {
  const before = lines[line].slice(0, column);
  if (/(^|\s)#/.test(before)) return null;
  const { columns, at, rest } = dashes(before);
  const path = [];
  const present = new Set();
  // Upward: each line that stands farther left is around this one.
  let indent = rest === '' && columns.length === 0 ? before.length : at;
  let inner = columns.toReversed();
  const beside = (text) => { const found = KEY.exec(text); if (found) present.add(unquoted(found[2])); };
  const enter = () => {
    for (const one of inner) {
      path.unshift('-');
      indent = one;
    }
    inner = [];
  };
  let level = indent;
  const following = lines.slice(line + 1);
  for (const other of following) {
    if (/^\s*(#|$)/.test(other)) continue;
    const place = dashes(other);
    if (place.columns.length > 0 || place.at < level) break;
    if (place.at === level) beside(place.rest);
  }
  enter();
  for (let index = line - 1; index >= 0; index -= 1) {
    if (/^\s*(#|$)/.test(lines[index])) continue;
    const place = dashes(lines[index]);
    const outer = place.columns[0] ?? place.at;
    const found = KEY.exec(place.rest);
    if (place.at === level && path.length === path.filter((one) => one === '-').length && columns.length === 0) beside(place.rest);
    if (place.at > indent || (place.at === indent && place.columns.length === 0 && path[0] !== '-')) continue;
    if (place.at === indent && place.columns.length > 0) {
      // The first key of an entry, whose dash is what is around.
      for (const one of place.columns.toReversed()) {
        path.unshift('-');
        indent = one;
      }
      continue;
    }
    // A key that stands as far left as the dashes of its list is around them too.
    if (place.at < indent || (path[0] === '-' && place.at <= indent && place.columns.length === 0)) {
      if (found) {
        path.unshift(unquoted(found[2]));
        indent = place.at;
        for (const one of place.columns.toReversed()) {
          path.unshift('-');
          indent = one;
        }
      } else indent = outer;
    }
    if (indent === 0 && path[0] !== '-') break;
  }
  return inLine(rest, before.length - rest.length, path, present);
}

/// The part of a line up to the cursor: a key, a value, or the inside of braces and brackets.
function inLine(rest, offset, path, present) {
  const found = KEY.exec(rest);
  let key = null;
  let text = rest;
  let from = offset;
  const enter = (length) => {
    text = text.slice(length);
    from += length;
  };
  if (found) {
    key = unquoted(found[2]);
    enter(found[0].length);
    enter(/^\s*/.exec(text)[0].length);
  }
  const open = [];
  let keys = present;
  let start = 0;
  for (let at = 0; at < text.length; at += 1) {
    const sign = text[at];
    if (sign === '{' || sign === '[') {
      if (key !== null) path.push(key);
      if (sign === '[') path.push('-');
      open.push({ sign, keys, pushed: (key !== null ? 1 : 0) + (sign === '[' ? 1 : 0) });
      [key, keys, start] = [null, new Set(), at + 1];
    } else if ((sign === '}' || sign === ']') && open.length > 0) {
      const last = open.pop();
      path.splice(path.length - last.pushed, last.pushed);
      [key, keys, start] = [null, last.keys, at + 1];
    } else if (sign === ',' && open.length > 0) {
      [key, start] = [null, at + 1];
    } else if (sign === ':' && open.at(-1)?.sign === '{' && key === null) {
      key = unquoted(text.slice(start, at));
      keys.add(key);
      start = at + 1;
    }
  }
  const part = text.slice(start);
  const typed = part.trimStart();
  // Behind a closed bracket nothing more can stand.
  if (open.length === 0 && start > 0) return null;
  return { path, key, typed, from: from + start + (part.length - typed.length), present: keys };
}

/// The spellings of a switch that are not the first one.
const SPELLINGS = new Set(['yes', 'no', 'true', 'false', 'y', 'n']);

/// The values that alternatives allow, each once.
function valuesOf(all) {
  const out = all.flatMap((one) => one.enum ?? (one.const === undefined ? [] : [one.const])).map(String);
  const lower = out.filter((one) => one === one.toLowerCase());
  const switches = lower.includes('on') || lower.includes('off');
  return [...new Set(lower.filter((one) => !(switches && SPELLINGS.has(one))))];
}

/// What fits at a place: `{ from, items }`, each item with `text`, `label` and `about`.
export function completions(found, lines, line, column) {
  const place = placeAt(lines, line, column);
  if (!place) return null;
  const { path, key, typed, from, present } = place;
  const fits = (label) => label.toLowerCase().startsWith(typed.toLowerCase());
  if (key !== null) {
    const all = below({ document: found.document, schema: found.schema }, [...path, key]);
    const values = valuesOf([...all, ...all.flatMap((one) => (one.items ? alternatives({ document: found.document, schema: one.items }) : []))]);
    const names = ['to', 'upstream'].includes(key) ? (state.live?.upstreams ?? []).map((one) => one.name).filter((name) => !/[:,\s]/.test(name)) : [];
    return { from, items: [...names, ...values].filter(fits).map((one) => ({ text: one, label: one, about: '' })) };
  }
  const all = below(found, path);
  const items = new Map();
  for (const one of all) {
    for (const [name, schema] of Object.entries(one.properties ?? {})) {
      // The name of a resource is not part of its text.
      if (present.has(name) || !fits(name) || items.has(name) || (name === 'name' && path.length === 0)) continue;
      items.set(name, { text: `${name}: `, label: name, about: schema.description ?? alternatives({ document: found.document, schema })[0]?.description ?? '' });
    }
  }
  const names = path.at(-1) === '-' ? valuesOf(all).filter(fits).map((one) => ({ text: one, label: one, about: '' })) : [];
  return { from, items: [...items.values(), ...names] };
}
