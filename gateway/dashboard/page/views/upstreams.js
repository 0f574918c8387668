// Every upstream and its endpoints: health, connections, requests. One of them also with its configuration.

import { amount, percent, timeText, whole } from '../format.js';
import { recent } from '../live.js';
import { Card, Component, Empty, html, Pill, Table } from '../parts.js';
import { list, mayWrite, place } from '../resources.js';
import { state } from '../store.js';
import { t } from '../text.js';
import { Failing, Health, totals } from './overview.js';
import { NEW, Resource } from './resource.js';

/// Upstreams whose names are asked for.
const ASKED = 1000;

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

/// `named`: it has a page of its own.
function One({ upstream, now, endpoints, named }) {
  const columns = [{ label: t('endpoint') }, { label: t('col.state') }, { label: t('col.weight'), number: true },
    { label: t('col.connections'), number: true }, { label: t('col.rate'), number: true }, { label: t('col.failures'), number: true },
    { label: t('col.total'), number: true }];
  const id = `upstream-${upstream.name}`;
  return html`<${Card} id=${id} title=${named ? html`<a href=${place('upstreams', upstream.name)}>${upstream.name}</a>` : upstream.name} wide more=${html`
      ${upstream.breaker_open && html`<${Pill} kind="bad">${t('upstream.breaker')}<//>`}
      ${upstream.adaptive && html`<span class="quiet">${t('upstream.adaptive', { n: upstream.adaptive.limit, used: upstream.adaptive.in_flight })}</span>`}`}>
    ${facts(upstream, now)}
    ${upstream.lookup_problem && html`<p class="alert warn">${t('upstream.lookup', { why: upstream.lookup_problem })}</p>`}
    <${Table} label=${upstream.name} columns=${columns} className="endpoints">${upstream.endpoints.map((endpoint) => {
      const last = endpoints({ ...endpoint, key: `${upstream.name}\n${endpoint.address}` });
      return html`<tr key=${endpoint.address}>
        <th scope="row" class="name"><code>${endpoint.address}</code>
          ${(endpoint.priority > 0 || endpoint.zone) && html`<small>${endpoint.priority > 0 ? t('endpoint.priority', { n: endpoint.priority }) : ''} ${endpoint.zone ?? ''}</small>`}</th>
        <td><${Health} endpoint=${endpoint} />${endpoint.problem && html`<small class="bad-text">${endpoint.problem}</small>`}</td>
        <td class="number">${whole(endpoint.weight)}</td>
        <td class="number">${whole(endpoint.connections)}</td>
        <td class="number">${amount(last?.rate)}</td>
        <td class="number"><${Failing} part=${last?.errors ?? 0} /></td>
        <td class="number">${whole(endpoint.requests)}</td></tr>`;
    })}<//>
    ${upstream.endpoints_left_out > 0 && html`<p class="quiet">${t('endpoints.more', { n: whole(upstream.endpoints_left_out) })}</p>`}
  <//>`;
}

const KEY = (upstream, endpoint) => `${upstream.name}\n${endpoint.address}`;

/// What happened to each upstream and each endpoint in the last seconds.
function lately() {
  const endpoints = recent((one) => one.upstreams.flatMap((upstream) => upstream.endpoints.map((endpoint) => (
    { ...endpoint, key: KEY(upstream, endpoint) }))), 'key');
  return { since: recent((one) => one.upstreams.map(totals), 'name'), endpoints };
}

class All extends Component {
  constructor() {
    super();
    this.state = { names: new Set() };
  }

  componentDidMount() {
    this.load();
  }

  componentDidUpdate() {
    if (state.live?.generation !== this.generation) this.load();
  }

  /// Upstreams that are written in place, within a route, have a name here and none in the configuration.
  async load() {
    this.generation = state.live?.generation;
    const found = await list('upstreams', ASKED).catch(() => null);
    if (found) this.setState({ names: new Set(found.items.map((item) => item.name)) });
  }

  render(_, { names }) {
    const { live } = state;
    const { since, endpoints } = lately();
    const idle = [...names].filter((name) => !live.upstreams.some((upstream) => upstream.name === name));
    return html`<div class="heading"><h2>${t('upstreams')}</h2>
        ${mayWrite() && html`<a class="button primary" href=${`#upstreams/${NEW}`}>${t('new.upstreams')}</a>`}</div>
      ${live.upstreams.length === 0 && html`<${Empty} title=${t('upstreams.none')} />`}
      ${live.upstreams.map((upstream) => html`<${One} key=${upstream.name} upstream=${upstream} now=${since(totals(upstream))}
        endpoints=${endpoints} named=${names.has(upstream.name)} />`)}
      ${idle.length > 0 && html`<p class="quiet">${idle.map((name) => html`<a href=${place('upstreams', name)}>${name}</a> `)}</p>`}
      ${live.upstreams_left_out > 0 && html`<p class="quiet">${t('upstreams.more', { n: whole(live.upstreams_left_out) })}</p>`}`;
  }
}

export function Upstreams({ detail }) {
  if (!detail) return html`<${All} />`;
  const upstream = state.live.upstreams.find((one) => one.name === detail);
  const { since, endpoints } = lately();
  return html`<${Resource} key=${detail} kind="upstreams" name=${detail}>
    ${upstream && html`<${One} upstream=${upstream} now=${since(totals(upstream))} endpoints=${endpoints} />`}<//>`;
}
