// The text for a key, in the language of the page.

import { state } from './store.js';
import { languages, words } from './words.js';

const order = Object.keys(languages);

/// The text of a key, with what is filled in: `{n}` is a value, and `{n:route|routes}` the first form if the value is 1.
export function t(key, values = {}) {
  const both = words[key];
  if (!both) return key;
  return both[order.indexOf(state.language)]
    .replace(/\{(\w+):([^|}]*)\|([^}]*)\}/g, (_, name, one, many) => (String(values[name]) === '1' ? one : many))
    .replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);
}

/// Whether there is a text for a key.
export const known = (key) => key in words;

/// The page's language for a browser that prefers these.
export function preferred(wanted) {
  return wanted.map((one) => one.slice(0, 2).toLowerCase()).find((one) => order.includes(one)) ?? 'en';
}
