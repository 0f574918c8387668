// Every route: what it takes and where it leads, how many requests it carried, how long they took, how many failed.

import { amount, percent, timeText, whole } from '../format.js';
import { Listing } from '../listing.js';
import { recent } from '../live.js';
import { Bar, Empty, html, NextStep, Pill } from '../parts.js';
import { mayWrite, place } from '../resources.js';
import { state } from '../store.js';
import { parts } from '../targets.js';
import { known, t } from '../text.js';
import { Failing, routeName } from './overview.js';
import { NEW, Resource } from './resource.js';

/// Where a route leads, in a few words.
function leadsTo({ action, targets }) {
  if (action !== 'to') return t(`route.${action}`);
  const shares = parts(targets.map((one) => one.weight));
  return targets.map((one, index) => (targets.length === 1 ? one.name : `${one.name}\u00a0${percent(shares[index])}`)).join(' · ');
}

/// A row. A route without counts has `null`, where they may be among those of all others.
function row(route, found) {
  const { name, configured, requests, recent: now } = route;
  const part = found.rate > 0 && now ? now.rate / found.rate : 0;
  const words = configured && `${route.match} → ${leadsTo(route)}`;
  return html`<tr key=${name}>
    <th scope="row" class="name">${configured ? html`<a href=${place('routes', name)}>${name}</a>${route.enabled === false && html` <${Pill} kind="warn">${t('switch.disabled')}<//>`}${route.shadowed_by && html` <${Pill} kind="warn">${t('routes.shadowed', { by: route.shadowed_by })}<//>`}${(route.listeners ?? []).map((listener) => html` <${Pill} kind="">${listener}<//>`)}
      <small class="two-lines" title=${words}>${route.match} <span aria-hidden="true">→</span> ${leadsTo(route)}</small>` : routeName(name)}</th>
    <td class="number" data-label=${t('col.rate')}>${amount(now?.rate ?? (requests === null ? null : 0))}</td>
    <td class="number share" data-label=${t('col.share')}><${Bar} part=${part} /><span>${percent(part)}</span></td>
    <td class="number" data-label=${t('col.errors')}><${Failing} part=${now?.errors ?? 0} /></td>
    <td class="number" data-label=${t('col.p50')}>${timeText(now?.p50)}</td>
    <td class="number" data-label=${t('col.p99')}>${timeText(now?.p99)}</td>
    <td class="number" data-label=${t('col.total')}>${requests === null ? '–' : whole(requests)}</td></tr>`;
}

function All() {
  const anew = mayWrite() && html`<a class="button primary" href=${`#routes/${NEW}`}>${t('new.routes')}</a>`;
  const columns = [{ key: 'name', label: t('route') }, { key: 'rate', label: t('col.rate'), number: true }, { label: t('col.share'), number: true },
    { key: 'errors', label: t('col.errors'), number: true }, { key: 'p50', label: t('col.p50'), number: true },
    { key: 'p99', label: t('col.p99'), number: true }, { key: 'requests', label: t('col.total'), number: true }];
  const states = [['failing', t('routes.state.failing')], ['active', t('routes.state.active')], ['idle', t('routes.state.idle')],
    ['disabled', t('routes.state.disabled')]];
  const empty = html`<${Empty} title=${t('routes.unconfigured')}><${NextStep} kind="routes" /><//>`;
  return html`<${Listing} id="routes" title=${t('routes.all')} path="live/routes" columns=${columns} fallback=${{ sort: 'requests', order: 'desc' }}
    states=${states} row=${row} empty=${empty} more=${anew} className="routes"
    counted=${(found, total, narrowed) => (narrowed ? t('routes.count', { shown: found, all: total }) : t('routes.count.all', { all: total }))}
    hint=${t('routes.filter.hint')} filterLabel=${t('routes.filter')} />`;
}

/// What a route has carried, above its configuration.
function Figures({ name }) {
  const found = state.live.routes.find((route) => route.name === name);
  if (!found || known(`route.${name}`)) return null;
  const now = recent((one) => one.routes, 'name')(found);
  const fact = (label, value) => html`<div><dt>${label}</dt><dd>${value}</dd></div>`;
  return html`<dl class="facts card">
    ${fact(t('col.rate'), amount(now?.rate))}${fact(t('col.errors'), html`<${Failing} part=${now?.errors ?? 0} />`)}
    ${fact(t('col.p50'), timeText(now?.p50))}${fact(t('col.p99'), timeText(now?.p99))}${fact(t('col.total'), whole(found.requests))}</dl>`;
}

export function Routes({ detail }) {
  if (!detail) return html`<${All} />`;
  return html`<${Resource} key=${detail} kind="routes" name=${detail}><${Figures} name=${detail} /><//>`;
}
