// Every upstream and its endpoints: health, connections, requests.

import { amount, percent, timeText, whole } from '../format.js';
import { recent } from '../live.js';
import { Card, Component, Empty, html, Pill, Table } from '../parts.js';
import { state } from '../store.js';
import { t } from '../text.js';
import { Failing, Health, totals } from './overview.js';

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

function One({ upstream, now, endpoints }) {
  const columns = [{ label: t('endpoint') }, { label: t('col.state') }, { label: t('col.weight'), number: true },
    { label: t('col.connections'), number: true }, { label: t('col.rate'), number: true }, { label: t('col.failures'), number: true },
    { label: t('col.total'), number: true }];
  const id = `upstream-${upstream.name}`;
  return html`<${Card} id=${id} title=${upstream.name} wide more=${html`
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

export class Upstreams extends Component {
  componentDidMount() {
    const name = state.detail;
    if (name) document.getElementById(`upstream-${name}`)?.scrollIntoView();
  }

  render() {
    const { live } = state;
    if (live.upstreams.length === 0) return html`<${Empty} title=${t('upstreams.none')} />`;
    const since = recent((one) => one.upstreams.map(totals), 'name');
    const endpoints = recent((one) => one.upstreams.flatMap((upstream) => upstream.endpoints.map((endpoint) => (
      { ...endpoint, key: `${upstream.name}\n${endpoint.address}` }))), 'key');
    return html`${live.upstreams.map((upstream) => html`<${One} key=${upstream.name} upstream=${upstream} now=${since(totals(upstream))} endpoints=${endpoints} />`)}
      ${live.upstreams_left_out > 0 && html`<p class="quiet">${t('upstreams.more', { n: whole(live.upstreams_left_out) })}</p>`}`;
  }
}
