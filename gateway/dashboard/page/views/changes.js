// The history: who changed what and when, what is different between two versions, and the way back.

import { Changes as Difference } from '../diff.js';
import { moment } from '../format.js';
import { rowsOf } from '../listing.js';
import { Alert, Card, Component, Empty, html, NextStep, Pill, Table } from '../parts.js';
import { Proposal } from '../proposal.js';
import { between, history, mayWrite, rollback } from '../resources.js';
import { state } from '../store.js';
import { t } from '../text.js';

/// Versions of a page.
const page = () => rowsOf(25, 10);
/// Names of resources in a row.
const NAMES = 4;

/// `#changes/3..7`, or `#changes/7` for what that version changed.
function pair(detail) {
  const found = /^(\d+)(?:\.\.(\d+))?$/.exec(detail ?? '');
  if (!found) return null;
  const [first, second] = [Number(found[1]), found[2] === undefined ? null : Number(found[2])];
  return second === null ? [null, first] : [Math.min(first, second), Math.max(first, second)];
}

/// What is different between two versions; `from` null: what the one has changed.
class Compared extends Component {
  constructor() {
    super();
    this.state = { answer: null, problem: null };
  }

  async componentDidMount() {
    const { from, to } = this.props;
    try {
      this.setState({ answer: await between(from, to) });
    } catch (problem) {
      this.setState({ problem });
    }
  }

  render({ from, to }, { answer, problem }) {
    return html`<${Card} id="compared" title=${from === null ? t('changes.one', { n: to }) : t('changes.between', { from, to })} wide>
      <div class="card-body" aria-live="polite">
        ${problem && html`<${Alert}>${t('failed', { why: problem.message })}<//>`}
        ${!problem && (answer ? html`<${Difference} changes=${answer.changes} />` : html`<p class="quiet">${t('loading')}</p>`)}
      </div><//>`;
  }
}

/// `before` is the version before the last one.
function Compare({ last, before, versions }) {
  const go = (event) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    location.hash = `#changes/${form.get('from')}..${form.get('to')}`;
  };
  const both = pair(state.detail);
  const [from, to] = both && both[0] !== null ? both : [before, last];
  const field = (name, label, value) => html`<label>${label}<input name=${name} type="number" min="0" max=${last} list="compare-versions" required defaultValue=${value} /></label>`;
  return html`<${Card} id="compare" title=${t('changes.compare')} wide>
    <form class="compare" onSubmit=${go}>${field('from', t('changes.from'), from)}${field('to', t('changes.to'), to)}
      <datalist id="compare-versions">${versions.map(({ version, at, what }) => html`<option value=${version} label=${`${moment(Date.parse(at) / 1000)} ${what}`} />`)}</datalist>
      <button>${t('changes.compare.go')}</button><span class="quiet">${t('changes.compare.lead')}</span></form><//>`;
}

export class Changes extends Component {
  constructor() {
    super();
    this.state = { versions: null, last: null, previous: null, problem: null, more: false, back: null };
  }

  componentDidMount() {
    this.load();
  }

  componentDidUpdate() {
    if (state.live?.generation !== this.generation || state.query.before !== this.before) this.load();
  }

  /// Loads a page of versions: the newest, or those before the version that the address names.
  async load() {
    // Where there is no store there is no history to ask for.
    if (!state.access?.writable) return;
    this.generation = state.live?.generation;
    this.before = state.query.before;
    const [before, count] = [Number(this.before) || null, page()];
    try {
      // One version more than is shown says whether there are older ones.
      const [found, newest] = await Promise.all([history(before, count + 1), before === null ? null : history(null, 2)]);
      const [last, previous] = newest ?? found;
      this.setState({ versions: found.slice(0, count), last, previous, problem: null, more: found.length > count });
    } catch (problem) {
      this.setState({ problem });
    }
  }

  row(one, newest) {
    const { version, at, who, what, resources, count } = one;
    const names = resources.slice(0, NAMES).join(', ');
    return html`<tr key=${version}>
      <th scope="row"><span class="narrow">${t('changes.version')} </span>${version}</th>
      <td class="nowrap" data-label=${t('changes.when')}>${moment(Date.parse(at) / 1000)}</td>
      <td class="name" data-label=${t('changes.who')}>${who}</td>
      <td class="name wide-cell">${what}${count > 1 && html`<small>${names}${count > NAMES ? ', …' : ''}</small>`}</td>
      <td class="acts wide-cell"><a class="button" href=${`#changes/${version}`} aria-label=${t('changes.show.of', { n: version })}>${t('changes.show')}</a>
        ${newest ? html`<${Pill} kind="good">${t('changes.current')}<//>`
          : mayWrite() && html`<button type="button" aria-label=${t('changes.back.to', { n: version })} onClick=${() => this.setState({ back: version })}>${t('changes.back.here')}</button>`}</td></tr>`;
  }

  proposal(version) {
    const close = () => this.setState({ back: null });
    return html`<${Proposal} change=${rollback(version)} title=${t('changes.back.to', { n: version })} lead=${t('changes.back.lead', { n: version })}
      apply=${t('changes.back')} back=${t('edit.cancel')} danger onClose=${close} onDone=${() => this.load()} />`;
  }

  render({ detail }, { versions, last, previous, problem, more, back }) {
    if (state.access && !state.access.writable) {
      return html`<${Empty} title=${t('edit.no.store')}><pre>store: /var/lib/tollgate/store</pre>
        <p>${t('changes.no.store.more', { file: state.live.file })} <a href="#routes">${t('changes.no.store.look')}</a></p><//>`;
    }
    if (problem) return html`<${Empty} title=${t('failed', { why: problem.message })} />`;
    if (!versions) return html`<p class="empty">${t('loading')}</p>`;
    if (!last) return html`<${Empty} title=${t('changes.none')}><p>${t('changes.none.more')}</p><${NextStep} kind="routes" /><//>`;
    const both = pair(detail);
    const columns = [{ label: t('changes.version') }, { label: t('changes.when') }, { label: t('changes.who') },
      { label: t('changes.what') }, { label: html`<span class="hidden">${t('changes.act')}</span>` }];
    return html`${both && html`<p class="back"><a href="#changes"><span aria-hidden="true">← </span>${t('changes.all')}</a></p>
        <${Compared} key=${both.join()} from=${both[0]} to=${both[1]} />`}
      <${Card} id="history" title=${t('changes.title')} wide>
        <${Table} label=${t('changes.title')} columns=${columns} className="history cards">${versions.map((one) => this.row(one, one.version === last.version))}<//>
        ${(more || state.query.before) && html`<nav class="pager card-foot" aria-label=${t('pager')}>
          ${state.query.before ? html`<a class="button" href="#changes">${t('changes.newest')}</a>` : html`<span class="button" aria-disabled="true">${t('changes.newest')}</span>`}
          ${more ? html`<a class="button" href=${`#changes?before=${versions.at(-1).version}`}>${t('changes.older')}</a>` : html`<span class="button" aria-disabled="true">${t('changes.older')}</span>`}</nav>`}<//>
      <${Compare} key=${`${last.version} ${detail}`} last=${last.version} before=${previous?.version ?? 0} versions=${versions} />

      ${back !== null && this.proposal(back)}`;
  }
}
