// Every listener: its address and protocols, and its certificates with the time until they expire.

import { call } from '../api.js';
import { age, whole } from '../format.js';
import { Alert, Card, Component, Empty, html, Pill } from '../parts.js';
import { mayWrite, place } from '../resources.js';
import { state } from '../store.js';
import { t } from '../text.js';
import { NEW, Resource } from './resource.js';

const DAY = 86400;
/// The gateway warns at the same time.
const SOON = 14 * DAY;
/// Authorities that are shown at first.
const AUTHORITIES = 5;

const date = (seconds) => new Intl.DateTimeFormat(state.language, { dateStyle: 'medium' }).format(new Date(seconds * 1000));

/// When a certificate expires, in words and a colour.
function Expiry({ at }) {
  if (at === undefined) return html`<${Pill} kind="warn">${t('listeners.unreadable')}<//>`;
  const left = at - state.live.time;
  const kind = left <= 0 ? 'bad' : left < SOON ? 'warn' : 'good';
  const text = left <= 0 ? t('listeners.expired') : t('listeners.expires', { age: left < 2 * DAY ? age(left) : t('unit.d', { n: whole(Math.floor(left / DAY)) }) });
  return html`<${Pill} kind=${kind}>${text}<//> <span class="quiet nowrap">${date(at)}</span>`;
}

const fact = (label, value) => html`<div><dt>${label}</dt><dd>${value}</dd></div>`;

function Certificate({ certificate }) {
  const { file, subject, issuer, names, not_after: end, not_before: start, fingerprint } = certificate;
  return html`<li class="certificate">
    <p class="certificate-head"><strong>${names?.[0]?.replace(/^DNS:/, '') ?? subject ?? file}</strong> <${Expiry} at=${end} /></p>
    <dl class="facts">
      ${file && fact(t('listeners.file'), html`<code>${file}</code>`)}
      ${subject && fact(t('listeners.subject'), subject)}
      ${names?.length > 0 && fact(t('listeners.names'), names.join(', '))}
      ${issuer && fact(t('listeners.issuer'), issuer === subject ? t('listeners.self') : issuer)}
      ${start !== undefined && fact(t('listeners.valid'), `${date(start)} – ${date(end)}`)}
      ${fingerprint && fact(t('listeners.fingerprint'), html`<code>${fingerprint.slice(0, 16)}…</code>`)}
    </dl></li>`;
}

/// The authorities of client certificates. A bundle may have a hundred of them.
function Clients({ client }) {
  const { required, authorities } = client;
  const one = (authority) => html`<li key=${authority.fingerprint}>${authority.subject} <${Expiry} at=${authority.not_after} /></li>`;
  const rest = authorities.slice(AUTHORITIES);
  return html`<div class="clients-ca"><h3>${required ? t('listeners.client.required') : t('listeners.client.optional')}</h3>
    <ul>${authorities.slice(0, AUTHORITIES).map(one)}</ul>
    ${rest.length > 0 && html`<details><summary>${t('listeners.more', { n: whole(rest.length) })}</summary><ul>${rest.map(one)}</ul></details>`}</div>`;
}

function Tls({ tls }) {
  return html`<h3>${t('listeners.certificates')}</h3>
    <ul class="certificates">${tls.certificates.map((one) => html`<${Certificate} key=${one.fingerprint ?? one.file} certificate=${one} />`)}</ul>
    ${tls.client && html`<${Clients} client=${tls.client} />`}`;
}

function Listener({ listener, index }) {
  const { name, address, hosts, bound, problem, source, version, routes, protocols, tls, redirect_to_https: redirect, proxy_protocol: proxies } = listener;
  const title = html`${name && html`<a href=${place('listeners', name)}>${name}</a> `}<code>${bound ?? address}</code>`;
  return html`<${Card} id=${`listener-${index}`} title=${title} wide
      more=${html`${problem && html`<${Pill} kind="bad">${t('listeners.closed')}<//> `}<${Pill} kind="">${version === null ? t('source.file', { at: source }) : t('source.store', { n: version })}<//> <${Pill} kind=${tls ? 'good' : ''}>${tls ? t('listeners.tls', { version: tls.min_version }) : t('listeners.plain')}<//>`}>
    ${problem && html`<div class="card-body"><${Alert}>${problem}<//></div>`}
    <dl class="facts">
      ${fact(t('listeners.protocols'), protocols.map((one) => ({ h2: 'HTTP/2', 'http/1.1': 'HTTP/1.1' })[one] ?? one.toUpperCase()).join(', '))}
      ${hosts.length > 0 && fact(t('listeners.hosts'), hosts.join(', '))}
      ${!['tcp', 'udp'].includes(protocols[0]) && fact(t('view.routes'), whole(routes))}
      ${redirect && fact(t('listeners.redirect'), html`https (${redirect.status}, ${redirect.port})`)}
      ${proxies.length > 0 && fact('PROXY protocol', proxies.join(', '))}
    </dl>
    ${tls && html`<div class="card-body"><${Tls} tls=${tls} /></div>`}<//>`;
}

class All extends Component {
  constructor() {
    super();
    this.state = { found: null, problem: null };
  }

  componentDidMount() {
    this.load();
  }

  componentDidUpdate() {
    if (state.live?.generation !== this.generation) this.load();
  }

  async load() {
    this.generation = state.live?.generation;
    try {
      const { body } = await call('listeners');
      this.setState({ found: body, problem: null });
    } catch (problem) {
      this.setState({ problem });
    }
  }

  render(_, { found, problem }) {
    if (problem) return html`<${Alert}>${t('failed', { why: problem.message })}<//>`;
    if (!found) return html`<p class="empty">${t('loading')}</p>`;
    return html`${mayWrite() && html`<p><a class="button primary" href=${`#listeners/${NEW}`}>${t('new.listeners')}</a></p>`}
      ${found.items.length === 0 && html`<${Empty} title=${t('listeners.empty')} />`}
      ${found.items.map((listener, index) => html`<${Listener} key=${`${index} ${listener.address}`} listener=${listener} index=${index} />`)}
      ${found.admin.tls && html`<${Card} id="listener-admin" title=${t('listeners.admin')} wide><div class="card-body"><${Tls} tls=${found.admin.tls} /></div><//>`}`;
  }
}

export const Listeners = ({ detail }) => (detail
  ? html`<${Resource} key=${detail} kind="listeners" name=${detail} />`
  : html`<${All} />`);
