// The token that the API may ask for: kept in the tab's own storage, sent in a header, never part of an address.

import { set, state } from './store.js';

const KEY = 'tollgate.token';

/// For browsers that keep nothing.
let held = null;
let waiting = [];

/// The token that was given, or null.
export function token() {
  try { return sessionStorage.getItem(KEY) ?? held; } catch { return held; }
}

function keep(text) {
  held = text;
  try {
    if (text === null) sessionStorage.removeItem(KEY);
    else sessionStorage.setItem(KEY, text);
  } catch { /* until the page is left, then */ }
}

function go() {
  const all = waiting;
  waiting = [];
  for (const one of all) one();
}

// From before this page was loaded again.
set({ token: { ...state.token, given: token() !== null } });

/// Whether somebody would rather give none.
export const declined = () => state.token.declined;

/// Asks for a token, and waits until there is an answer. `wrong`: the one that is here was refused.
export function asked(wrong) {
  set({ token: { ...state.token, asked: true, wrong: wrong || state.token.wrong } });
  return new Promise((resolve) => waiting.push(resolve));
}

/// Opens the question again.
export function askAgain() {
  set({ token: { ...state.token, asked: true, wrong: false } });
}

/// Takes the token that was typed in, and goes on with what waited for it.
export function give(text) {
  keep(text);
  set({ token: { asked: false, wrong: false, declined: false, given: true }, access: null, readOnly: false });
  go();
}

/// No token is given: what waited for one is told so.
export function decline() {
  set({ token: { ...state.token, asked: false, wrong: false, declined: true } });
  go();
}

/// Forgets the token. The gateway asks for one again, if it wants one.
export function forget() {
  keep(null);
  set({ token: { asked: false, wrong: false, declined: false, given: false }, access: null, readOnly: false });
}
