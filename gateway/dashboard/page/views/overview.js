// What goes on: figures, charts, the busiest routes, the upstreams' health.

import { Chart } from '../chart.js';
import { age, amount, bytes, decimal, percent, timeText, time, whole } from '../format.js';
import { GatewayHistory } from '../history.js';
import { Polled, rowsOf } from '../listing.js';
import { present } from '../live.js';
import { Bar, Card, Empty, html, NextStep, Pill, Table } from '../parts.js';

import { place } from '../resources.js';
import { state } from '../store.js';
import { known, t } from '../text.js';

/// Rows of each short list.
const busy = () => rowsOf(8, 5);

function Tile({ label, figure, unit, more, kind = '' }) {
  return html`<div class=${`tile ${kind}`}><dt>${label}</dt>
    <dd><span class="figure">${figure}</span>${unit ? html` <span class="figure-unit">${unit}</span>` : ''}</dd>
    <dd class="tile-more">${more}</dd></div>`;
}

function tiles(live, now) {
  const rate = now?.requests ?? 0;
  const part = rate > 0 ? now.serverErrors / rate : 0;
  const [p99, unit] = time(now?.p99);
  const { cost } = live;
  const cores = decimal(cost.cores, Number.isInteger(cost.cores) ? 0 : 1);
  const [memory, size] = bytes(live.resources.memory);
  const bound = live.resources.memory_bound;
  return html`<dl class="tiles">
    <${Tile} label=${t('tile.requests')} figure=${amount(rate)} unit=${t('tile.requests.unit')}
      more=${t('tile.requests.more', { n: whole(live.requests.total) })} />
    <${Tile} label=${t('tile.errors')} figure=${percent(part)} kind=${part >= 0.01 ? 'bad' : part > 0 ? 'warn' : ''}
      more=${t('tile.errors.more', { part: percent(rate > 0 ? now.clientErrors / rate : 0) })} />
    <${Tile} label=${t('tile.latency')} figure=${p99} unit=${unit}
      more=${t('tile.latency.more', { p50: timeText(now?.p50), p90: timeText(now?.p90) })} />
    <${Tile} label=${t('tile.toll')} unit=${t('tile.toll.unit')}
      figure=${cost.cpu_microseconds_per_request === null ? '–' : decimal(cost.cpu_microseconds_per_request, 1)}
      more=${cost.cpu_microseconds_per_request === null ? t('tile.toll.unknown')
        : t('tile.toll.more', { used: decimal(cost.cores_used ?? 0, 2), cores })} />
    <${Tile} label=${t('tile.headroom')} figure=${cost.headroom === null ? '–' : amount(Math.floor(cost.headroom))}
      unit=${t('tile.requests.unit')} more=${cost.headroom === null ? t('tile.toll.unknown') : t('tile.headroom.more', { cores })} />
    <${Tile} label=${t('tile.inflight')} figure=${amount(live.requests.in_flight)}
      more=${t('tile.inflight.more', { n: whole(live.clients.open) })} />
    <${Tile} label=${t('tile.memory')} figure=${memory} unit=${size}
      more=${bound ? t('tile.memory.bound', { bound: bytes(bound).join(' ') }) : t('tile.memory.more', { n: live.workers.length })} />
  </dl>`;
}

const millis = (values) => values.map((value) => (value === null ? null : value * 1e3));

function charts(history) {
  const common = { times: history.time, theme: state.theme + state.dark, language: state.language };
  return html`<div class="charts">
    <${Chart} ...${common} title=${t('chart.requests')} unit=${t('chart.requests.unit')} least=${5} series=${[
      { label: t('chart.all'), colour: '--series-1', values: history.requests, fill: true },
      { label: '4xx', colour: '--series-4', values: history.client_errors },
      { label: '5xx', colour: '--series-5', values: history.server_errors }]} />
    <${Chart} ...${common} title=${t('chart.latency')} unit=${t('chart.latency.unit')} least=${0.5} series=${[
      { label: 'p50', colour: '--series-2', values: millis(history.p50), fill: true },
      { label: 'p90', colour: '--series-1', values: millis(history.p90) },
      { label: 'p99', colour: '--series-3', values: millis(history.p99) }]} />
    <${Chart} ...${common} title=${t('chart.toll')} unit=${t('chart.toll.unit')} least=${10} series=${[
      { label: t('chart.cpu'), colour: '--series-3', values: history.cpu_microseconds_per_request, fill: true }]} />
    <${Chart} ...${common} title=${t('chart.load')} unit=${t('chart.load.unit')} least=${4} whole=${true} series=${[
      { label: t('chart.inflight'), colour: '--series-2', values: history.in_flight, fill: true }]} />
  </div>`;
}

/// A route's name, or what stands for those without one.
export function routeName(name) {
  return known(`route.${name}`) ? html`<em>${t(`route.${name}`)}</em>` : name;
}

/// A part of failed requests, coloured if there are any.
export function Failing({ part }) {
  return html`<span class=${part >= 0.01 ? 'bad-text' : part > 0 ? 'warn-text' : 'quiet'}>${percent(part)}</span>`;
}

/// Where requests go: the first listener, as this browser can reach it.
function address() {
  const [url = `http://${location.hostname}/`] = state.access?.listen ?? [];
  return url.replace(/\/\/(0\.0\.0\.0|\[::\])(?=:|$)/, `//${location.hostname}`).replace(/([^/])$/, '$1/');
}

function busiest(found) {
  const rows = found.items.filter(({ requests }) => requests > 0);
  const columns = [{ label: t('route') }, { label: t('col.rate'), number: true }, { label: t('col.share'), number: true },
    { label: t('col.errors'), number: true }, { label: t('col.p50'), number: true }, { label: t('col.p99'), number: true }];
  if (rows.length === 0) {
    return html`<${Empty} title=${t('routes.none')}><p>${t('routes.none.more')}</p><pre>curl -i ${address()}</pre>
      <p><a href="#explain">${t('routes.none.explain')}</a></p><//>`;
  }
  return html`<${Table} label=${t('routes.busiest')} columns=${columns} className="cards">
    ${rows.map(({ name, configured, recent: now }) => html`<tr key=${name}>
      <th scope="row" class="name">${configured ? html`<a href=${place('routes', name)}>${name}</a>` : routeName(name)}</th>
      <td class="number" data-label=${t('col.rate')}>${amount(now?.rate)}</td>
      <td class="number share" data-label=${t('col.share')}><${Bar} part=${found.rate > 0 ? (now?.rate ?? 0) / found.rate : 0} /><span>${percent(found.rate > 0 ? (now?.rate ?? 0) / found.rate : 0)}</span></td>
      <td class="number" data-label=${t('col.errors')}><${Failing} part=${now?.errors ?? 0} /></td>
      <td class="number" data-label=${t('col.p50')}>${timeText(now?.p50)}</td>
      <td class="number" data-label=${t('col.p99')}>${timeText(now?.p99)}</td></tr>`)}
  <//>
  ${found.total > rows.length && html`<p class="card-foot"><a href="#routes">${t('routes.count.all', { all: whole(found.total) })}</a></p>`}`;
}

/// An endpoint's state as a pill.
export function Health({ endpoint }) {
  const kind = { available: 'good', unhealthy: 'bad', ejected: 'warn', draining: 'warn' }[endpoint.state] ?? '';
  const text = endpoint.state === 'ejected'
    ? t('endpoint.ejected.for', { age: age(endpoint.ejected_for ?? 0), cause: endpoint.ejection_cause ?? '' })
    : t(`endpoint.${endpoint.state}`);
  return html`<${Pill} kind=${kind}>${text}<//>`;
}

/// An upstream's state as a pill. Grey: the gateway has not contacted it yet.
export function Wellness({ upstream }) {
  const kind = { available: 'good', degraded: 'warn', unavailable: 'bad' }[upstream.state] ?? '';
  const all = Object.values(upstream.states).reduce((sum, count) => sum + count, 0);
  const well = (upstream.states.available ?? 0) + (upstream.states.unknown ?? 0);
  return html`<${Pill} kind=${kind}>${upstream.state === 'unknown' ? t('endpoint.unknown') : t('endpoints.well', { well, all })}<//>`;
}

function health(found) {
  if (found.total === 0) return html`<${Empty} title=${t('upstreams.none')}><${NextStep} kind="upstreams" /><//>`;
  return html`<ul class="health">${found.items.map((upstream) => html`<li key=${upstream.name}>
      <a href=${upstream.configured ? place('upstreams', upstream.name) : `#upstreams?q=${encodeURIComponent(upstream.name)}`}>
      <span class="name">${upstream.name}</span>
      <${Wellness} upstream=${upstream} />
      <span class="quiet nowrap">${amount(upstream.recent?.rate ?? 0)} ${t('tile.requests.unit')}</span></a></li>`)}</ul>
    ${found.total > found.items.length && html`<p class="card-foot"><a href="#upstreams">${t('upstreams.count.all', { all: whole(found.total) })}</a></p>`}`;
}

/// What an upstream's endpoints counted together.
export function totals(upstream) {
  const sum = (key) => upstream.endpoints.reduce((all, endpoint) => all + endpoint[key], 0);
  return { name: upstream.name, requests: sum('requests'), failures: sum('failures'), latency: upstream.latency };
}

function reasons(live) {
  const all = Object.entries(live.reasons).sort((a, b) => b[1] - a[1]);
  if (all.length === 0) return html`<${Empty} title=${t('reasons.none')} />`;
  const most = all[0][1];
  const columns = [{ label: t('reason') }, { label: t('col.count'), number: true }];
  return html`<${Table} label=${t('reasons')} columns=${columns}>${all.slice(0, busy()).map(([name, count]) => html`<tr key=${name}>
    <th scope="row"><code>${name}</code></th>
    <td class="number share"><${Bar} part=${count / most} kind="warn" /><span>${whole(count)}</span></td></tr>`)}<//>`;
}

export function Overview() {
  const { live, history } = state;
  return html`${tiles(live, present(history))}
    ${charts(history)}
    <${GatewayHistory} />
    <div class="columns">
      <div class="column">
        <${Card} id="busiest" title=${t('routes.busiest')} folds><${Polled} url=${`live/routes?sort=rate&limit=${busy()}`}>${busiest}<//><//>
      </div>
      <div class="column">
        <${Card} id="health" title=${t('upstreams')} folds><${Polled} url=${`live/upstreams?sort=state&limit=${busy()}&endpoints=0`}>${health}<//><//>
        <${Card} id="reasons" title=${t('reasons')} folds>${reasons(live)}<//>
      </div>
    </div>`;
}
