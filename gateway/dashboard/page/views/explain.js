// Where a request would go, and why.

import { sendJson } from '../api.js';
import { percent, size, timeText } from '../format.js';
import { Bar, Card, Component, html, Pill, Table } from '../parts.js';
import { state } from '../store.js';
import { known, t } from '../text.js';

/// How each verdict of a policy is coloured.
const VERDICTS = {
  continues: 'good', 'ends here': 'bad', 'asks somebody else; here it continues': 'warn', 'waits; here it continues': 'warn',
};

const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'];

function place({ name, file, line }) {
  return html`<strong>${name}</strong>${file && html` <span class="quiet">${t('explain.line', { file, line })}</span>`}`;
}

function Values({ values, missing }) {
  if (values.length === 0) return html`<em class="quiet">${missing}</em>`;
  return values.map((value) => html`<code>${value}</code> `);
}

function forwarded(forward) {
  const endpoints = [{ label: t('endpoint') }, { label: t('col.weight'), number: true }, { label: t('explain.share'), number: true }];
  const changes = [{ label: t('explain.headers') }, { label: t('explain.before') }, { label: t('explain.after') }];
  const waits = Object.entries(forward.timeouts).map(([key, wait]) => `${key.replace(/_ms$/, '')} ${wait === null ? t('explain.off') : timeText(wait / 1e3)}`);
  return html`<div class="answer-part"><h3>${t('explain.goes')}</h3>
      ${forward.upstreams.map((upstream) => html`<div class="goes"><h4>${upstream.name}</h4>
        <${Table} label=${upstream.name} columns=${endpoints}>${upstream.endpoints.map((endpoint) => html`<tr>
          <th scope="row"><code>${endpoint.address}</code></th><td class="number">${endpoint.weight}</td>
          <td class="number share"><${Bar} part=${endpoint.share ?? 0} /><span>${percent(endpoint.share)}</span></td></tr>`)}<//>
        ${Object.keys(upstream.rules).length > 0 && html`<details><summary>${t('explain.rules')}</summary>
          <dl class="rules">${Object.entries(upstream.rules).map(([key, text]) => html`<dt><code>${key}</code></dt><dd>${text}</dd>`)}</dl></details>`}
      </div>`)}</div>
    <div class="answer-part"><h3>${t('explain.sent')}</h3><p><code class="target">${forward.target}</code></p>
      ${forward.upgrade && html`<p>${t('explain.upgrade')}</p>`}</div>
    ${forward.headers.length > 0 && html`<div class="answer-part"><h3>${t('explain.changes')}</h3>
      <${Table} label=${t('explain.changes')} columns=${changes}>${forward.headers.map((change) => html`<tr>
        <th scope="row"><code>${change.name}</code></th>
        <td><${Values} values=${change.before} missing=${t('explain.added')} /></td>
        <td><${Values} values=${change.after} missing=${t('explain.removed')} /></td></tr>`)}<//></div>`}
    <div class="answer-part"><h3>${t('explain.waits')}</h3><p class="quiet">${waits.join(' · ')}</p></div>`;
}

/// The policies that it meets, in their order, and what each says.
function Policies({ policies }) {
  const columns = [{ label: '#' }, { label: t('explain.policy') }, { label: t('explain.policy.of') }, { label: t('explain.policy.does') }, { label: t('explain.verdict') }];
  return html`<div class="answer-part"><h3>${t('explain.policies')}</h3>
    <${Table} label=${t('explain.policies')} columns=${columns} className="policies">${policies.map(({ kind, place, set, summary, verdict }, index) => html`<tr>
      <td class="quiet">${index + 1}</td><th scope="row"><code>${kind}</code></th><td>${set ? t('explain.by.set', { place, set }) : place}</td><td class="name">${summary}</td>
      <td><${Pill} kind=${VERDICTS[verdict] ?? ''}>${known(`verdict.${verdict}`) ? t(`verdict.${verdict}`) : verdict}<//></td></tr>`)}<//></div>`;
}

/// Where the cache keeps responses.
function stored({ memory, disk }) {
  return html`<div class="answer-part"><h3>${t('explain.stores')}</h3>
    <p>${t('explain.stores.memory', { n: size(memory) })}</p>
    ${disk && html`<p>${t('explain.stores.disk', { n: size(disk.size) })} <code>${disk.path}</code>
      ${disk.state && html` <${Pill} kind=${disk.state === 'ready' ? 'good' : 'warn'}>${t(`cache.disk.state.${disk.state}`)}<//>`}</p>`}</div>`;
}

function Answer({ answer }) {
  const { path, refused, route, forward, redirect, respond, files, others } = answer;
  return html`<${Card} id="answer" title=${t('explain.answer')} wide>
    <div class="verdict">
      ${refused && html`<p class="alert bad"><strong>${t('explain.refused')}</strong>: ${refused.status} <code>${refused.reason}</code>${refused.detail && ` – ${refused.detail}`}</p>`}
      ${route && html`<p class="alert good">${t('explain.taken')} ${place(route)}</p>`}
      ${answer.listener?.name && html`<p>${t('explain.listener')}: <strong>${answer.listener.name}</strong> <code>${answer.listener.bind}</code></p>`}
      ${path && path.sent !== path.normal && html`<p>${t('explain.path')}: <code>${path.sent}</code> → <code>${path.normal}</code></p>`}
    </div>
    ${answer.policies.length > 0 && html`<${Policies} policies=${answer.policies} />`}
    ${answer.stores && stored(answer.stores)}
    ${forward && forwarded(forward)}
    ${redirect && html`<div class="answer-part"><h3>${t('explain.redirect', { status: redirect.status })}</h3><p><code class="target">${redirect.location}</code></p></div>`}
    ${files && html`<div class="answer-part"><h3>${files.list ? t('explain.list') : t('explain.files')}</h3><p><code class="target">${files.path}</code></p></div>`}
    ${respond && html`<div class="answer-part"><h3>${t('explain.respond', { status: respond.status })}</h3>
      ${respond.headers.map((line) => html`<p><code>${line}</code></p>`)}<pre>${respond.body}</pre></div>`}
    ${others.length > 0 && html`<div class="answer-part"><h3>${t('explain.others')}</h3><ul class="others">
      ${others.map((other) => html`<li>${place(other)}: ${other.why}</li>`)}
      ${answer.others_left_out > 0 && html`<li class="quiet">${t('explain.left', { n: answer.others_left_out })}</li>`}</ul></div>`}
  <//>`;
}

export class Explain extends Component {
  constructor() {
    super();
    this.state = { answer: null, problem: null, busy: false };
  }

  async ask(event) {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    const headers = form.get('headers').split('\n').map((line) => line.trim()).filter((line) => line !== '');
    const from = form.get('from').trim();
    const listener = form.get('listener').trim();
    this.setState({ busy: true });
    try {
      const asked = { method: form.get('method'), url: form.get('url').trim(), headers, ...(from ? { from } : {}), ...(listener ? { listener } : {}) };
      const { body } = await sendJson('POST', 'explain', asked);
      this.setState({ answer: body, problem: null });
    } catch (error) {
      this.setState({ answer: null, problem: error });
    }
    this.setState({ busy: false });
    document.getElementById('explain-result')?.focus();
  }

  render(_, { answer, problem, busy }) {
    const where = problem?.problems?.[0]?.pointer ?? '';
    const field = where.startsWith('/headers') ? 'headers' : where.startsWith('/from') ? 'from' : where.startsWith('/listener') ? 'listener' : where.startsWith('/method') ? 'method' : 'url';
    const wrong = (name) => problem && field === name && html`<p class="field-problem" id="explain-problem" role="alert">${problem.message}</p>`;
    const invalid = (name) => (problem && field === name ? { 'aria-invalid': 'true', 'aria-describedby': 'explain-problem' } : {});
    return html`<${Card} id="explain" title=${t('explain.title')} wide>
      <p class="lead">${t('explain.lead')}</p>
      <form class="explain" onSubmit=${(event) => this.ask(event)}>
        <label class="method">${t('explain.method')}<input name="method" list="methods" value="GET" required autocomplete="off" spellcheck=${false} ...${invalid('method')} />
          <datalist id="methods">${METHODS.map((method) => html`<option value=${method} />`)}</datalist>${wrong('method')}</label>
        <label class="url">${t('explain.url')}<input name="url" placeholder="/v1/users?page=2" required autocomplete="off" spellcheck=${false} ...${invalid('url')} />
          <small>${t('explain.url.hint')}</small>${wrong('url')}</label>
        <label class="headers">${t('explain.headers')}<textarea name="headers" rows="3" spellcheck=${false} placeholder="X-Beta: yes" ...${invalid('headers')}></textarea>
          <small>${t('explain.headers.hint')}</small>${wrong('headers')}</label>
        <label class="from">${t('explain.from')}<input name="from" placeholder="127.0.0.1" autocomplete="off" spellcheck=${false} ...${invalid('from')} />${wrong('from')}</label>
        <label class="from">${t('explain.listener')}<input name="listener" autocomplete="off" spellcheck=${false} ...${invalid('listener')} />
          <small>${t('explain.listener.hint')}</small>${wrong('listener')}</label>
        <div class="buttons"><button class="primary" disabled=${busy}>${t('explain.ask')}</button></div>
      </form>
    <//>
    <div id="explain-result" tabindex="-1" aria-live="polite">${answer && html`<${Answer} answer=${answer} />`}</div>`;
  }
}
