// Every route that carried a request: how many, how long, how many failed.

import { amount, percent, timeText, whole } from '../format.js';
import { recent } from '../live.js';
import { Bar, Card, Component, Empty, html, Table } from '../parts.js';
import { state } from '../store.js';
import { known, t } from '../text.js';
import { Failing, routeName } from './overview.js';

/// Rows at once: a browser draws them every second.
const ROWS = 200;

const ORDERS = {
  name: (a, b) => a.route.name.localeCompare(b.route.name),
  rate: (a, b) => (b.now?.rate ?? 0) - (a.now?.rate ?? 0),
  errors: (a, b) => (b.now?.errors ?? 0) - (a.now?.errors ?? 0),
  p50: (a, b) => (b.now?.p50 ?? 0) - (a.now?.p50 ?? 0),
  p99: (a, b) => (b.now?.p99 ?? 0) - (a.now?.p99 ?? 0),
  total: (a, b) => b.route.requests - a.route.requests,
};

export class Routes extends Component {
  constructor() {
    super();
    this.state = { filter: '', order: 'total' };
  }

  column(key, label) {
    const chosen = this.state.order === key;
    const button = html`<button type="button" class="sort" onClick=${() => this.setState({ order: key })}>${label}<span aria-hidden="true">${chosen ? ' ▾' : ''}</span></button>`;
    return { label, button, number: key !== 'name', sort: chosen ? (key === 'name' ? 'ascending' : 'descending') : undefined };
  }

  render(_, { filter, order }) {
    const { live } = state;
    const since = recent((one) => one.routes, 'name');
    const all = live.routes.map((route) => ({ route, now: since(route) }));
    const sum = all.reduce((total, { now }) => total + (now?.rate ?? 0), 0);
    const wanted = filter.trim().toLowerCase();
    const fitting = all.filter(({ route }) => route.name.toLowerCase().includes(wanted)).sort(ORDERS[order]);
    const columns = [this.column('name', t('route')), this.column('rate', t('col.rate')), { label: t('col.share'), number: true },
      this.column('errors', t('col.errors')), this.column('p50', t('col.p50')), this.column('p99', t('col.p99')), this.column('total', t('col.total'))];
    const search = html`<label class="filter"><span class="hidden">${t('routes.filter')}</span>
      <input type="search" placeholder=${t('routes.filter')} value=${filter} onInput=${(event) => this.setState({ filter: event.currentTarget.value })} /></label>`;
    const count = html`<span class="quiet nowrap">${t('routes.count', { shown: whole(all.filter(({ route }) => !known(`route.${route.name}`)).length), all: whole(live.configured_routes) })}</span>`;
    return html`<${Card} id="routes" title=${t('routes.all')} wide more=${html`${count}${search}`}>
      ${all.length === 0 ? html`<${Empty} title=${t('routes.none')} />`
        : fitting.length === 0 ? html`<${Empty} title=${t('routes.nomatch', { text: filter })} />`
          : html`<${Table} label=${t('routes.all')} columns=${columns}>${fitting.slice(0, ROWS).map(({ route, now }) => html`<tr key=${route.name}>
            <th scope="row" class="name">${routeName(route.name)}</th>
            <td class="number">${amount(now?.rate)}</td>
            <td class="number share"><${Bar} part=${sum > 0 ? (now?.rate ?? 0) / sum : 0} /><span>${percent(sum > 0 ? (now?.rate ?? 0) / sum : 0)}</span></td>
            <td class="number"><${Failing} part=${now?.errors ?? 0} /></td>
            <td class="number">${timeText(now?.p50)}</td>
            <td class="number">${timeText(now?.p99)}</td>
            <td class="number">${whole(route.requests)}</td></tr>`)}<//>`}
      ${fitting.length > ROWS && html`<p class="quiet">${t('routes.limit', { n: ROWS })}</p>`}
    <//>`;
  }
}
