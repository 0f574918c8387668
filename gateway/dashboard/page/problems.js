// What the gateway says is wrong, in its own words.

import { html } from './parts.js';
import { t } from './text.js';

/// One problem. `where` is shown before it: a button that leads there, say.
export function Problem({ problem, where }) {
  const { severity, message, expected, help } = problem;
  return html`<li class=${`problem ${severity ?? 'error'}`}>
    ${where ?? (problem.pointer && html`<code class="quiet">${problem.pointer}</code>`)} ${message}
    ${expected && html`<small>${t('edit.expected', { what: expected })}</small>`}
    ${(help ?? []).map((line) => html`<small>${line}</small>`)}</li>`;
}

/// What a refusal says of one place: `pointer` and what is below it.
export function problemsAt(refused, pointer) {
  return (refused?.problems ?? []).filter((problem) => problem.pointer === pointer || problem.pointer?.startsWith(`${pointer}/`));
}
