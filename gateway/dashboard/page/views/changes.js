// The history: who changed what and when, what is different between two versions, and the way back.

import { Changes as Difference } from '../diff.js';
import { moment } from '../format.js';
import { Alert, Card, Component, Empty, html, Pill, Table } from '../parts.js';
import { Proposal } from '../proposal.js';
import { between, history, mayWrite, rollback } from '../resources.js';
import { state } from '../store.js';
import { t } from '../text.js';

/// Versions at once.
const PAGE = 25;
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
    this.state = { versions: null, problem: null, more: false, back: null };
  }

  componentDidMount() {
    this.load();
  }

  componentDidUpdate() {
    if (state.live?.generation !== this.generation) this.load();
  }

  async load() {
    // Where there is no store there is no history to ask for.
    if (!state.access?.writable) return;
    this.generation = state.live?.generation;
    try {
      const versions = await history(null, PAGE);
      this.setState({ versions, problem: null, more: versions.length === PAGE });
    } catch (problem) {
      this.setState({ problem });
    }
  }

  async older() {
    const versions = await history(this.state.versions.at(-1).version, PAGE).catch(() => []);
    this.setState({ versions: [...this.state.versions, ...versions], more: versions.length === PAGE });
  }

  row(one, newest) {
    const { version, at, who, what, resources, count } = one;
    const names = resources.slice(0, NAMES).join(', ');
    return html`<tr key=${version}>
      <th scope="row">${version}</th>
      <td class="nowrap">${moment(Date.parse(at) / 1000)}</td>
      <td class="name">${who}</td>
      <td class="name">${what}${count > 1 && html`<small>${names}${count > NAMES ? ', …' : ''}</small>`}</td>
      <td class="acts"><a class="button" href=${`#changes/${version}`} aria-label=${t('changes.show.of', { n: version })}>${t('changes.show')}</a>
        ${newest ? html`<${Pill} kind="good">${t('changes.current')}<//>`
          : mayWrite() && html`<button type="button" aria-label=${t('changes.back.to', { n: version })} onClick=${() => this.setState({ back: version })}>${t('changes.back.here')}</button>`}</td></tr>`;
  }

  proposal(version) {
    const close = () => this.setState({ back: null });
    return html`<${Proposal} change=${rollback(version)} title=${t('changes.back.to', { n: version })} lead=${t('changes.back.lead', { n: version })}
      apply=${t('changes.back')} back=${t('edit.cancel')} danger onClose=${close} onDone=${() => this.load()} />`;
  }

  render({ detail }, { versions, problem, more, back }) {
    if (state.access && !state.access.writable) return html`<${Empty} title=${t('edit.no.store')} />`;
    if (problem) return html`<${Empty} title=${t('failed', { why: problem.message })} />`;
    if (!versions) return html`<p class="empty">${t('loading')}</p>`;
    if (versions.length === 0) return html`<${Empty} title=${t('changes.none')}><p>${t('changes.none.more')}</p><//>`;
    const both = pair(detail);
    const columns = [{ label: t('changes.version') }, { label: t('changes.when') }, { label: t('changes.who') },
      { label: t('changes.what') }, { label: html`<span class="hidden">${t('changes.act')}</span>` }];
    return html`${both && html`<p class="back"><a href="#changes"><span aria-hidden="true">← </span>${t('changes.all')}</a></p>
        <${Compared} key=${both.join()} from=${both[0]} to=${both[1]} />`}
      <${Card} id="history" title=${t('changes.title')} wide>
        <${Table} label=${t('changes.title')} columns=${columns} className="history">${versions.map((one, index) => this.row(one, index === 0))}<//>
        ${more && html`<div class="card-foot"><button type="button" onClick=${() => this.older()}>${t('changes.older')}</button></div>`}<//>
      <${Compare} key=${`${versions[0].version} ${detail}`} last=${versions[0].version} before=${versions[1]?.version ?? 0} versions=${versions} />
      ${back !== null && this.proposal(back)}`;
  }
}
