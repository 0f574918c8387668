// Live requests: each one that ends from now on, step by step, as `tollgate trace` shows it.

import { follow } from '../api.js';
import { clock, decimal, whole } from '../format.js';
import { Polled } from '../listing.js';
import { Alert, Card, Component, Empty, html, Table } from '../parts.js';
import { place, readsOnly } from '../resources.js';
import { t } from '../text.js';

/// Requests that are kept; older ones are dropped.
const LINES_MAX = 200;
/// Milliseconds between two drawings: a busy gateway sends hundreds of requests a second.
const DRAW_EVERY = 250;

/// The conditions that the API knows; the route is compared here.
const FILTERS = ['host', 'path', 'client', 'status', 'reason'];

/// The request, or the protocol, the name and the server name of a stream.
const what = ({ stream, method, host, target }) => (stream ? [stream.protocol, stream.name, host].filter(Boolean).join(' ')
  : `${method ?? ''} ${host ?? ''}${target ?? t('requests.unreadable')}`);
const routeOf = (trace) => trace.steps.find((step) => step.step === 'route')?.name ?? null;
const took = (value) => `${decimal(value, value < 10 ? 2 : value < 100 ? 1 : 0)} ms`;

/// A value of a step as text.
function text(value) {
  if (Array.isArray(value)) return value.map(text).join(', ');
  if (value !== null && typeof value === 'object') {
    if ('name' in value) return `${value.name}: ${value.why ?? value.value ?? ''}`;
    return Object.entries(value).filter(([, one]) => one !== null).map(([key, one]) => `${key} ${text(one)}`).join(', ');
  }
  return String(value);
}

const nothing = (value) => value === null || value === '' || value === 0 || (Array.isArray(value) && value.length === 0);

function Steps({ trace }) {
  return html`<ol class="steps">${trace.steps.map(({ step, at_ms: at, ...others }) => html`<li>
    <span class="at">${at === null ? '' : `+${decimal(at, 3)} ms`}</span>
    <strong>${step}</strong>
    <dl>${Object.entries(others).filter(([, value]) => !nothing(value)).map(([key, value]) => html`<div><dt>${key}</dt><dd>${text(value)}</dd></div>`)}</dl></li>`)}</ol>`;
}

export class Requests extends Component {
  constructor() {
    super();
    this.state = { traces: [], open: null, following: false, problem: null, lost: 0, filters: {} };
    this.waiting = [];
    this.count = 0;
  }

  componentWillUnmount() {
    this.stop();
  }

  stop() {
    this.abort?.abort();
    this.abort = null;
    clearTimeout(this.drawing);
    this.drawing = null;
  }

  pause() {
    this.stop();
    this.draw();
    this.setState({ following: false });
  }

  async start(event) {
    event?.preventDefault();
    this.stop();
    const { filters } = this.state;
    const wanted = FILTERS.filter((key) => filters[key]?.trim()).map((key) => `${key}=${encodeURIComponent(filters[key].trim())}`);
    const abort = new AbortController();
    this.abort = abort;
    this.setState({ following: true, problem: null });
    try {
      await follow(`trace?${wanted.join('&')}`, abort.signal, (line) => this.take(line));
      if (this.abort === abort) this.setState({ following: false });
    } catch (problem) {
      if (this.abort === abort) this.setState({ following: false, problem });
    }
  }

  take(line) {
    if (line.lost) {
      this.lost = (this.lost ?? 0) + line.lost;
      return;
    }
    const route = this.state.filters.route?.trim();
    if (route && routeOf(line) !== route) return;
    this.count += 1;
    this.waiting.push({ ...line, key: this.count });
    if (this.waiting.length > LINES_MAX) this.waiting.shift();
    this.drawing ??= setTimeout(() => { this.drawing = null; this.draw(); }, DRAW_EVERY);
  }

  /// Shows what arrived since the last drawing, the newest first.
  draw() {
    if (this.waiting.length === 0 && !this.lost) return;
    const traces = [...this.waiting.reverse(), ...this.state.traces].slice(0, LINES_MAX);
    this.setState({ traces, lost: this.state.lost + (this.lost ?? 0) });
    this.waiting = [];
    this.lost = 0;
  }

  field(name, hint) {
    const { filters } = this.state;
    return html`<label>${t(`requests.${name}`)}<input name=${name} placeholder=${hint} autocomplete="off" spellcheck=${false} value=${filters[name] ?? ''}
      list=${name === 'route' ? 'requests-routes' : undefined}
      onInput=${(event) => this.setState({ filters: { ...filters, [name]: event.currentTarget.value } })} /></label>`;
  }

  row(trace) {
    const open = this.state.open === trace.key;
    const route = routeOf(trace);
    const bad = (trace.stream ? trace.reason : trace.status === 0) || trace.status >= 500 ? 'bad-text' : trace.status >= 400 ? 'warn-text' : '';
    const line = html`<tr key=${trace.key} class=${open ? 'open' : ''}>
      <th scope="row"><button type="button" class="link" aria-expanded=${open ? 'true' : 'false'} onClick=${() => this.setState({ open: open ? null : trace.key })}>${clock(trace.started, true)}</button></th>
      <td class="number"><span class=${bad}>${trace.status || (trace.stream ? '–' : t('requests.none'))}</span></td>
      <td class="name"><code>${what(trace)}</code></td>
      <td class="name">${route ? html`<a href=${place('routes', route)}>${route}</a>` : '–'}</td>
      <td>${trace.reason ? html`<code>${trace.reason}</code>` : ''}</td>
      <td class="number">${took(trace.total_ms)}</td></tr>`;
    return open ? [line, html`<tr key=${`${trace.key} steps`} class="steps-row"><td colspan="6"><${Steps} trace=${trace} /></td></tr>`] : [line];
  }

  render(_, { traces, following, problem, lost }) {
    if (readsOnly()) return html`<${Empty} title=${t('requests.role')} />`;
    const columns = [{ label: t('chart.time') }, { label: t('requests.status'), number: true }, { label: t('requests.request') },
      { label: t('route') }, { label: t('reason') }, { label: t('requests.took'), number: true }];
    return html`<${Card} id="requests-filter" title=${t('view.requests')} wide>
        <form class="requests" onSubmit=${(event) => this.start(event)}>
          <p class="quiet">${t('requests.lead')}</p>
          <div class="fields">${this.field('route', '')}${this.field('host', 'api.example.com')}${this.field('path', '/v1/*')}${this.field('status', '5xx')}
            ${this.field('reason', 'rate_limited')}${this.field('client', '10.0.0.0/8')}</div>
          <${Polled} url="live/routes?sort=requests&limit=100" still>${({ items }) => html`<datalist id="requests-routes">${items.map((one) => html`<option value=${one.name} />`)}</datalist>`}<//>
          <div class="buttons"><button class="primary">${following ? t('requests.again') : t('requests.start')}</button>
            ${following && html`<button type="button" class="pause" onClick=${() => this.pause()}>${t('requests.pause')}</button>`}
            ${traces.length > 0 && html`<button type="button" onClick=${() => this.setState({ traces: [], open: null, lost: 0 })}>${t('requests.clear')}</button>`}
            <span class="quiet" role="status">${following ? t('requests.following', { n: whole(traces.length) }) : traces.length > 0 ? t('requests.paused', { n: whole(traces.length) }) : ''}
              ${lost > 0 ? ` ${t('requests.lost', { n: whole(lost) })}` : ''}</span></div>
        </form><//>
      ${problem && html`<${Alert}>${t('failed', { why: problem.message })}<//>`}
      ${traces.length > 0 && html`<${Card} id="requests-list" title=${t('requests.list')} wide>
        <${Table} label=${t('requests.list')} columns=${columns} className="requests">${traces.flatMap((trace) => this.row(trace))}<//><//>`}
      ${traces.length === 0 && following && html`<${Empty} title=${t('requests.waiting')} />`}`;
  }
}
