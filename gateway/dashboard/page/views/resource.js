// One route, upstream or other resource: its weights and its text, changed after a look at the difference.

import { Editor } from '../editor.js';
import { Alert, Card, Component, Empty, html, Pill } from '../parts.js';
import { Proposal } from '../proposal.js';
import { deleting, mayWrite, place, read, readsOnly, writing } from '../resources.js';
import { state } from '../store.js';
import { targets } from '../targets.js';
import { t } from '../text.js';
import { Weights } from '../weights.js';

/// What a new one begins with.
const BEGINNINGS = {
  routes: 'match: /hello\nrespond: hello\n',
  upstreams: 'endpoints:\n  - 127.0.0.1:3000\n',
  certificates: 'certificate: |\n  -----BEGIN CERTIFICATE-----\nkey: |\n  -----BEGIN PRIVATE KEY-----\n',
  policies: 'rate_limit: {rate: 100/s, by: address}\n',
  consumers: 'groups: [dev]\napi_keys: sha256:\n',
};

/// The name in the address that stands for one that is yet to be made.
export const NEW = '+';

export class Resource extends Component {
  constructor(properties) {
    super(properties);
    const anew = properties.name === NEW;
    this.anew = anew;
    this.state = {
      found: anew ? { text: '', value: null, etag: null, source: 'store' } : null,
      text: anew ? BEGINNINGS[properties.kind] : '',
      name: '', problem: null, refused: null, proposal: null, keep: false,
    };
  }

  componentDidMount() {
    if (!this.anew) this.load(false);
    else document.querySelector('.new-name input')?.focus();
  }

  componentDidUpdate() {
    // Somebody has changed something: what nobody has touched here follows.
    const { found, text, proposal } = this.state;
    if (this.generation === state.live?.generation) return;
    this.generation = state.live?.generation;
    if (found && !this.anew && !proposal && text === found.text) this.load(false);
  }

  /// Reads it. `keep`: what was typed in stays.
  async load(keep) {
    const { kind, name } = this.props;
    try {
      const found = await read(kind, name);
      const before = this.state.found;
      if (before && !keep && before.etag === found.etag && before.text === found.text) return true;
      this.setState({ found, keep, problem: null, ...(keep ? {} : { text: found.text, refused: null }) });
      return true;
    } catch (error) {
      this.setState({ problem: error, ...(error.status === 404 ? { found: null } : {}) });
      return false;
    }
  }

  propose(what, by) {
    this.setState({ proposal: what, by, refused: null });
  }

  writeText(event) {
    event.preventDefault();
    const { kind } = this.props;
    const { text, found, name } = this.state;
    this.propose(writing(kind, this.anew ? name.trim() : this.props.name, text, found.etag), 'text');
  }

  async conflict(compare) {
    const { proposal, by } = this.state;
    this.setState({ proposal: null });
    if (await this.load(compare) && compare) this.again(proposal, by);
  }

  /// The same change, now of the version that is there.
  again(proposal, by) {
    const { found } = this.state;
    if (by === 'weights') document.querySelector('form.weights')?.requestSubmit();
    else this.propose({ ...proposal, headers: { ...proposal.headers, 'if-match': found.etag } }, by);
  }

  done() {
    const { kind } = this.props;
    const { by, name } = this.state;
    this.setState({ refused: null });
    if (by === 'delete') location.hash = `#${kind}`;
    else if (this.anew) location.hash = place(kind, name.trim());
    else this.load(false);
  }

  proposal() {
    const { proposal, by } = this.state;
    const close = () => this.setState({ proposal: null });
    const refuse = (refused) => this.setState({ proposal: null, refused });
    const deletes = by === 'delete';
    return html`<${Proposal} key=${JSON.stringify(proposal)} change=${proposal} title=${deletes ? t('edit.delete.title', { name: this.props.name }) : undefined}
      apply=${deletes ? t('edit.delete') : undefined} back=${deletes ? t('edit.cancel') : undefined} danger=${deletes}
      onClose=${close} onDone=${() => this.done()} onRefused=${deletes ? undefined : refuse}
      onConflict=${this.anew ? undefined : (compare) => this.conflict(compare)} />`;
  }

  named() {
    const { name, refused } = this.state;
    const taken = refused?.status === 412 && t('edit.conflict.new');
    const problem = taken || (refused && refused.problems.length === 0 ? refused.message : null);
    return html`<label class="new-name">${t('edit.name')}
      <input name="name" required autocomplete="off" spellcheck=${false} value=${name} onInput=${(event) => this.setState({ name: event.currentTarget.value })}
        aria-invalid=${problem ? 'true' : undefined} aria-describedby=${problem ? 'name-problem' : undefined} />
      ${problem && html`<p class="field-problem" id="name-problem" role="alert">${problem}</p>`}</label>`;
  }

  render({ kind, name, children }) {
    const { found, text, problem, refused, proposal, by } = this.state;
    const back = html`<p class="back"><a href=${`#${kind}`}><span aria-hidden="true">← </span>${t(`back.${kind}`)}</a></p>`;
    if (!found) {
      return html`${back}${problem ? html`<${Empty} title=${problem.status === 404 ? t('edit.gone') : t('failed', { why: problem.message })} />` : html`<p class="empty">${t('loading')}</p>`}`;
    }
    const ofFile = found.etag === null && !this.anew;
    const locked = ofFile || !mayWrite();
    const source = this.anew ? null : ofFile ? t('source.file', { at: found.source }) : t('source.store', { n: found.etag.replaceAll('"', '') });
    const problems = by === 'text' ? refused?.problems ?? [] : [];
    const general = refused && !(this.anew && refused.problems.length === 0)
      && (refused.problems.length === 0 || (by === 'weights' && !refused.problems.some((one) => /weight$/.test(one.pointer))));
    return html`${back}
      <div class="heading"><h2 id="resource">${this.anew ? t(`new.${kind}`) : html`<span class="quiet">${t(`kind.${kind}`)}</span> ${name}`}</h2>
        ${source && html`<${Pill} kind=${ofFile ? '' : 'good'}>${source}<//>`}</div>
      ${ofFile && html`<${Alert} kind="note">${t('edit.file', { at: found.source })}<//>`}
      ${!ofFile && state.access && !state.access.writable && html`<${Alert} kind="note">${t('edit.no.store')}<//>`}
      ${readsOnly() && html`<${Alert} kind="note">${t('edit.no.write')}<//>`}
      ${problem && html`<${Alert}>${t('failed', { why: problem.message })}<//>`}
      ${children}
      ${general && html`<${Alert}>${t('failed', { why: refused.message })}<//>`}
      <div class="columns even">
        ${targets(kind, found.value).length > (kind === 'routes' || locked ? 1 : 0) && html`<${Weights} kind=${kind} name=${name} found=${found} keep=${this.state.keep} locked=${locked}
          refused=${by === 'weights' ? refused : null} propose=${(what) => this.propose(what, 'weights')} />`}
        <${Card} id="text" title=${t('edit.text')}>
          <form class="text" onSubmit=${(event) => this.writeText(event)}>
            ${this.anew && this.named()}
            <p class="quiet">${t('edit.text.lead')}</p>
            <${Editor} text=${text} problems=${problems} locked=${locked} label=${t('edit.text')} onText=${(next) => this.setState({ text: next })} />
            ${!locked && html`<div class="buttons"><button class="primary">${t('edit.preview')}</button>
              ${!this.anew && html`<button type="button" class="delete" onClick=${() => this.propose(deleting(kind, name, found.etag), 'delete')}>${t('edit.delete')}</button>`}</div>`}
          </form><//>
      </div>
      ${proposal && this.proposal()}`;
  }
}
