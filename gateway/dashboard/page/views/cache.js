// The cache: its hit ratio and size, the stored responses that lead in hits, bytes or age, and the purge.

import { call, sendJson } from '../api.js';
import { age, amount, moment, percent, size, whole } from '../format.js';
import { Alert, Bar, Card, Component, Dialog, Empty, html, Pill, Table } from '../parts.js';
import { readsOnly } from '../resources.js';
import { set, state } from '../store.js';
import { t } from '../text.js';

const ORDERS = ['hits', 'bytes', 'age'];
const KINDS = ['key', 'prefix', 'tag', 'all'];
/// Rows of the list.
const ROWS = 25;
/// Counts are compared with those of so many seconds ago.
const RECENT_SECONDS = 10;

const used = (part, all) => html`<${Bar} part=${all > 0 ? part / all : 0} />${size(part)} <span class="quiet">${t('limit.of', { n: size(all) })}</span>`;

function figures(rows) {
  return html`<dl class="list">${rows.map(([label, value]) => html`<div><dt>${label}</dt><dd>${value}</dd></div>`)}</dl>`;
}

/// Answered from memory or from disk.
const hitsOf = ({ hits, disk }) => hits + (disk?.hits ?? 0);

function Figures({ found, recent }) {
  const { objects, capacity, hits, misses, followed, evictions, refused, hit_ratio: ratio, bytes: held, disk } = found;
  const rows = [
    [t('cache.ratio'), percent(ratio)],
    [t('cache.ratio.now'), percent(recent)],
    [disk ? t('cache.hits.memory') : t('cache.hits'), whole(hits)],
    ...(disk ? [[t('cache.hits.disk'), whole(disk.hits)]] : []),
    [t('cache.misses'), whole(Math.max(misses - (disk?.hits ?? 0), 0))],
    [t('cache.followed'), whole(followed)],
    [t('cache.objects'), whole(objects)],
    [t('cache.bytes'), used(held, capacity)],
    [t('cache.evictions'), whole(evictions)],
    [t('cache.refused'), whole(refused)],
  ];
  return figures(rows);
}

/// Which other gateways carry a purge out.
function reach({ acknowledged, gateways, version }) {
  const values = { acknowledged, gateways: gateways ?? '–', version };
  return acknowledged === undefined ? t('cache.purge.done.fleet', values) : t('cache.purge.done.controller', values);
}

/// The disk tier: whether it serves, what it has, and what failed.
function Disk({ disk }) {
  const { state: now, problem, problem_since: since, last_error: last, emptied_at_start: emptied } = disk;
  const at = (text) => moment(Date.parse(text) / 1e3);
  const trouble = problem && { since: at(since), why: problem };
  const waits = disk.waiting_bytes > 0 || disk.waiting_purges > 0;
  const rows = [
    [t('cache.disk.state'), html`<${Pill} kind=${now === 'ready' && !problem ? 'good' : now === 'closed' ? 'bad' : 'warn'}>${t(`cache.disk.state.${now}`)}<//>`],
    [t('cache.objects'), whole(disk.objects)],
    [t('cache.disk.bytes'), used(disk.bytes, disk.capacity)],
    [t('cache.disk.written'), t('cache.disk.amount', { n: whole(disk.writes), size: size(disk.written_bytes) })],
    [t('cache.disk.read'), t('cache.disk.amount', { n: whole(disk.hits), size: size(disk.read_bytes) })],
    [t('cache.disk.drops'), whole(disk.drops)],
    [t('cache.evictions'), whole(disk.evictions)],
    [t('cache.disk.errors'), last ? html`${whole(disk.errors)} <span class="quiet">${t('cache.disk.errors.last', { at: at(last) })}</span>` : whole(disk.errors)],
    ...(waits ? [[t('cache.disk.waiting'), t('cache.disk.amount', { n: whole(disk.waiting_purges), size: size(disk.waiting_bytes) })]] : []),
  ];
  return html`<${Card} id="cache-disk" title=${t('cache.disk')} wide>
    ${problem && html`<${Alert}>${now === 'ready' ? t('cache.disk.problem', trouble) : t('cache.disk.off', trouble)}<//>`}
    ${emptied && html`<p class="quiet">${t('cache.disk.emptied')}</p>`}
    ${figures(rows)}<//>`;
}

/// Asks once more before stored responses go.
class Confirm extends Component {
  constructor() {
    super();
    this.state = { busy: false, problem: null };
  }

  async go() {
    this.setState({ busy: true });
    const { purge, onClose, onDone } = this.props;
    try {
      const { body } = await sendJson('POST', 'cache/purge', purge);
      onClose();
      onDone(body);
    } catch (problem) {
      // A role that may not: what it cannot do is offered no longer.
      if (problem.status === 403) set({ readOnly: true });
      this.setState({ busy: false, problem });
    }
  }

  render({ purge, onClose }, { busy, problem }) {
    const what = purge.key ?? purge.prefix ?? purge.tag ?? t('cache.purge.what.all');
    const text = purge.soft ? t('cache.purge.confirm.soft', { what })
      : purge.all ? t('cache.purge.confirm.all') : t('cache.purge.confirm.some', { what });
    return html`<${Dialog} id="cache-confirm" title=${t('cache.purge.confirm')} onClose=${onClose}>
      <p class="name">${text}</p>
      ${problem && html`<${Alert}>${t('failed', { why: problem.message })}<//>`}
      <div class="buttons"><button type="button" class="danger" disabled=${busy} onClick=${() => this.go()}>${t('cache.act')}</button>
        <button type="button" data-focus onClick=${onClose}>${t('edit.cancel')}</button></div><//>`;
  }
}

export class Cache extends Component {
  constructor() {
    super();
    this.state = { found: null, list: null, problem: null, sort: 'hits', prefix: '', kind: 'key', value: '', soft: false, purge: null, done: null };
    this.past = [];
  }

  componentDidMount() {
    this.load();
    this.loadList();
  }

  componentDidUpdate() {
    if (state.live !== this.live) this.load();
    // Another token may see the list.
    if (!this.asked && !readsOnly()) this.loadList();
  }

  /// The figures, with those of the page. One request is under way at a time.
  async load() {
    this.live = state.live;
    if (this.busy) return;
    this.busy = true;
    try {
      const { body: found } = await call('cache');
      this.past.push(found);
      if (this.past.length > RECENT_SECONDS) this.past.shift();
      this.setState({ found, problem: null });
    } catch (problem) {
      this.setState({ problem });
    }
    this.busy = false;
  }

  /// The list, when someone asks: the gateway looks at every stored response for it.
  async loadList(changes = {}) {
    this.setState(changes);
    if (readsOnly()) return;
    const { sort, prefix } = { ...this.state, ...changes };
    const query = new URLSearchParams({ sort, limit: ROWS, ...(prefix.trim() ? { prefix: prefix.trim() } : {}) });
    this.asked = `${query}`;
    try {
      const { body: list } = await call(`cache/objects?${query}`);
      if (this.asked === `${query}`) this.setState({ list, problem: null });
    } catch (problem) {
      if (problem.status === 403) {
        this.asked = null;
        set({ readOnly: true });
      } else {
        this.setState({ problem });
      }
    }
  }

  recent() {
    const [first, last] = [this.past[0], this.past.at(-1)];
    if (!first) return null;
    // What memory misses may be found on disk.
    const lookups = last.hits + last.misses - first.hits - first.misses;
    return lookups > 0 ? Math.min((hitsOf(last) - hitsOf(first)) / lookups, 1) : null;
  }

  submit(event) {
    event.preventDefault();
    const { kind, value, soft } = this.state;
    const purge = kind === 'all' ? { all: true } : { [kind]: value.trim() };
    this.setState({ purge: soft ? { ...purge, soft } : purge, done: null });
  }

  row(one) {
    const { url, place, status, bytes: length, age: seconds, ttl, hits, stale, tags } = one;
    return html`<tr key=${`${url} ${place} ${one.vary} ${seconds}`}>
      <th scope="row" class="name wide-cell"><code>${url}</code><small>${[place, ...tags].join(' · ')}</small></th>
      <td class="number" data-label=${t('cache.status')}>${status}</td>
      <td class="number" data-label=${t('cache.hits')}>${amount(hits)}</td>
      <td class="number" data-label=${t('cache.size')}>${size(length)}</td>
      <td class="number" data-label=${t('cache.age')}>${age(seconds)}</td>
      <td class="number" data-label=${t('cache.left')}>${stale ? html`<${Pill} kind="warn">${t('cache.stale')}<//>` : age(ttl)}</td>
      <td class="acts wide-cell"><button type="button" aria-label=${t('cache.purge.of', { url })} onClick=${() => this.setState({ purge: { key: url }, done: null })}>${t('cache.act')}</button></td></tr>`;
  }

  list() {
    const { list, sort, prefix } = this.state;
    const columns = [{ label: t('cache.url') }, { label: t('cache.status'), number: true }, { label: t('cache.hits'), number: true },
      { label: t('cache.size'), number: true }, { label: t('cache.age'), number: true }, { label: t('cache.left'), number: true },
      { label: html`<span class="hidden">${t('cache.act')}</span>` }];
    const tools = html`${list && html`<span class="quiet nowrap" role="status">${t('cache.top.count', { n: whole(list.found) })}</span>`}
      <label><span class="hidden">${t('cache.top.sort')}</span>
        <select name="sort" onChange=${(event) => this.loadList({ sort: event.currentTarget.value })} value=${sort}>
          ${ORDERS.map((key) => html`<option value=${key} selected=${key === sort}>${t(`cache.top.sort.${key}`)}</option>`)}</select></label>
      <label class="filter"><span class="hidden">${t('cache.top.filter')}</span>
        <input type="search" name="begin" placeholder=${t('cache.top.filter')} value=${prefix} onInput=${(event) => this.loadList({ prefix: event.currentTarget.value })} /></label>
      <button type="button" onClick=${() => this.loadList()}>${t('cache.top.refresh')}</button>`;
    return html`<${Card} id="cache-top" title=${t('cache.top')} wide more=${tools}>
      ${list && list.items.length > 0
        ? html`<${Table} label=${t('cache.top')} columns=${columns} className="cards cache">${list.items.map((one) => this.row(one))}<//>`
        : html`<${Empty} title=${list ? t('cache.top.nothing') : t('loading')} />`}<//>`;
  }

  form() {
    const { kind, value, soft, done } = this.state;
    const option = (key) => html`<option value=${key} selected=${key === kind}>${t(`cache.purge.what.${key}`)}</option>`;
    return html`<${Card} id="cache-purge" title=${t('cache.purge')} wide>
      <form class="compare purge" onSubmit=${(event) => this.submit(event)}>
        <label>${t('cache.purge.what')}<select name="what" value=${kind} onChange=${(event) => this.setState({ kind: event.currentTarget.value })}>${KINDS.map(option)}</select></label>
        ${kind !== 'all' && html`<label class="grows">${t('cache.purge.value')}<input name="value" required spellcheck=${false} autocomplete="off" value=${value}
          onInput=${(event) => this.setState({ value: event.currentTarget.value })} /></label>`}
        <label class="check"><input type="checkbox" name="soft" checked=${soft} onChange=${(event) => this.setState({ soft: event.currentTarget.checked })} />${t('cache.purge.soft')}</label>
        <button>${t('cache.purge.go')}</button><span class="quiet">${t('cache.purge.lead')}</span></form>
      ${done && html`<p class="alert good" role="status">${done.purged === null ? t('cache.purge.later') : t('cache.purge.done', { n: whole(done.purged) })}
        ${done.version !== undefined && ` ${reach(done)}`}
        ${done.acknowledged !== undefined && !done.durable && ` ${t('cache.purge.done.memory')}`}</p>`}<//>`;
  }

  render(_, { found, problem, purge }) {
    if (!found) return problem ? html`<${Empty} title=${t('failed', { why: problem.message })} />` : html`<p class="empty">${t('loading')}</p>`;
    const done = (result) => {
      this.setState({ done: result });
      this.loadList();
    };
    const isUnused = found.hits + found.misses === 0;
    return html`${problem && html`<${Alert}>${t('failed', { why: problem.message })}<//>`}
      <${Card} id="cache-store" title=${t('cache.store')} wide>
        ${isUnused ? html`<${Empty} title=${t('cache.unused')}><p>${t('cache.unused.more')}</p><pre>policies: {cache: on}</pre><//>`
          : html`<${Figures} found=${found} recent=${this.recent()} />`}<//>
      ${found.disk && html`<${Disk} disk=${found.disk} />`}
      ${readsOnly() ? html`<${Empty} title=${t('cache.top.role')} />` : html`${this.list()}${this.form()}`}
      ${purge && html`<${Confirm} purge=${purge} onClose=${() => this.setState({ purge: null })} onDone=${done} />`}`;
  }
}
