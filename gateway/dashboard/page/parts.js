// Pieces that several views are made of.

import { h, Component } from './vendor/preact.mjs';
import htm from './vendor/htm.module.js';
import { mayWrite, readsOnly } from './resources.js';
import { state } from './store.js';
import { t } from './text.js';

export { Component };
export const html = htm.bind(h);

/// Whether the page is as narrow as on a telephone.
export const narrow = matchMedia('(max-width: 600px)');

/// A section with a heading. One that `folds` is closed on a telephone until it is touched, so that the page stays short.
export function Card({ title, id, more, children, wide, folds }) {
  if (folds && narrow.matches) {
    return html`<details class="card fold"><summary class="card-head"><h2 id=${id}>${title}</h2></summary>${children}</details>`;
  }
  return html`<section class=${`card${wide ? ' wide' : ''}`} aria-labelledby=${id}>
    <header class="card-head"><h2 id=${id}>${title}</h2>${more}</header>
    ${children}
  </section>`;
}

/// A table that can be scrolled sideways, by keyboard too. `columns`: `{ label, number, key }`; `rows` are `<tr>`. With the
/// class `cards` each row becomes a card on a narrow screen; its cells then need `data-label`.
export function Table({ label, columns, children, className = '' }) {
  return html`<div class="scroll" role="group" tabindex="0" aria-label=${label}>
    <table class=${className}>
      <thead><tr>${columns.map((column) => html`
        <th scope="col" class=${column.number ? 'number' : ''} aria-sort=${column.sort}>${column.button ?? column.label}</th>`)}
      </tr></thead>
      <tbody>${children}</tbody>
    </table>
  </div>`;
}

/// A state in a word and a colour; the word is always there.
export function Pill({ kind, children }) {
  return html`<span class=${`pill ${kind}`}><span class="dot" aria-hidden="true"></span>${children}</span>`;
}

/// What is there when there is nothing.
export function Empty({ title, children }) {
  return html`<div class="empty"><p class="empty-title">${title}</p>${children}</div>`;
}

/// What to do where there is none of a kind: a link to make one, or where to write it.
export function NextStep({ kind }) {
  if (mayWrite()) return html`<a class="button" href=${`#${kind}/+`}>${t(`new.${kind}`)}</a>`;
  if (readsOnly()) return html`<p>${t('edit.no.write')}</p>`;
  const key = kind === 'policies' ? 'policy_sets' : kind;
  return html`<p>${t('empty.file', { key, file: state.live?.file ?? '' })} <a href="#changes">${t('empty.store')}</a></p>`;
}

/// A part of a whole, as a bar behind the figure that says the same.
export function Bar({ part, kind = '' }) {
  const width = `${Math.max(0, Math.min(1, part)) * 100}%`;
  return html`<span class=${`bar ${kind}`} aria-hidden="true"><span style=${{ width }}></span></span>`;
}

/// A message that interrupts.
export function Alert({ kind = 'bad', children }) {
  return html`<p class=${`alert ${kind}`} role="alert">${children}</p>`;
}

/// A window over the page: the browser keeps the focus in it, and Escape closes it. The focus goes to the element with
/// `data-focus`: the field, or the button that Enter should press. It goes there as soon as that element exists, unless the
/// user has moved the focus before.
export class Dialog extends Component {
  componentDidMount() {
    this.before = document.activeElement;
    this.element.showModal();
    this.heading.focus();
    this.place();
  }

  componentDidUpdate() {
    this.place();
  }

  place() {
    if (document.activeElement === this.heading || !this.element.contains(document.activeElement)) {
      this.element.querySelector('[data-focus]')?.focus();
    }
  }

  componentWillUnmount() {
    this.element.close();
    this.before?.focus?.();
  }

  render({ title, id, onClose, children, wide }) {
    const cancel = (event) => {
      event.preventDefault();
      onClose();
    };
    return html`<dialog ref=${(element) => { if (element) this.element = element; }} class=${wide ? 'wide' : ''}
        aria-labelledby=${id} onCancel=${cancel}>
      <header class="card-head"><h2 id=${id} tabindex="-1" ref=${(element) => { if (element) this.heading = element; }}>${title}</h2>
        <button type="button" class="icon" aria-label=${t('close')} onClick=${onClose}>✕</button></header>
      <div class="dialog-body">${children}</div>
    </dialog>`;
  }
}
