// Every upstream as a row, which unfolds to its endpoints: health, connections, requests. One of them also with its
// configuration.

import { amount, percent, timeText, whole } from '../format.js';
import { amend, Listing } from '../listing.js';
import { recent } from '../live.js';
import { Card, Empty, html, NextStep, Pill, Table } from '../parts.js';
import { mayWrite, place } from '../resources.js';
import { state } from '../store.js';
import { t } from '../text.js';
import { Failing, Health, totals, Wellness } from './overview.js';
import { NEW, Resource } from './resource.js';

/// Up to so many upstreams are unfolded from the start.
const FEW = 3;
/// Endpoints of an unfolded row; its own page has all.
const SHOWN = 15;

function facts(upstream, now) {
  const all = upstream.reused + upstream.opened;
  const fact = (label, value) => html`<div><dt>${label}</dt><dd>${value}</dd></div>`;
  return html`<dl class="facts">
    ${fact(t('col.rate'), amount(now?.rate))}
    ${fact('p50', timeText(now?.p50))}
    ${fact('p99', timeText(now?.p99))}
    ${fact(t('upstream.active'), whole(upstream.active))}
    ${fact(t('upstream.idle'), whole(upstream.idle))}
    ${upstream.waiting > 0 && fact(t('upstream.waiting'), whole(upstream.waiting))}
    ${fact(t('upstream.reuse'), all > 0 ? percent(upstream.reused / all) : '–')}
    ${upstream.retries > 0 && fact(t('upstream.retries'), whole(upstream.retries))}
  </dl>`;
}

/// The endpoints; `recently` gives what an endpoint did in the last seconds.
function Endpoints({ upstream, recently }) {
  const columns = [{ label: t('endpoint') }, { label: t('col.state') }, { label: t('col.weight'), number: true },
    { label: t('col.connections'), number: true }, { label: t('col.rate'), number: true }, { label: t('col.failures'), number: true },
    { label: t('col.total'), number: true }];
  return html`<${Table} label=${t('endpoints.of', { name: upstream.name })} columns=${columns} className="endpoints cards">${upstream.endpoints.map((endpoint) => {
    const last = recently(endpoint);
    return html`<tr key=${endpoint.address}>
      <th scope="row" class="name"><code>${endpoint.address}</code>
        ${(endpoint.priority > 0 || endpoint.zone) && html`<small>${endpoint.priority > 0 ? t('endpoint.priority', { n: endpoint.priority }) : ''} ${endpoint.zone ?? ''}</small>`}</th>
      <td class="wide-cell"><${Health} endpoint=${endpoint} />${endpoint.problem && html`<small class="bad-text">${endpoint.problem}</small>`}</td>
      <td class="number" data-label=${t('col.weight')}>${whole(endpoint.weight)}</td>
      <td class="number" data-label=${t('col.connections')}>${whole(endpoint.connections)}</td>
      <td class="number" data-label=${t('col.rate')}>${amount(last?.rate)}</td>
      <td class="number" data-label=${t('col.failures')}><${Failing} part=${last?.errors ?? 0} /></td>
      <td class="number" data-label=${t('col.total')}>${whole(endpoint.requests)}</td></tr>`;
  })}<//>`;
}

/// What is to be said of an upstream besides its figures.
function Notes({ upstream }) {
  return html`
    ${upstream.breaker_open && html`<${Pill} kind="bad">${t('upstream.breaker')}<//>`}
    ${upstream.adaptive && html`<span class="quiet">${t('upstream.adaptive', { n: upstream.adaptive.limit, used: upstream.adaptive.in_flight })}</span>`}`;
}

function LookupProblem({ upstream }) {
  return upstream.lookup_problem && html`<p class="alert warn">${t('upstream.lookup', { why: upstream.lookup_problem })}</p>`;
}

/// An upstream on its own page.
function One({ upstream }) {
  const key = (of, endpoint) => `${of.name}\n${endpoint.address}`;
  const endpoints = recent((one) => one.upstreams.flatMap((of) => of.endpoints.map((endpoint) => ({ ...endpoint, key: key(of, endpoint) }))), 'key');
  const now = recent((one) => one.upstreams.map(totals), 'name')(totals(upstream));
  return html`<${Card} id=${`upstream-${upstream.name}`} title=${upstream.name} wide more=${html`<${Notes} upstream=${upstream} />`}>
    ${facts(upstream, now)}
    <${LookupProblem} upstream=${upstream} />
    <div class="tall"><${Endpoints} upstream=${upstream} recently=${(endpoint) => endpoints({ ...endpoint, key: key(upstream, endpoint) })} /></div>
    ${upstream.endpoints_left_out > 0 && html`<p class="quiet card-foot">${t('endpoints.more', { n: whole(upstream.endpoints_left_out) })}</p>`}
  <//>`;
}

/// The names of the unfolded rows; null: as it is from the start.
const unfolded = () => (state.query.open === undefined ? null : state.query.open.split('\n').filter((name) => name !== ''));

function isOpen(name, found) {
  const names = unfolded();
  return names === null ? found.total <= FEW : names.includes(name);
}

function row(upstream, found) {
  const { name, configured, recent: now, requests } = upstream;
  const open = isOpen(name, found);
  const toggle = () => {
    const names = unfolded() ?? found.items.map((one) => one.name).filter((one) => isOpen(one, found));
    amend({ open: (open ? names.filter((one) => one !== name) : [...names, name]).join('\n') || '\n' });
  };
  const id = `upstream-${name}`;
  return html`<tr key=${name} id=${id} class=${open ? 'open' : ''}>
      <th scope="row" class="name"><button type="button" class="unfold" aria-expanded=${open ? 'true' : 'false'} aria-label=${t('upstream.unfold', { name })} onClick=${toggle}>
        <span aria-hidden="true">${open ? '▾' : '▸'}</span></button>
        ${configured ? html`<a href=${place('upstreams', name)}>${name}</a>` : name}</th>
      <td class="wide-cell"><${Wellness} upstream=${upstream} /></td>
      <td class="number" data-label=${t('col.rate')}>${amount(now?.rate ?? 0)}</td>
      <td class="number" data-label=${t('col.failures')}><${Failing} part=${now?.errors ?? 0} /></td>
      <td class="number" data-label=${t('col.p99')}>${timeText(now?.p99)}</td>
      <td class="number" data-label=${t('col.connections')}>${whole(upstream.active + upstream.idle)}</td>
      <td class="number" data-label=${t('col.total')}>${whole(requests)}</td></tr>
    ${open && html`<tr key=${`${name}\n`} class="unfolded"><td colspan="7">
      <div class="notes"><${Notes} upstream=${upstream} /></div>
      ${facts(upstream, now)}
      <${LookupProblem} upstream=${upstream} />
      ${upstream.endpoints.length > 0 && html`<${Endpoints} upstream=${upstream} recently=${(endpoint) => endpoint.recent} />`}
      ${upstream.endpoints_left_out > 0 && html`<p class="quiet more-endpoints">${t('endpoints.more', { n: whole(upstream.endpoints_left_out) })}
        ${configured && html` <a href=${place('upstreams', name)}>${t('endpoints.all')}</a>`}</p>`}</td></tr>`}`;
}

function All() {
  const columns = [{ key: 'name', label: t('upstream') }, { key: 'state', label: t('col.state') }, { key: 'rate', label: t('col.rate'), number: true },
    { key: 'errors', label: t('col.failures'), number: true }, { key: 'p99', label: t('col.p99'), number: true },
    { key: 'connections', label: t('col.connections'), number: true }, { key: 'requests', label: t('col.total'), number: true }];
  const states = ['unhealthy', 'unknown', 'available'].map((name) => [name, t(`upstreams.state.${name}`)]);
  const anew = mayWrite() && html`<a class="button primary" href=${`#upstreams/${NEW}`}>${t('new.upstreams')}</a>`;
  const empty = html`<${Empty} title=${t('upstreams.none')}><${NextStep} kind="upstreams" /><//>`;
  const names = unfolded();
  return html`<${Listing} id="upstreams" title=${t('upstreams')} path="live/upstreams" columns=${columns} fallback=${{ sort: 'state', order: 'asc' }}
    states=${states} row=${row} empty=${empty} more=${anew} className="upstreams"
    extra=${`&endpoints=${names === null || names.length > 0 ? SHOWN : 0}`}
    counted=${(found, total, narrowed) => (narrowed ? t('upstreams.count', { shown: found, all: total }) : t('upstreams.count.all', { all: total }))}
    hint=${t('upstreams.filter.hint')} filterLabel=${t('upstreams.filter')} />`;
}

export function Upstreams({ detail }) {
  if (!detail) return html`<${All} />`;
  const upstream = state.live.upstreams.find((one) => one.name === detail);
  return html`<${Resource} key=${detail} kind="upstreams" name=${detail}>
    ${upstream && html`<${One} upstream=${upstream} />`}<//>`;
}
