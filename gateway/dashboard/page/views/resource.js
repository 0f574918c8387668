// One route, upstream or other resource: its weights and its text, changed after a look at the difference.

import { Editor } from '../editor.js';
import { Drain, isDisabled, KeyGenerator, Switch, Upload } from '../forms.js';
import { History } from '../history.js';
import { Polled } from '../listing.js';
import { Alert, Card, Component, Empty, html, Pill, Table } from '../parts.js';
import { Proposal } from '../proposal.js';
import { deleting, make, mayWrite, place, read, readsOnly, writing } from '../resources.js';
import { set, state } from '../store.js';
import { targets } from '../targets.js';
import { t } from '../text.js';
import { Weights } from '../weights.js';
import { yamlLines } from '../yaml.js';
import { Health } from './overview.js';

/// What a new one begins with.
const BEGINNINGS = {
  routes: 'match: /hello\nrespond: hello\n',
  upstreams: 'endpoints:\n  - 127.0.0.1:3000\n',
  certificates: 'certificate: |\n  -----BEGIN CERTIFICATE-----\nkey: |\n  -----BEGIN PRIVATE KEY-----\n',
  policies: 'rate_limit: {rate: 100/s, by: address}\n',
  listeners: 'bind: "127.0.0.1:8081"\n',
  streams: 'listeners: db\nto: 127.0.0.1:5432\n',
  consumers: 'groups: [dev]\napi_keys: sha256:\n',
};

/// The name in the address that stands for one that is yet to be made.
export const NEW = '+';

/// The kinds that have figures, and what these are about.
const SCOPES = { routes: 'route', upstreams: 'upstream' };

/// The policies that are written at this resource.
function Policies({ value }) {
  const policies = value?.policies;
  if (policies === undefined) return null;
  return html`<${Card} id="own-policies" title=${t('resource.policies')}><div class="card-body">
    <p class="quiet">${t('resource.policies.lead')}</p>
    <pre tabindex="0" role="group" aria-label=${t('resource.policies')}>${yamlLines(policies).join('\n')}</pre></div><//>`;
}

/// The endpoints of one upstream, with their state.
function EndpointsOf({ name }) {
  const columns = [{ label: t('endpoint') }, { label: t('resource.upstream') }, { label: t('col.state') }];
  return html`<${Polled} url=${`live/upstreams?q=${encodeURIComponent(name)}&endpoints=100`}>${({ items }) => {
    const upstream = items.find((one) => one.name === name);
    return upstream ? html`<${Table} label=${t('resource.endpoints')} columns=${columns}>${upstream.endpoints.map((endpoint) => html`<tr key=${endpoint.address}>
      <th scope="row" class="name"><code>${endpoint.address}</code></th>
      <td class="name"><a href=${place('upstreams', upstream.name)}>${upstream.name}</a></td>
      <td><${Health} endpoint=${endpoint} /></td></tr>`)}<//>` : null;
  }}<//>`;
}

/// The endpoints to which a route leads.
function Endpoints({ value }) {
  const names = [...new Set(targets('routes', value).map((one) => one.name))];
  if (names.length === 0) return null;
  return html`<${Card} id="route-endpoints" title=${t('resource.endpoints')}>
    ${names.map((name) => html`<${EndpointsOf} key=${name} name=${name} />`)}<//>`;
}

export class Resource extends Component {
  constructor(properties) {
    super(properties);
    const anew = properties.name === NEW;
    this.anew = anew;
    // A copy of another resource, if one was asked for.
    const copy = anew && state.copy?.kind === properties.kind ? state.copy.text : null;
    if (copy !== null) state.copy = null;
    this.state = {
      found: anew ? { text: '', value: null, etag: null, source: 'store' } : null,
      text: copy ?? (anew ? BEGINNINGS[properties.kind] : ''),
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

  /// Has the gateway try a text, and gives what is wrong with it. The name of a new one may be missing yet.
  async check(text) {
    const { kind } = this.props;
    const name = this.anew ? this.state.name.trim() || 'draft' : this.props.name;
    // Without the condition that a change has: a text is right or wrong whatever the version.
    const change = { ...writing(kind, name, text, null), headers: { 'content-type': 'application/yaml' } };
    try {
      await make(change, 'check');
      return [];
    } catch (error) {
      return error.status === 422 || error.status === 400 ? (error.problems ?? []) : [];
    }
  }

  /// Begins a new resource with this text.
  copy() {
    const { kind } = this.props;
    set({ copy: { kind, text: this.state.text } });
    location.hash = `#${kind}/${NEW}`;
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
    // What was wrong with the text before says nothing about this one.
    const setText = (next) => this.setState((now) => ({ text: typeof next === 'function' ? next(now.text) : next, ...(now.by === 'text' ? { refused: null } : {}) }));
    const forms = [
      targets(kind, found.value).length > (kind === 'routes' || locked ? 1 : 0) && html`<${Weights} kind=${kind} name=${name} found=${found} keep=${this.state.keep} locked=${locked}
        refused=${by === 'weights' ? refused : null} propose=${(what) => this.propose(what, 'weights')} />`,
      kind === 'routes' && !locked && !this.anew && html`<${Switch} value=${found.value}
        propose=${(value) => this.propose(writing(kind, name, JSON.stringify(value), found.etag), 'switch')} />`,
      kind === 'upstreams' && !locked && !this.anew && targets(kind, found.value).length > 1 && html`<${Drain} value=${found.value}
        propose=${(value) => this.propose(writing(kind, name, JSON.stringify(value), found.etag), 'drain')} />`,
      kind === 'consumers' && !locked && html`<${KeyGenerator} onText=${setText} />`,
      kind === 'certificates' && !locked && html`<${Upload} onText=${setText} />`,
    ].filter(Boolean);
    return html`${back}
      <div class="heading"><h2 id="resource">${this.anew ? t(`new.${kind}`) : html`<span class="quiet">${t(`kind.${kind}`)}</span> ${name}`}</h2>
        ${source && html`<${Pill} kind=${ofFile ? '' : 'good'}>${source}<//>`}
        ${kind === 'routes' && isDisabled(found.value) && html`<${Pill} kind="warn">${t('switch.disabled')}<//>`}</div>
      ${ofFile && html`<${Alert} kind="note">${t('edit.file', { at: found.source })}<//>`}
      ${!ofFile && state.access && !state.access.writable && html`<${Alert} kind="note">${t('edit.no.store')}<//>`}
      ${readsOnly() && html`<${Alert} kind="note">${t('edit.no.write')}<//>`}
      ${problem && html`<${Alert}>${t('failed', { why: problem.message })}<//>`}
      ${children}
      ${!this.anew && SCOPES[kind] && html`<${History} scope=${SCOPES[kind]} name=${name} />`}
      ${kind === 'routes' && !this.anew && html`<div class="columns even"><${Endpoints} value=${found.value} /><${Policies} value=${found.value} /></div>`}
      ${kind === 'upstreams' && !this.anew && html`<${Policies} value=${found.value} />`}
      ${general && html`<${Alert}>${t('failed', { why: refused.message })}<//>`}
      <div class="columns even">
        ${forms.length > 0 && html`<div class="column">${forms}</div>`}
        <${Card} id="text" title=${t('edit.text')}>
          <form class="text" onSubmit=${(event) => this.writeText(event)}>
            ${this.anew && this.named()}
            <p class="quiet">${t('edit.text.lead')}</p>
            <${Editor} text=${text} problems=${problems} locked=${locked} kind=${kind} label=${t('edit.text')}
              check=${locked ? undefined : (next) => this.check(next)} onText=${setText} />
            ${!locked && html`<div class="buttons"><button class="primary">${t('edit.preview')}</button>
              ${!this.anew && html`<button type="button" class="copy" onClick=${() => this.copy()}>${t('edit.copy')}</button>`}
              ${!this.anew && html`<button type="button" class="delete" onClick=${() => this.propose(deleting(kind, name, found.etag), 'delete')}>${t('edit.delete')}</button>`}</div>`}
          </form><//>
      </div>
      ${proposal && this.proposal()}`;
  }
}
