// The configuration's resources as the API has them, and changing them.

import { call } from './api.js';
import { set, state } from './store.js';

/// A resource's path in the API.
const path = (kind, name) => `${kind}/${encodeURIComponent(name)}`;

/// A resource's place in the page.
export const place = (kind, name) => `#${kind}/${encodeURIComponent(name)}`;

/// Asks what this page may do: `{ writable, role, ... }`. `state.access` has it.
export async function readAccess() {
  const { body } = await call('');
  set({ access: body });
}

/// Whether the token opens no changes: its role says so, or one was refused.
export const readsOnly = () => state.access?.role === 'read' || state.readOnly;

/// Whether changes can be made here; before the first answer they cannot.
export const mayWrite = () => Boolean(state.access?.writable) && !readsOnly();

/// A resource: its text as YAML and its value, both of one version, with the tag of that and where it is written.
export async function read(kind, name) {
  for (;;) {
    const text = await call(path(kind, name), { headers: { accept: 'application/yaml' } });
    const value = await call(path(kind, name));
    if (text.etag === value.etag) return { text: text.text, value: value.body, etag: value.etag, source: value.source };
  }
}

/// What must hold before a change: the version that was read, or that there is none.
const condition = (etag) => (etag === null ? { 'if-none-match': '*' } : { 'if-match': etag });

/// A change that writes a text. JSON is YAML too, and as YAML its mistakes are told with line and column. `etag` null: it is
/// to be new.
export function writing(kind, name, text, etag) {
  const headers = { ...condition(etag), 'content-type': 'application/yaml' };
  return { method: 'PUT', path: path(kind, name), body: text, headers };
}

/// A change that takes it away.
export function deleting(kind, name, etag) {
  return { method: 'DELETE', path: path(kind, name), headers: condition(etag) };
}

/// A change that makes all as it was at a version.
export function rollback(version) {
  return { method: 'POST', path: `rollback/${version}`, headers: {} };
}

/// Has the gateway make a change, or only try it: `dry` is `dry_run`, or `check`, which leaves no line in the audit log.
/// Gives what is different.
export async function make(change, dry) {
  const { method, body, headers } = change;
  const answer = await call(`${change.path}${dry ? `?${dry}=true` : ''}`, { method, body, headers });
  return answer.body;
}

/// Versions of the history, the newest first.
export async function history(before, limit) {
  const { body } = await call(`history?limit=${limit}${before ? `&before=${before}` : ''}`);
  return body.versions;
}

/// What is different at a version from an earlier one; without that, what it has changed itself.
export async function between(from, to) {
  const { body } = await call(`history/${to}${from === null ? '' : `?since=${from}`}`);
  return body;
}
