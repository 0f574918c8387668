// The shares of a route's targets or an upstream's endpoints, as numbers that can be changed.

import { percent } from './format.js';
import { Bar, Card, Component, html } from './parts.js';
import { problemsAt } from './problems.js';
import { writing } from './resources.js';
import { parts, targets, withWeights } from './targets.js';
import { t } from './text.js';

/// `found`: the resource as it was read; `refused`: what the gateway said of these weights. `propose` is given the change.
export class Weights extends Component {
  constructor(properties) {
    super(properties);
    this.state = this.fresh(properties);
  }

  fresh({ kind, found }) {
    return { of: found, weights: targets(kind, found.value).map((one) => String(one.weight)) };
  }

  static getDerivedStateFromProps({ kind, found, keep }, state) {
    if (found === state.of) return null;
    const weights = targets(kind, found.value).map((one) => String(one.weight));
    // What was typed in stays, if it still fits what there is now.
    return { of: found, weights: keep && weights.length === state.weights.length ? state.weights : weights };
  }

  go(event) {
    event.preventDefault();
    const { kind, name, found, propose } = this.props;
    // What is no number goes as it is: the gateway says what it should be.
    const weights = this.state.weights.map((text) => (/^\d+$/.test(text.trim()) ? Number(text) : text));
    propose(writing(kind, name, JSON.stringify(withWeights(kind, found.value, weights)), found.etag));
  }

  render({ kind, found, refused, locked }, { weights: typed }) {
    const all = targets(kind, found.value);
    const weights = locked ? all.map((one) => String(one.weight)) : typed;
    const shares = parts(weights);
    const change = (index) => (event) => {
      const next = [...weights];
      next[index] = event.currentTarget.value;
      this.setState({ weights: next });
    };
    const row = (target, index) => {
      const problems = problemsAt(refused, target.pointer);
      const id = `weight-problem-${index}`;
      return html`<li key=${target.pointer}>
        <label class="weight"><span class="hidden">${t('edit.weight.of', { name: target.name })}</span>
          <span class="name" aria-hidden="true">${target.name}</span>
          <input name=${`weight-${index}`} inputmode="numeric" autocomplete="off" value=${weights[index]} disabled=${locked} onInput=${change(index)}
            aria-invalid=${problems.length > 0 ? 'true' : undefined} aria-describedby=${problems.length > 0 ? id : undefined} /></label>
        <span class="share"><${Bar} part=${shares[index] ?? 0} /><span>${percent(shares[index])}</span></span>
        ${problems.length > 0 && html`<p class="field-problem" id=${id} role="alert">${problems.map((one) => one.message).join('; ')}</p>`}</li>`;
    };
    // Of two targets, the share of the second: a canary, often.
    const slide = (event) => {
      const part = Number(event.currentTarget.value);
      this.setState({ weights: [String(100 - part), String(part)] });
    };
    const slider = all.length === 2 && !locked && html`<label class="slider">${t('edit.slider', { name: all[1].name })}
      <input type="range" name="share" min="0" max="100" step="1" value=${Math.round((shares[1] ?? 0) * 100)} aria-valuetext=${percent(shares[1])} onInput=${slide} /></label>`;
    return html`<${Card} id="weights" title=${t('edit.weights')}>
      <form class="weights" onSubmit=${(event) => this.go(event)}>
        <p class="quiet">${t('edit.weights.lead')}</p>
        <ul>${all.map(row)}</ul>
        ${slider}
        ${!locked && html`<div class="buttons"><button class="primary">${t('edit.preview')}</button></div>`}
      </form><//>`;
  }
}
