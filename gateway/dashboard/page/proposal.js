// A change before it is made: the gateway tries it, the page shows what would be different, and a person says yes.

import { Changes } from './diff.js';
import { Alert, Component, Dialog, html } from './parts.js';
import { Problem } from './problems.js';
import { make } from './resources.js';
import { set } from './store.js';
import { t } from './text.js';

/// `change` as resources.js makes it; `lead` a sentence above the difference. `onRefused` is given what is wrong, to be
/// shown at its place (without it, it is shown here); `onConflict` lets go of the version that the change was made for.
export class Proposal extends Component {
  constructor() {
    super();
    this.state = { answer: null, refused: null, busy: true };
  }

  componentDidMount() {
    this.ask(true);
  }

  async ask(dry) {
    this.setState({ busy: true });
    try {
      const answer = await make(this.props.change, dry && 'dry_run');
      if (dry) this.setState({ answer, busy: false });
      else this.done(answer);
    } catch (error) {
      // A role that may not: what it cannot do is offered no longer.
      if (error.status === 403) set({ readOnly: true });
      const { onConflict, onRefused } = this.props;
      const here = error.status === 403 || (error.status === 412 && onConflict);
      if (onRefused && !here) onRefused(error);
      else this.setState({ refused: error, busy: false });
    }
  }

  done(answer) {
    this.props.onClose();
    set({ notice: { version: answer.version, changes: answer.changes.length } });
    this.props.onDone?.(answer);
  }

  conflict(why) {
    const { onConflict } = this.props;
    return html`<${Alert} kind="warn">${t('edit.conflict', { why })}<//>
      ${onConflict && html`<div class="buttons">
        <button type="button" class="primary" data-focus onClick=${() => onConflict(true)}>${t('edit.conflict.compare')}</button>
        <button type="button" onClick=${() => onConflict(false)}>${t('edit.conflict.load')}</button></div>`}`;
  }

  body() {
    const { answer, refused, busy } = this.state;
    const { apply, back, danger, onClose } = this.props;
    if (refused?.status === 412) return this.conflict(refused.message);
    if (refused) {
      return html`<${Alert}>${t('failed', { why: refused.message })}<//>
        ${refused.problems.length > 1 && html`<ul class="problems">${refused.problems.map((problem) => html`<${Problem} problem=${problem} />`)}</ul>`}`;
    }
    if (!answer) return html`<p class="quiet">${t('edit.busy')}</p>`;
    const same = answer.changes.length === 0;
    return html`${this.props.lead && html`<p class="lead">${this.props.lead}</p>`}
      ${!same && !this.props.lead && html`<p class="lead">${t('edit.diff.lead')}</p>`}
      <${Changes} changes=${answer.changes} />
      ${answer.warnings.length > 0 && html`<h3>${t('edit.warnings')}</h3>
        <ul class="problems">${answer.warnings.map((problem) => html`<${Problem} problem=${problem} />`)}</ul>`}
      <div class="buttons">
        ${!same && html`<button type="button" class=${danger ? 'primary danger' : 'primary'} disabled=${busy} data-focus=${danger ? undefined : true} onClick=${() => this.ask(false)}>${apply ?? t('edit.apply')}</button>`}
        <button type="button" data-focus=${danger || same ? true : undefined} onClick=${onClose}>${back ?? t('edit.back')}</button></div>`;
  }

  render({ title, onClose }) {
    return html`<${Dialog} id="proposal-title" title=${title ?? t('edit.diff')} onClose=${onClose} wide>
      <div class="proposal" aria-live="polite" aria-busy=${this.state.busy}>${this.body()}</div><//>`;
  }
}
