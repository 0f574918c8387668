// Forms for what is changed often: a route that is switched off, an endpoint that drains, a consumer's key, a certificate from files.

import { Card, Component, html } from './parts.js';
import { targets } from './targets.js';
import { t } from './text.js';

/// Bytes of a generated key: 256 bits.
const KEY_BYTES = 32;

/// Endpoints of an upstream, each with a button that drains it or takes it back. `propose` is given the changed value.
export function Drain({ value, propose }) {
  const all = targets('upstreams', value);
  return html`<${Card} id="drain" title=${t('drain')}>
    <p class="lead">${t('drain.lead')}</p>
    <ul class="drain">${all.map(({ name, drains }, index) => html`<li key=${name}>
      <code>${name}</code>
      <button type="button" aria-label=${drains ? t('drain.end.of', { name }) : t('drain.begin.of', { name })} onClick=${() => propose(draining(value, index, !drains))}>${drains ? t('drain.end') : t('drain.begin')}</button></li>`)}</ul><//>`;
}

/// Whether a route is disabled, in whichever form its switch is written.
export const isDisabled = (value) => value?.enabled === false || ['off', 'false', 'no'].includes(String(value?.enabled).toLowerCase());

/// Whether a route takes requests, with a button that changes it. `propose` is given the changed value.
export function Switch({ value, propose }) {
  const disabled = isDisabled(value);
  const change = () => {
    const { enabled: _, ...others } = value;
    propose(disabled ? others : { ...others, enabled: false });
  };
  return html`<${Card} id="switch" title=${t('switch')}>
    <div class="card-body"><p class="quiet">${disabled ? t('switch.off.lead') : t('switch.on.lead')}</p>
      <div class="buttons"><button type="button" class="switch" onClick=${change}>${disabled ? t('switch.enable') : t('switch.disable')}</button></div></div><//>`;
}

/// An upstream's value with one endpoint that drains, or does not any longer.
export function draining(value, index, drains) {
  const own = (list) => (Array.isArray(list) ? list : [list]).map((entry, at) => {
    if (at !== index) return entry;
    const { drain: _, ...others } = typeof entry === 'string' ? { address: entry } : entry;
    if (drains) return { ...others, drain: 'on' };
    return Object.keys(others).join() === 'address' ? others.address : others;
  });
  return typeof value === 'object' && !Array.isArray(value) ? { ...value, endpoints: own(value.endpoints) } : own(value);
}

const hexadecimal = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');

/// A new key in 43 characters that need no escape, and what the configuration holds of it.
async function newKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(KEY_BYTES));
  const key = btoa(String.fromCharCode(...bytes)).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(key));
  return { key, hash: `sha256:${hexadecimal(new Uint8Array(digest))}` };
}

/// The text of a consumer with one more hash under `api_keys`, in whichever form its keys are written.
export function withKey(text, hash) {
  const lines = text.split('\n');
  const at = lines.findIndex((line) => /^api_keys:/.test(line));
  if (at < 0) return `${text.replace(/\n*$/, '')}\napi_keys: ${hash}\n`.replace(/^\n/, '');
  const value = lines[at].slice('api_keys:'.length).trim();
  const list = /^\[(.*)\]$/.exec(value);
  if (list) lines[at] = `api_keys: [${[...list[1].split(',').map((one) => one.trim()).filter(Boolean), hash].join(', ')}]`;
  else if (value !== '' && value !== 'sha256:') lines[at] = `api_keys: [${value}, ${hash}]`;
  else if (/^\s*- /.test(lines[at + 1] ?? '')) lines.splice(at + 1, 0, `${/^\s*/.exec(lines[at + 1])[0]}- ${hash}`);
  else lines[at] = `api_keys: ${hash}`;
  return lines.join('\n');
}

/// Makes a key for a consumer. The key is shown once; only its hash goes into the text. `onText` is given a function of the
/// present text, which may change while a key is made.
export class KeyGenerator extends Component {
  constructor() {
    super();
    this.state = { made: null };
  }

  async make() {
    const made = await newKey();
    this.setState({ made });
    this.props.onText((text) => withKey(text, made.hash));
  }

  render(_, { made }) {
    return html`<${Card} id="key" title=${t('key')}>
      <div class="card-body"><p class="quiet">${t('key.lead')}</p>
        ${globalThis.crypto?.subtle
          ? html`<div class="buttons"><button type="button" class="make-key" onClick=${() => this.make()}>${t('key.make')}</button></div>`
          : html`<p class="quiet">${t('key.insecure')}</p>`}
        <div aria-live="polite">${made && html`<label>${t('key.once')}<input class="made-key" readonly value=${made.key} onFocus=${(event) => event.currentTarget.select()} /></label>`}</div>
      </div><//>`;
  }
}

const block = (key, text) => `${key}: |\n${text.trim().split(/\r?\n/).map((line) => `  ${line}`).join('\n')}\n`;

/// The text of a certificate with another certificate and key; its other keys stay.
export function withPem(text, pem) {
  const kept = [];
  let skips = false;
  for (const line of text.split('\n')) {
    const key = /^([\w-]+):/.exec(line)?.[1];
    if (key) skips = pem[key] !== undefined;
    if (!skips && line !== '') kept.push(line);
  }
  const others = kept.length > 0 ? `${kept.join('\n')}\n` : '';
  return `${Object.entries(pem).map(([key, value]) => block(key, value)).join('')}${others}`;
}

/// Takes a certificate and its key from files of the browser's machine.
export function Upload({ onText }) {
  const take = (key) => async (event) => {
    const file = event.currentTarget.files[0];
    if (!file) return;
    const pem = await file.text();
    onText((text) => withPem(text, { [key]: pem }));
  };
  const field = (key) => html`<label>${t(`upload.${key}`)}<input type="file" name=${`file-${key}`} accept=".pem,.crt,.cer,.key" onChange=${take(key)} /></label>`;
  return html`<${Card} id="upload" title=${t('upload')}>
    <div class="card-body"><p class="quiet">${t('upload.lead')}</p>${field('certificate')}${field('key')}</div><//>`;
}
