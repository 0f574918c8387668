// What is used and how much there may be: clients' connections, pools, limits, means, and what a request costs.

import { amount, bytes, decimal, percent, whole } from '../format.js';
import { Listing } from '../listing.js';
import { recent } from '../live.js';
import { Bar, Card, Empty, html, NextStep, Pill, Table } from '../parts.js';
import { place } from '../resources.js';
import { state } from '../store.js';
import { t } from '../text.js';

/// From this part of a limit on it is marked.
const NEAR = 0.8;

/// How much of a limit is used, and the limit itself.
function Used({ used, limit, show = whole }) {
  if (limit === null || limit === undefined) return html`${show(used)} <span class="quiet">${t('limit.none')}</span>`;
  const part = limit > 0 ? used / limit : 1;
  return html`<${Bar} part=${part} kind=${part >= NEAR ? 'warn' : ''} />${show(used)} <span class="quiet">${t('limit.of', { n: show(limit) })}</span>`;
}

const size = (value) => bytes(value).join('\u00a0');

function Facts({ rows }) {
  return html`<dl class="list">${rows.filter(Boolean).map(([label, value]) => html`<div><dt>${label}</dt><dd>${value}</dd></div>`)}</dl>`;
}

function clients({ clients: { open, opened, rejected, limit }, requests }) {
  const protocols = Object.entries(requests.protocols).sort((a, b) => b[1] - a[1]);
  return html`<${Facts} rows=${[
    [t('clients.open'), html`<${Used} used=${open} limit=${limit} />`],
    [t('clients.opened'), whole(opened)],
    [t('clients.rejected'), html`<span class=${rejected > 0 ? 'bad-text' : ''}>${whole(rejected)}</span>`],
    [t('tile.inflight'), whole(requests.in_flight)],
    ...protocols.map(([name, count]) => [t('clients.protocol', { name }), whole(count)]),
    [t('clients.in'), size(requests.bytes_in)],
    [t('clients.out'), size(requests.bytes_out)],
  ]} />`;
}

function cost({ cost: { cores, cores_used: used, cpu_microseconds_per_request: toll, requests_per_second: rate, ceiling, headroom } }) {
  const known = (value, show) => (value === null ? t('tile.toll.unknown') : show(value));
  const rates = (value) => `${amount(Math.floor(value))}${t('tile.requests.unit')}`;
  return html`<${Facts} rows=${[
    [t('tile.toll'), known(toll, (value) => `${decimal(value, 1)}\u00a0${t('tile.toll.unit')}`)],
    [t('cost.cores'), html`<${Used} used=${used ?? 0} limit=${cores} show=${(value) => decimal(value, Number.isInteger(value) ? 0 : 2)} />`],
    [t('tile.requests'), known(rate, rates)],
    [t('cost.ceiling'), known(ceiling, rates)],
    [t('tile.headroom'), known(headroom, rates)],
  ]} />`;
}

function means({ resources: { memory, memory_bound: bound, files, files_bound: most, shed } }) {
  return html`<${Facts} rows=${[
    memory !== null && [t('tile.memory'), html`<${Used} used=${memory} limit=${bound} show=${size} />`],
    files !== null && [t('means.files'), html`<${Used} used=${files} limit=${most} />`],
    [t('means.shed'), shed.length > 0 ? html`<span class="bad-text">${shed.join(', ')}</span>` : t('means.shed.none')],
  ]} />`;
}

function pool(upstream) {
  const { name, configured, active, idle, waiting, opened, reused, retries, limits, adaptive, breaker_open: open } = upstream;
  const all = opened + reused;
  const other = [
    limits.endpoint_connections !== null && t('limit.endpoint', { n: whole(limits.endpoint_connections) }),
    limits.requests !== null && t('limit.requests', { n: whole(limits.requests) }),
    adaptive && t('upstream.adaptive', { n: adaptive.limit, used: adaptive.in_flight }),
  ].filter(Boolean);
  return html`<tr key=${name}>
    <th scope="row" class="name">${configured ? html`<a href=${place('upstreams', name)}>${name}</a>` : name}</th>
    <td class="number" data-label=${t('col.connections')}><${Used} used=${active + idle} limit=${limits.connections} /></td>
    <td class="number" data-label=${t('upstream.active')}>${whole(active)}</td><td class="number" data-label=${t('upstream.idle')}>${whole(idle)}</td>
    <td class="number" data-label=${t('upstream.waiting')}><span class=${waiting > 0 ? 'warn-text' : ''}>${whole(waiting)}</span></td>
    <td class="number" data-label=${t('upstream.reuse')}>${all > 0 ? percent(reused / all) : '–'}</td><td class="number" data-label=${t('upstream.retries')}>${whole(retries)}</td>
    <td class="wide-cell">${open && html`<${Pill} kind="bad">${t('upstream.breaker')}<//> `}${other.length > 0 ? other.join(' · ') : html`<span class="quiet">${t('limit.none')}</span>`}</td></tr>`;
}

function Pools() {
  const columns = [{ key: 'name', label: t('upstream') }, { key: 'connections', label: t('col.connections'), number: true }, { label: t('upstream.active'), number: true },
    { label: t('upstream.idle'), number: true }, { key: 'waiting', label: t('upstream.waiting'), number: true }, { label: t('upstream.reuse'), number: true },
    { label: t('upstream.retries'), number: true }, { label: t('limits') }];
  const empty = html`<${Empty} title=${t('upstreams.none')}><${NextStep} kind="upstreams" /><//>`;
  return html`<${Listing} id="pools" few=${8} prefix="pools-" title=${t('pools')} path="live/upstreams" extra="&endpoints=0" columns=${columns}
    fallback=${{ sort: 'connections', order: 'desc' }} row=${pool} empty=${empty}
    counted=${(found, total, narrowed) => (narrowed ? t('upstreams.count', { shown: found, all: total }) : t('upstreams.count.all', { all: total }))}
    hint=${t('upstreams.filter.hint')} filterLabel=${t('upstreams.filter')} />`;
}

function workers(live) {
  const one = (worker, index) => ({ ...worker, name: index, failures: 0 });
  const since = recent((document) => document.workers.map(one), 'name');
  const columns = [{ label: t('workers') }, { label: t('col.rate'), number: true }, { label: t('col.inflight'), number: true },
    { label: t('col.clients'), number: true }];
  return html`<${Table} label=${t('workers')} columns=${columns}>${live.workers.map((worker, index) => html`<tr key=${index}>
    <th scope="row">${t('worker', { n: index })}</th>
    <td class="number">${amount(since(one(worker, index))?.rate)}</td>
    <td class="number">${whole(worker.in_flight)}</td><td class="number">${whole(worker.clients)}</td></tr>`)}<//>`;
}

export function Capacity() {
  const { live } = state;
  return html`<div class="thirds">
      <${Card} id="cost" title=${t('cost')} folds>${cost(live)}<//>
      <${Card} id="clients" title=${t('clients')} folds>${clients(live)}<//>
      <${Card} id="means" title=${t('means')} folds>${means(live)}<//>
    </div>
    <${Pools} />
    <${Card} id="workers" title=${t('workers')} wide folds><div class="tall">${workers(live)}</div><//>`;
}
