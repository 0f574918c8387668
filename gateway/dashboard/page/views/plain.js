// Resources that carry no figures of their own: their names, and each as text.

import { whole } from '../format.js';
import { Card, Component, Empty, html, Table } from '../parts.js';
import { list, mayWrite, place } from '../resources.js';
import { state } from '../store.js';
import { t } from '../text.js';
import { NEW, Resource } from './resource.js';

/// How many are asked for.
const ASKED = 500;

class All extends Component {
  constructor() {
    super();
    this.state = { found: null, problem: null, filter: '' };
  }

  componentDidMount() {
    this.load();
  }

  componentDidUpdate() {
    if (state.live?.generation !== this.generation) this.load();
  }

  async load() {
    this.generation = state.live?.generation;
    try {
      this.setState({ found: await list(this.props.kind, ASKED, this.state.filter), problem: null });
    } catch (problem) {
      this.setState({ problem });
    }
  }

  find(filter) {
    this.setState({ filter }, () => this.load());
  }

  render({ kind }, { found, problem, filter }) {
    if (problem) return html`<${Empty} title=${t('failed', { why: problem.message })} />`;
    if (!found) return html`<p class="empty">${t('loading')}</p>`;
    const search = html`<label class="filter"><span class="hidden">${t('plain.filter')}</span>
      <input type="search" placeholder=${t('plain.filter')} value=${filter} onInput=${(event) => this.find(event.currentTarget.value)} /></label>`;
    const anew = mayWrite() && html`<a class="button primary" href=${`#${kind}/${NEW}`}>${t(`new.${kind}`)}</a>`;
    const columns = [{ label: t('edit.name') }, { label: t('plain.source') }];
    return html`<${Card} id=${kind} title=${t(`view.${kind}`)} wide more=${html`${search}${anew}`}>
      ${found.total === 0 ? html`<${Empty} title=${t(`plain.none.${kind}`)} />`
        : html`<${Table} label=${t(`view.${kind}`)} columns=${columns}>${found.items.map(({ name, source, version }) => html`<tr key=${name}>
          <th scope="row" class="name"><a href=${place(kind, name)}>${name}</a></th>
          <td>${version === null ? t('source.file', { at: source }) : t('source.store', { n: version })}</td></tr>`)}<//>`}
      ${found.found > found.items.length && html`<p class="quiet card-foot">${t('plain.limit', { n: whole(ASKED) })}</p>`}
    <//>`;
  }
}

/// The view of a kind.
export const plain = (kind) => ({ detail }) => (detail
  ? html`<${Resource} key=${detail} kind=${kind} name=${detail} />`
  : html`<${All} kind=${kind} />`);
