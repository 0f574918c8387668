// Talks to the admin API. Paths are relative, so that the page also works under a prefix.

import { asked, declined, token } from './token.js';

/// What the API refused, with its own message.
export class Refused extends Error {
  constructor(status, body) {
    const problems = body?.problems ?? [];
    super(body?.detail ?? body?.message ?? problems[0]?.message ?? `HTTP ${status}`);
    this.status = status;
    this.code = body?.error;
    this.problems = problems;
  }
}

async function send(path, options, sent) {
  const headers = { accept: 'application/json', ...options.headers };
  if (sent) headers.authorization = `Bearer ${sent}`;
  return fetch(path, { ...options, headers, cache: 'no-store', credentials: 'same-origin' });
}

function parsed(text) {
  try { return text ? JSON.parse(text) : null; } catch { return { detail: text.slice(0, 400) }; }
}

/// A request to the API. Gives `{ body, text, etag, source }`, where `body` is what JSON says; asks for a token where one
/// is wanted.
///
/// Throws `Refused` with the API's own message, or what `fetch` throws when nobody answers.
export async function call(path, options = {}) {
  for (;;) {
    const sent = token();
    const response = await send(`../api/v1${path ? `/${path}` : ''}`, options, sent);
    const text = await response.text();
    if (response.status === 401 && !declined()) {
      // Somebody has typed one in meanwhile: that one is tried first.
      if (token() === sent) await asked(sent !== null);
      continue;
    }
    if (!response.ok) throw new Refused(response.status, parsed(text));
    const json = response.headers.get('content-type')?.includes('json');
    return { body: json ? parsed(text) : null, text, etag: response.headers.get('etag'), source: response.headers.get('tollgate-source') };
  }
}

/// The same with a JSON body.
export function sendJson(method, path, value) {
  return call(path, { method, body: JSON.stringify(value), headers: { 'content-type': 'application/json' } });
}

/// Reads a response that goes on, a line of JSON at a time, until it ends or `signal` aborts it. Empty lines say only that
/// the connection lives.
export async function follow(path, signal, take) {
  const response = await send(`../api/v1/${path}`, { signal }, token());
  if (!response.ok) throw new Refused(response.status, parsed(await response.text()));
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let held = '';
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const lines = (held + value).split('\n');
      held = lines.pop();
      for (const line of lines) if (line) take(JSON.parse(line));
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}
