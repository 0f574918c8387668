// What is different between two texts, line by line, and how it is shown.

import { html, Pill } from './parts.js';
import { place } from './resources.js';
import { t } from './text.js';
import { yamlLines } from './yaml.js';

/// Lines that stay and are shown around one that does not.
const AROUND = 3;
/// Fewer than so many that stay are shown all the same.
const FEW = 3;
/// Beyond so many pairs of lines no common ones are looked for.
const MOST = 4e6;

/// `[sign, line]` for each line of both: ` ` stays, `-` goes, `+` comes. As few as can be go and come.
export function difference(before, after) {
  let head = 0;
  while (head < before.length && head < after.length && before[head] === after[head]) head += 1;
  let [endA, endB] = [before.length, after.length];
  while (endA > head && endB > head && before[endA - 1] === after[endB - 1]) {
    endA -= 1;
    endB -= 1;
  }
  const [a, b] = [before.slice(head, endA), after.slice(head, endB)];
  const signed = (sign, lines) => lines.map((line) => [sign, line]);
  const middle = a.length * b.length > MOST ? [...signed('-', a), ...signed('+', b)] : common(a, b);
  return [...signed(' ', before.slice(0, head)), ...middle, ...signed(' ', before.slice(endA))];
}

/// By the longest common subsequence.
function common(a, b) {
  const longest = Array.from({ length: a.length + 1 }, () => new Uint32Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      longest[i][j] = a[i] === b[j] ? longest[i + 1][j + 1] + 1 : Math.max(longest[i + 1][j], longest[i][j + 1]);
    }
  }
  const out = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      out.push([' ', a[i]]);
      i += 1;
      j += 1;
    } else if (i < a.length && (j === b.length || longest[i + 1][j] >= longest[i][j + 1])) {
      out.push(['-', a[i]]);
      i += 1;
    } else {
      out.push(['+', b[j]]);
      j += 1;
    }
  }
  return out;
}

/// Leaves out what is far from every change, and says how much that is.
function near(lines) {
  const shown = lines.map((_, index) => lines.slice(Math.max(0, index - AROUND), index + AROUND + 1).some(([sign]) => sign !== ' '));
  const out = [];
  for (let index = 0; index < lines.length; index += 1) {
    const next = shown[index] ? index : shown.findIndex((one, at) => at > index && one);
    const end = next < 0 ? lines.length : next;
    if (end - index >= FEW) {
      out.push(['…', end - index]);
      index = end - 1;
    } else out.push(lines[index]);
  }
  return out;
}

function Line({ sign, line }) {
  if (sign === '…') return html`<span class="line skipped">${t('diff.skipped', { n: line })}</span>`;
  if (sign === ' ') return html`<span class="line"><span class="sign" aria-hidden="true"> </span>${line}</span>`;
  const [tag, word] = sign === '+' ? ['ins', t('diff.line.added')] : ['del', t('diff.line.removed')];
  return html`<${tag} class="line"><span class="hidden">${word} </span><span class="sign" aria-hidden="true">${sign === '-' ? '−' : '+'}</span>${line}</${tag}>`;
}

const KINDS = { added: 'good', removed: 'bad', changed: 'warn' };

/// The changes that the API tells of, each with its name and lines.
export function Changes({ changes, level = 3 }) {
  if (changes.length === 0) return html`<p class="quiet">${t('edit.same')}</p>`;
  const heading = `h${level}`;
  return changes.map(({ kind, name, change, before, after }) => html`<section class="change" key=${`${kind}/${name}`}>
    <${heading} class="change-name"><span class="quiet">${t(`kind.${kind}`)}</span> <a href=${place(kind, name)}>${name}</a>
      <${Pill} kind=${KINDS[change]}>${t(`diff.${change}`)}<//><//>
    <pre class="diff" tabindex="0" role="region" aria-label=${`${t(`kind.${kind}`)} ${name}`}>${near(difference(yamlLines(before), yamlLines(after)))
      .map(([sign, line]) => html`<${Line} sign=${sign} line=${line} />`)}</pre></section>`);
}
