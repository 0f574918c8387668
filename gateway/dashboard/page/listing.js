// Lists that the gateway sorts, filters and pages. The page asks for one page of rows at a time, and the address keeps the
// page, the order and the filter: `#routes?sort=p99&q=shop&page=2`.

import { call } from './api.js';
import { whole } from './format.js';
import { Card, Component, Empty, html, narrow, Table } from './parts.js';
import { set, state } from './store.js';
import { t } from './text.js';

/// Rows of a page, or fewer where it is narrow: at most 2,000 pixels, on a telephone too, where a row is a card.
export const rowsOf = (wide, few) => (narrow.matches ? few : wide);

/// Query parameters without the empty ones.
const given = (query) => Object.fromEntries(Object.entries(query).filter(([, value]) => (value ?? '') !== ''));

/// The address of a view with these query parameters; empty ones are left out.
export function address(view, query) {
  const text = new URLSearchParams(given(query)).toString();
  return `#${view}${text ? `?${text}` : ''}`;
}

/// Changes the query of the present view without an entry in the browser's history: for text that is typed.
export function amend(changes) {
  const query = given({ ...state.query, ...changes });
  history.replaceState(null, '', address(state.view, query));
  set({ query });
}

/// Asks for something whenever the figures of the page are new, and gives the answer to the function that is its child.
/// One request is under way at a time.
export class Polled extends Component {
  constructor() {
    super();
    this.state = { found: null, problem: null };
  }

  componentDidMount() {
    this.load();
  }

  componentDidUpdate() {
    const { url, still } = this.props;
    const due = still ? state.live?.generation !== this.generation : state.live !== this.live;
    if (url !== this.asked || due) this.load();
  }

  async load() {
    this.asked = this.props.url;
    this.live = state.live;
    this.generation = state.live?.generation;
    this.again = true;
    if (this.busy) return;
    this.busy = true;
    while (this.again) {
      this.again = false;
      const { asked } = this;
      try {
        const { body } = await call(asked);
        if (asked === this.asked) this.setState({ found: body, problem: null });
      } catch (problem) {
        if (asked === this.asked) this.setState({ problem });
      }
    }
    this.busy = false;
  }

  render({ children }, { found, problem }) {
    if (found) return children(found);
    return problem ? html`<${Empty} title=${t('failed', { why: problem.message })} />` : html`<p class="empty">${t('loading')}</p>`;
  }
}

/// What the address says of a list. `fallback`: `{ sort, order }` where it says nothing.
function question(prefix, fallback) {
  const of = (name) => state.query[`${prefix}${name}`];
  return {
    q: of('q') ?? '', sort: of('sort') ?? fallback.sort, order: of('order') ?? (of('sort') ? undefined : fallback.order),
    state: of('state') ?? '', page: Math.max(1, Number.parseInt(of('page'), 10) || 1),
  };
}

/// The direction in which a column is sorted first: names from A, figures from the largest.
const firstOrder = (column) => (column.number ? 'desc' : 'asc');

/// The links to other pages of the list, and which rows these are.
function Pager({ prefix, page, size, found }) {
  const last = Math.max(1, Math.ceil(found.found / size));
  if (last === 1) return null;
  const to = (number) => address(state.view, { ...state.query, [`${prefix}page`]: number === 1 ? '' : number });
  const link = (number, key, label) => (number < 1 || number > last || number === page
    ? html`<span class="button" aria-disabled="true">${label}</span>`
    : html`<a class="button" href=${to(number)} data-page=${key}>${label}</a>`);
  const from = (page - 1) * size + 1;
  return html`<nav class="pager card-foot" aria-label=${t('pager')}>
    ${link(1, 'first', t('pager.first'))}${link(page - 1, 'before', t('pager.before'))}
    <span class="quiet">${t('pager.rows', { from: whole(from), to: whole(Math.min(found.found, page * size)), all: whole(found.found) })}</span>
    ${link(page + 1, 'next', t('pager.next'))}${link(last, 'last', t('pager.last'))}</nav>`;
}

/// A card with a list. `path`: its address in the API; `columns`: `{ key, label, number }`, where `key` is the API's name of
/// the order; `states`: `[value, label]` of each filter by state; `row` makes the rows of an item; `extra`: further
/// parameters; `still`: the list has no figures; `empty`: shown if there is nothing at all; `counted`: its total in words.
export class Listing extends Component {
  render({ id, title, path, columns, fallback, states = [], row, extra = '', still, empty, counted, hint, filterLabel, more, prefix = '', className = '', few = 10 }) {
    const size = rowsOf(25, few);
    const asked = question(prefix, fallback);
    const column = columns.find(({ key }) => key === asked.sort) ?? columns[0];
    const order = asked.order ?? firstOrder(column);
    const parameters = new URLSearchParams({ limit: size, offset: (asked.page - 1) * size, ...(column.key ? { sort: column.key, order } : {}) });
    if (asked.q.trim()) parameters.set(still ? 'name' : 'q', asked.q.trim());
    if (asked.state) parameters.set('state', asked.state);
    const amended = (changes) => amend(Object.fromEntries(Object.entries({ page: '', ...changes }).map(([key, value]) => [`${prefix}${key}`, value])));
    const sorted = (key, next) => amended({ sort: key === fallback.sort && next === fallback.order ? '' : key, order: next === firstOrder(columns.find((one) => one.key === key)) ? '' : next });
    const heads = columns.map((one) => {
      if (!one.key) return one;
      const chosen = one === column;
      const next = chosen ? (order === 'asc' ? 'desc' : 'asc') : firstOrder(one);
      const button = html`<button type="button" class="sort" onClick=${() => sorted(one.key, next)}>${one.label}<span class="arrow" aria-hidden="true">${chosen ? (order === 'asc' ? '▴' : '▾') : ''}</span></button>`;
      return { ...one, button, sort: chosen ? (order === 'asc' ? 'ascending' : 'descending') : undefined };
    });
    const tools = html`
      ${states.length > 0 && html`<label class="of-state"><span class="hidden">${t('list.state')}</span>
        <select onChange=${(event) => amended({ state: event.currentTarget.value })} value=${asked.state}>
          ${[['', t('list.state.any')], ...states].map(([value, label]) => html`<option value=${value} selected=${value === asked.state}>${label}</option>`)}</select></label>`}
      <label class="of-sort"><span class="hidden">${t('list.sort')}</span>
        <select onChange=${(event) => sorted(event.currentTarget.value, firstOrder(columns.find(({ key }) => key === event.currentTarget.value)))} value=${column.key}>
          ${columns.filter(({ key }) => key).map((one) => html`<option value=${one.key} selected=${one === column}>${t('list.sort.by', { column: one.label })}</option>`)}</select></label>
      <label class="filter"><span class="hidden">${filterLabel}</span>
        <input type="search" placeholder=${hint} value=${asked.q} onInput=${(event) => amended({ q: event.currentTarget.value })} /></label>${more}`;
    const body = (found) => {
      const plenty = found.total > 0 || found.found > 0;
      // Rows went away meanwhile, or the address is of a longer list.
      const last = Math.max(1, Math.ceil(found.found / size));
      if (found.items.length === 0 && asked.page > last) queueMicrotask(() => amended({ page: last === 1 ? '' : last }));
      const filtered = asked.q.trim() !== '' || asked.state !== '';
      const narrowed = found.found < found.total || filtered;
      const count = html`<span class="quiet nowrap" role="status">${counted(whole(found.found), whole(found.total), narrowed)}</span>`;
      return html`<${Card} id=${id} title=${title} wide more=${html`${plenty || filtered ? count : ''}${tools}`}>
        ${!plenty && !filtered ? empty
          : found.found === 0 ? html`<${Empty} title=${asked.q.trim() ? t('list.nomatch', { text: asked.q.trim() }) : t('list.none')}>
            <button type="button" onClick=${() => amended({ q: '', state: '' })}>${t('list.clear')}</button><//>`
            : html`<${Table} label=${title} columns=${heads} className=${`cards ${className}`}>${found.items.map((item) => row(item, found))}<//>`}
        <${Pager} prefix=${prefix} page=${Math.min(asked.page, last)} size=${size} found=${found} /><//>`;
    };
    return html`<${Polled} url=${`${path}?${parameters}${extra}`} still=${still}>${body}<//>`;
  }
}
