// Every route: what it takes and where it leads, how many requests it carried, how long they took, how many failed.

import { amount, percent, timeText, whole } from '../format.js';
import { recent } from '../live.js';
import { Bar, Card, Component, Empty, html, Table } from '../parts.js';
import { list, mayWrite, place } from '../resources.js';
import { state } from '../store.js';
import { parts, targets } from '../targets.js';
import { known, t } from '../text.js';
import { Failing, routeName } from './overview.js';
import { NEW, Resource } from './resource.js';

/// Rows at once: a browser draws them every second.
const ROWS = 200;
/// Routes that are asked for; of more, those that a filter leaves.
const ASKED = 500;

const ORDERS = {
  name: (a, b) => a.name.localeCompare(b.name),
  rate: (a, b) => (b.now?.rate ?? 0) - (a.now?.rate ?? 0),
  errors: (a, b) => (b.now?.errors ?? 0) - (a.now?.errors ?? 0),
  p50: (a, b) => (b.now?.p50 ?? 0) - (a.now?.p50 ?? 0),
  p99: (a, b) => (b.now?.p99 ?? 0) - (a.now?.p99 ?? 0),
  total: (a, b) => (b.live?.requests ?? 0) - (a.live?.requests ?? 0) || a.name.localeCompare(b.name),
};

const text = (value) => (typeof value === 'string' ? value : JSON.stringify(value));

/// A match in a few words: what of it is most telling first.
function matchText(match) {
  if (match === undefined) return '*';
  if (typeof match === 'string') return match;
  const { method, host = '', path, grpc, ...others } = match;
  const where = typeof path === 'object' ? Object.values(path)[0] : path ?? (grpc ? text(grpc) : '/*');
  const more = Object.entries(others).map(([key, value]) => `${key} ${text(value)}`);
  return [...[method ?? []].flat(), `${host}${where}`, ...more].join(' ');
}

/// Where a route leads, in a few words.
function leadsTo(value) {
  if (value.redirect !== undefined) return t('route.redirect');
  if (value.respond !== undefined) return t('route.respond');
  if (value.files !== undefined) return t('route.files', { root: typeof value.files === 'string' ? value.files : value.files.root });
  const all = targets('routes', value);
  const shares = parts(all.map((one) => one.weight));
  return all.map((one, index) => (all.length === 1 ? one.name : `${one.name} ${percent(shares[index])}`)).join(' · ');
}

/// All that is known of routes: the configuration's, and what was counted under names that it does not have.
function rows(items, live) {
  const since = recent((one) => one.routes, 'name');
  const counted = new Map(live.routes.map((route) => [route.name, route]));
  const one = (name, item) => {
    const found = counted.get(name);
    counted.delete(name);
    return { name, item, live: found, now: found && since(found) };
  };
  const configured = items.map((item) => one(item.name, item));
  return [...configured, ...[...counted.keys()].map((name) => one(name, null))];
}

function Row({ row, sum }) {
  const { name, item, live, now } = row;
  const part = sum > 0 ? (now?.rate ?? 0) / sum : 0;
  return html`<tr>
    <th scope="row" class="name">${item ? html`<a href=${place('routes', name)}>${name}</a>
      <small>${matchText(item.value.match)} <span aria-hidden="true">→</span> ${leadsTo(item.value)}</small>` : routeName(name)}</th>
    <td class="number">${amount(now?.rate ?? 0)}</td>
    <td class="number share"><${Bar} part=${part} /><span>${percent(part)}</span></td>
    <td class="number"><${Failing} part=${now?.errors ?? 0} /></td>
    <td class="number">${timeText(now?.p50)}</td>
    <td class="number">${timeText(now?.p99)}</td>
    <td class="number">${whole(live?.requests ?? 0)}</td></tr>`;
}

class All extends Component {
  constructor() {
    super();
    this.state = { filter: '', order: 'total', found: null };
  }

  componentDidMount() {
    this.load();
  }

  componentDidUpdate(_, before) {
    const { filter, found } = this.state;
    const asksAgain = filter !== before.filter && found && found.total > ASKED;
    if (asksAgain || state.live?.generation !== this.generation) this.load();
  }

  async load() {
    this.generation = state.live?.generation;
    const { filter } = this.state;
    const found = await list('routes', ASKED, filter.trim()).catch(() => null);
    // Of several answers that of the last question counts.
    if (found && filter === this.state.filter) this.setState({ found });
  }

  column(key, label) {
    const chosen = this.state.order === key;
    const button = html`<button type="button" class="sort" onClick=${() => this.setState({ order: key })}>${label}<span aria-hidden="true">${chosen ? ' ▾' : ''}</span></button>`;
    return { label, button, number: key !== 'name', sort: chosen ? (key === 'name' ? 'ascending' : 'descending') : undefined };
  }

  render(_, { filter, order, found }) {
    const all = rows(found?.items ?? [], state.live);
    const sum = all.reduce((total, { now }) => total + (now?.rate ?? 0), 0);
    const wanted = filter.trim().toLowerCase();
    const holds = ({ name, item }) => `${name} ${item ? `${matchText(item.value.match)} ${leadsTo(item.value)}` : ''}`.toLowerCase().includes(wanted);
    const fitting = all.filter(holds).sort(ORDERS[order]);
    const columns = [this.column('name', t('route')), this.column('rate', t('col.rate')), { label: t('col.share'), number: true },
      this.column('errors', t('col.errors')), this.column('p50', t('col.p50')), this.column('p99', t('col.p99')), this.column('total', t('col.total'))];
    const search = html`<label class="filter"><span class="hidden">${t('routes.filter')}</span>
      <input type="search" placeholder=${t('routes.filter.hint')} value=${filter} onInput=${(event) => this.setState({ filter: event.currentTarget.value })} /></label>`;
    const configured = fitting.filter(({ item }) => item).length;
    const count = html`<span class="quiet nowrap" role="status">${t('routes.count', { shown: whole(configured), all: whole(state.live.configured_routes) })}</span>`;
    const anew = mayWrite() && html`<a class="button primary" href=${`#routes/${NEW}`}>${t('new.routes')}</a>`;
    return html`<${Card} id="routes" title=${t('routes.all')} wide more=${html`${count}${search}${anew}`}>
      ${all.length === 0 ? html`<${Empty} title=${t('routes.none')} />`
        : fitting.length === 0 ? html`<${Empty} title=${t('routes.nomatch', { text: filter })} />`
          : html`<${Table} label=${t('routes.all')} columns=${columns} className="routes">${fitting.slice(0, ROWS).map((row) => html`<${Row} key=${row.name} row=${row} sum=${sum} />`)}<//>`}
      ${(fitting.length > ROWS || found?.total > ASKED) && html`<p class="quiet card-foot">${t('routes.limit', { n: ROWS })}</p>`}
    <//>`;
  }
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
