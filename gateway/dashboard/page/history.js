// Charts of the last hour: of the gateway, a route or an upstream, in steps of ten seconds. A drag over a chart zooms in;
// buttons do the same for the keyboard.

import { call } from './api.js';
import { Chart } from './chart.js';
import { age, percent, whole } from './format.js';
import { Alert, Bar, Card, Component, html, Table } from './parts.js';
import { state } from './store.js';
import { t } from './text.js';

/// Milliseconds between two requests: half a step, so that no point is late by a whole one.
const EVERY = 5000;
/// Rows that are kept: an hour.
const ROWS_MAX = 360;
/// The choices of a span, in seconds.
const SPANS = [300, 900, 3600];
const SCALES = ['linear', 'log', 'clip'];
/// The shortest span that can be zoomed to, in seconds.
const SPAN_MIN = 60;

const CLASSES = [['2xx', '--series-2'], ['3xx', '--series-1'], ['4xx', '--series-4'], ['5xx', '--series-5'], ['none', '--series-3']];

/// Appends the rows of `news`, which are later, and drops the oldest ones.
function joined(before, news) {
  const join = (one, other) => [...one, ...other].slice(-ROWS_MAX);
  if (!before || before.time.length === 0) return news;
  const codes = Object.fromEntries(Object.keys(news.codes).map((key) => [key, join(before.codes[key] ?? [], news.codes[key])]));
  const columns = ['time', 'requests', 'attempts', 'failures', 'retries', 'p50', 'p99'];
  return { ...news, codes, ...Object.fromEntries(columns.map((key) => [key, join(before[key], news[key])])) };
}

const milliseconds = (values) => values.map((value) => (value === null ? null : value * 1e3));

/// The charts that a document has figures for: `{ title, unit, least, series }`.
function charts(columns, cut) {
  const line = (label, colour, values, fill) => ({ label, colour, values: cut(values), fill });
  const out = [];
  if (columns.requests.length > 0) {
    const both = (one, other) => one.map((value, row) => (value === null ? null : value + other[row]));
    const codes = { ...columns.codes, '2xx': both(columns.codes['2xx'], columns.codes['1xx']) };
    out.push({ title: t('history.codes'), unit: t('chart.requests.unit'),
      series: CLASSES.map(([key, colour]) => line(key === 'none' ? t('history.none') : key, colour, codes[key], key === '2xx')) });
  }
  out.push({ title: t('chart.latency'), unit: t('chart.latency.unit'),
    series: [line('p50', '--series-2', milliseconds(columns.p50)), line('p99', '--series-3', milliseconds(columns.p99))] });
  if (columns.attempts.length > 0) {
    out.push({ title: t('history.attempts'), unit: t('history.attempts.unit'), series: [
      line(t('history.attempts.all'), '--series-1', columns.attempts, true),
      line(t('history.attempts.failed'), '--series-5', columns.failures),
      line(t('history.attempts.again'), '--series-4', columns.retries)] });
  }
  return out;
}

function Reasons({ reasons, title }) {
  const all = Object.entries(reasons).sort((one, other) => other[1] - one[1]);
  if (all.length === 0) return null;
  const sum = all.reduce((total, [, count]) => total + count, 0);
  const columns = [{ label: t('reason') }, { label: t('col.share'), number: true }, { label: t('col.count'), number: true }];
  return html`<${Card} id="history-reasons" title=${title} wide>
    <${Table} label=${title} columns=${columns}>${all.map(([name, count]) => html`<tr key=${name}>
      <th scope="row"><code>${name}</code></th>
      <td class="number share"><${Bar} part=${count / sum} kind="warn" /><span>${percent(count / sum)}</span></td>
      <td class="number">${whole(count)}</td></tr>`)}<//><//>`;
}

/// What Prometheus shows of a scope.
const QUERIES = {
  gateway: () => 'sum by (code) (rate(tollgate_requests_total[1m]))',
  route: (name) => `sum by (code) (rate(tollgate_requests_total{route=${JSON.stringify(name)}}[1m]))`,
  upstream: (name) => `sum by (reason) (rate(tollgate_upstream_failures_total{upstream=${JSON.stringify(name)}}[1m]))`,
};

/// A link to the Prometheus that the configuration names, for what is older than an hour.
function Prometheus({ scope, name }) {
  const base = state.access?.prometheus;
  if (!base) return null;
  const query = encodeURIComponent(QUERIES[scope](name));
  return html`<a class="prometheus" href=${`${base}/graph?g0.expr=${query}&g0.tab=0&g0.range_input=6h`} rel="noreferrer" target="_blank">${t('history.prometheus')}</a>`;
}

/// `scope`: `gateway`, `route` or `upstream`; `name` of the latter two.
export class History extends Component {
  constructor() {
    super();
    this.state = { columns: null, problem: null, span: 300, scale: 'linear', zoom: null };
  }

  componentDidMount() {
    this.load();
    this.timer = setInterval(() => { if (!document.hidden) this.load(); }, EVERY);
  }

  componentWillUnmount() {
    clearInterval(this.timer);
    this.gone = true;
  }

  async load() {
    if (this.busy) return;
    this.busy = true;
    const { scope, name } = this.props;
    const before = this.state.columns;
    const names = name === undefined ? '' : `&name=${encodeURIComponent(name)}`;
    try {
      const { body } = await call(`live/history?scope=${scope}${names}&after=${before?.time.at(-1) ?? 0}`);
      // A series that was just begun, or dropped, has other rows than those that are here.
      if (before && body.kept !== before.kept) {
        const { body: whole } = await call(`live/history?scope=${scope}${names}`);
        if (!this.gone) this.setState({ columns: whole, problem: null });
      } else if (!this.gone) this.setState({ columns: joined(before, body), problem: null });
    } catch (problem) {
      if (!this.gone) this.setState({ problem });
    }
    this.busy = false;
  }

  /// The span that is shown, as `[from, to]` in seconds since 1970.
  range() {
    const { columns, span, zoom } = this.state;
    const last = columns.time.at(-1) ?? state.live.time;
    return zoom ?? [last - span, last];
  }

  /// Shows another span, within the hour that there is.
  zoom([from, to]) {
    const { columns } = this.state;
    const [first, last] = [columns.time.at(-1) - 3600, columns.time.at(-1)];
    const length = Math.min(3600, Math.max(SPAN_MIN, to - from));
    const end = Math.min(last, Math.max(first + length, (from + to + length) / 2));
    this.setState({ zoom: [end - length, end] });
  }

  tools() {
    const { span, scale, zoom, columns } = this.state;
    const [from, to] = this.range();
    const half = (to - from) / 2;
    const button = (key, sign, range, off) => html`<button type="button" class="icon" aria-label=${t(`history.${key}`)} title=${t(`history.${key}`)}
      disabled=${off} onClick=${() => this.zoom(range)}><span aria-hidden="true">${sign}</span></button>`;
    return html`<div class="history-tools" role="group" aria-label=${t('history.tools')}>
      <label><span>${t('history.span')}</span><select name="span" value=${span} onChange=${(event) => this.setState({ span: Number(event.currentTarget.value), zoom: null })}>
        ${SPANS.map((one) => html`<option value=${one} selected=${one === span}>${age(one)}</option>`)}</select></label>
      <label><span>${t('history.scale')}</span><select name="scale" value=${scale} onChange=${(event) => this.setState({ scale: event.currentTarget.value })}>
        ${SCALES.map((one) => html`<option value=${one} selected=${one === scale}>${t(`history.scale.${one}`)}</option>`)}</select></label>
      <div class="zoom">${button('earlier', '◀', [from - half, to - half], from <= columns.time.at(-1) - 3600)}
        ${button('in', '+', [from + half / 2, to - half / 2], half * 2 <= SPAN_MIN)}
        ${button('out', '−', [from - half, to + half], half * 2 >= 3600)}
        ${button('later', '▶', [from + half, to + half], to >= columns.time.at(-1))}
        ${zoom && html`<button type="button" onClick=${() => this.setState({ zoom: null })}>${t('history.whole')}</button>`}</div>
      <p class="quiet">${t('history.hint')} <${Prometheus} scope=${this.props.scope} name=${this.props.name} /></p></div>`;
  }

  render({ scope }, { columns, problem, scale }) {
    if (!columns) return problem ? html`<${Alert}>${t('failed', { why: problem.message })}<//>` : html`<p class="empty">${t('loading')}</p>`;
    const heading = html`<h2 class="hidden">${t('history')}</h2>`;
    if (columns.time.length === 0) return html`<section class="history-part" aria-label=${t('history')}>${heading}<p class="card empty">${t('history.soon')}</p></section>`;
    if (!columns.kept) return html`<section class="history-part" aria-label=${t('history')}>${heading}<p class="card empty">${t('history.idle')}</p></section>`;
    const range = this.range();
    const place = (found) => (found < 0 ? columns.time.length : found);
    const first = place(columns.time.findIndex((time) => time >= range[0]));
    const after = place(columns.time.findIndex((time) => time > range[1]));
    const cut = (values) => values.slice(first, after);
    return html`<section class="history-part" aria-label=${t('history')}>${heading}
      ${this.tools()}
      <div class=${`charts ${scope}`}>${charts(columns, cut).map((chart) => html`<${Chart} key=${`${chart.title} ${scale}`} ...${chart} times=${cut(columns.time)}
        theme=${state.dark} language=${state.language} range=${range} scale=${scale} onZoom=${(to) => this.zoom(to)} />`)}</div>
      ${scope !== 'gateway' && html`<${Reasons} reasons=${columns.reasons} title=${scope === 'route' ? t('history.reasons.route') : t('history.reasons')} />`}</section>`;
  }
}

/// The last hour of the whole gateway, which is loaded when it is opened.
export class GatewayHistory extends Component {
  render(_, { open }) {
    return html`<details class="card hour" onToggle=${(event) => this.setState({ open: event.currentTarget.open })}>
      <summary>${t('history')}</summary>${open && html`<${History} scope="gateway" />`}</details>`;
  }
}
