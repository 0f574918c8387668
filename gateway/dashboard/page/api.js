// Talks to the admin API. Paths are relative, so that the page also works under a prefix.

import { set, state } from './store.js';

/// What the API refused, with its own message.
export class Refused extends Error {
  constructor(status, body) {
    const problems = body?.problems ?? [];
    super(body?.detail ?? body?.message ?? problems[0]?.message ?? `HTTP ${status}`);
    this.status = status;
    this.problems = problems;
  }
}

let waiting = [];

const TOKEN = 'tollgate.token';
const token = () => {
  try { return sessionStorage.getItem(TOKEN); } catch { return null; }
};

/// Takes the token that was typed in, and goes on with what waited for it.
export function giveToken(text) {
  try { sessionStorage.setItem(TOKEN, text); } catch { /* asked for again */ }
  set({ token: { asked: false, wrong: false } });
  const all = waiting;
  waiting = [];
  for (const go of all) go();
}

/// Gives up what waits for a token.
export function noToken() {
  set({ token: { asked: false, wrong: false } });
}

/// Asks for a token, and waits for one.
function asked(wrong) {
  set({ token: { asked: true, wrong } });
  return new Promise((resolve) => waiting.push(resolve));
}

async function send(path, options, sent) {
  const headers = { accept: 'application/json', ...options.headers };
  if (sent) headers.authorization = `Bearer ${sent}`;
  return fetch(path, { ...options, headers, cache: 'no-store', credentials: 'same-origin' });
}

/// A request to the API. Gives `{ body, etag }`; asks for a token where one is wanted.
///
/// Throws `Refused` with the API's own message, or what `fetch` throws when nobody answers.
export async function call(path, options = {}) {
  for (;;) {
    const sent = token();
    const response = await send(`../api/v1/${path}`, options, sent);
    if (response.status === 401) {
      // Somebody has typed one in meanwhile: that one is tried first.
      if (token() === sent) await asked(sent !== null && !state.token.asked);
      continue;
    }
    const text = await response.text();
    let body = null;
    try { body = text ? JSON.parse(text) : null; } catch { body = { detail: text.slice(0, 400) }; }
    if (!response.ok) throw new Refused(response.status, body);
    return { body, etag: response.headers.get('etag') };
  }
}

/// The same with a JSON body.
export function sendJson(method, path, value, headers = {}) {
  const type = method === 'PATCH' ? 'application/merge-patch+json' : 'application/json';
  return call(path, { method, body: JSON.stringify(value), headers: { 'content-type': type, ...headers } });
}
