// The page: its frame, which view is shown, language and colours.

import { render } from './vendor/preact.mjs';
import { age, moment } from './format.js';
import { askNow, follow } from './live.js';
import { Alert, Component, html, Pill } from './parts.js';
import { drawnBy, kept, set, state } from './store.js';
import { preferred, t } from './text.js';
import { TokenDialog } from './token-dialog.js';
import { askAgain, forget } from './token.js';
import { languages } from './words.js';
import { Cache } from './views/cache.js';
import { Capacity } from './views/capacity.js';
import { Changes } from './views/changes.js';
import { Explain } from './views/explain.js';
import { Listeners } from './views/listeners.js';
import { Overview } from './views/overview.js';
import { plain } from './views/plain.js';
import { Requests } from './views/requests.js';
import { Routes } from './views/routes.js';
import { Upstreams } from './views/upstreams.js';

const views = {
  overview: Overview, routes: Routes, upstreams: Upstreams, listeners: Listeners, streams: plain('streams'), consumers: plain('consumers'), certificates: plain('certificates'),
  policies: plain('policies'), cache: Cache, capacity: Capacity, explain: Explain, requests: Requests, changes: Changes,
};
const themes = ['auto', 'light', 'dark'];
const system = matchMedia('(prefers-color-scheme: dark)');

/// A part of the address; one that is not encoded well is taken as it is.
function decoded(text) {
  try { return decodeURIComponent(text); } catch { return text; }
}

/// Which view the address names, what of it, and the query behind that: `#routes/shop`, `#routes?sort=p99`.
function place() {
  const [path, query = ''] = location.hash.slice(1).split('?', 2);
  const [view, detail] = path.split('/').map(decoded);
  // What was done is told until one goes on; what is done by going on is told there.
  const notice = state.notice?.told ? null : state.notice;
  set({
    view: view in views ? view : 'overview', detail: detail || null, query: Object.fromEntries(new URLSearchParams(query)),
    notice: notice && { ...notice, told: true },
  });
  // What was left out of the last document may be the subject now.
  if (detail) askNow();
}

function colours(theme) {
  const dark = theme === 'dark' || (theme === 'auto' && system.matches);
  document.documentElement.dataset.theme = dark ? 'dark' : 'light';
  set({ theme, dark });
}

function speak(language) {
  document.documentElement.lang = language === 'zh' ? 'zh-CN' : language;
  set({ language });
}

/// Only a choice is stored. Without one, the page follows the browser, also when that changes.
function choose(name, value) {
  kept.set(name, value);
  if (name === 'language') speak(value);
  else colours(value);
}

function follows() {
  const language = kept.get('language');
  speak(language in languages ? language : preferred(navigator.languages));
  const theme = kept.get('theme');
  colours(themes.includes(theme) ? theme : 'auto');
}

function Brand() {
  return html`<a class="brand" href="#overview"><img src="icon.svg" alt="" width="26" height="26" />Tollgate</a>`;
}

function Where({ live, lost }) {
  if (state.token.declined) return null;
  if (lost) return html`<${Pill} kind="bad">${t('state.lost')}<//>`;
  if (!live) return null;
  const at = moment(live.in_force_since);
  return html`<${Pill} kind=${live.state === 'running' ? 'good' : 'warn'}>${t(`state.${live.state}`)}<//>
    <span class="quiet nowrap" title=${t('generation.hint', { at })}>${t('generation', { n: live.generation })}</span>
    <span class="quiet nowrap">${t('up', { age: age(live.uptime) })}</span>
    <span class="quiet nowrap">${live.version}</span>`;
}

function Switches() {
  return html`<label class="switch"><span class="hidden">${t('language')}</span>
      <select onChange=${(event) => choose('language', event.currentTarget.value)} value=${state.language}>
        ${Object.entries(languages).map(([key, name]) => html`<option value=${key} lang=${key} selected=${key === state.language}>${name}</option>`)}</select></label>
    <label class="switch"><span class="hidden">${t('theme')}</span>
      <select onChange=${(event) => choose('theme', event.currentTarget.value)} value=${state.theme}>
        ${themes.map((key) => html`<option value=${key} selected=${key === state.theme}>${t(`theme.${key}`)}</option>`)}</select></label>`;
}

/// The tabs. On a narrow screen they scroll sideways, and the present one is brought into sight. Their addresses begin with
/// `./`, because checkers of accessibility take a link to `#name` beyond the edge for one that skips to a part of the page.
class Nav extends Component {
  componentDidMount() {
    this.show();
  }

  componentDidUpdate(before) {
    if (before.view !== this.props.view) this.show();
  }

  show() {
    const one = this.element?.querySelector('[aria-current]');
    if (!one) return;
    const [left, right] = [one.offsetLeft - this.element.offsetLeft, one.offsetLeft - this.element.offsetLeft + one.offsetWidth];
    // Part of the next tab stays in sight: a sign that there is one.
    const margin = 48;
    if (left - margin < this.element.scrollLeft) this.element.scrollLeft = left - margin;
    else if (right + margin > this.element.scrollLeft + this.element.clientWidth) this.element.scrollLeft = right + margin - this.element.clientWidth;
  }

  render({ view }) {
    return html`<nav class="tabs" aria-label=${t('nav')} ref=${(element) => { if (element) this.element = element; }}><ul>${Object.keys(views).map((key) => html`<li>
      <a href=${`./#${key}`} aria-current=${key === view ? 'page' : undefined}>${t(`view.${key}`)}</a></li>`)}</ul></nav>`;
  }
}

/// What has just been changed.
function Done({ notice }) {
  return html`<p class="alert good" role="status">${t('edit.done', { n: notice.version })} <a href=${`#changes/${notice.version}`}>${t('edit.done.look')}</a></p>`;
}

/// What concerns the whole page, in the order of its weight.
function Notices({ live, lost, token, notice }) {
  return html`
    ${token.declined && html`<div class="alert warn" role="alert">${t('token.missing')} <button type="button" onClick=${askAgain}>${t('token.give')}</button></div>`}
    ${notice && html`<${Done} key=${notice.version} notice=${notice} />`}
    ${lost && live && !token.declined && html`<${Alert}>${t('lost', { why: lost.why, at: moment(live.time) })}<//>`}
    ${live?.state === 'draining' && html`<${Alert} kind="warn">${t('draining')}<//>`}
    ${live && live.resources.shed.length > 0 && html`<${Alert}>${t('shed', { list: live.resources.shed.join(', ') })}<//>`}
    ${live?.last_change?.problem && html`<${Alert} kind="warn">${t('change.failed', { why: live.last_change.problem })}<//>`}
    ${live && !live.metrics && html`<${Alert} kind="warn">${t('metrics.off')}<//>`}`;
}

/// A defect in one view leaves the others.
class Page extends Component {
  constructor() {
    super();
    this.state = { problem: null };
  }

  static getDerivedStateFromError(problem) {
    return { problem };
  }

  componentDidUpdate(before) {
    if (this.state.problem && before.place !== this.props.place) this.setState({ problem: null });
  }

  render({ view }, { problem }) {
    if (problem) {
      console.error(problem);
      return html`<${Alert}>${t('failed', { why: problem.message })}<//>`;
    }
    return html`<${views[view]} key=${view} detail=${state.detail} />`;
  }
}

function App() {
  const { live, lost, notice, token, view } = state;
  return html`
    <a class="skip" href="#content" onClick=${(event) => { event.preventDefault(); document.getElementById('content').focus(); }}>${t('skip')}</a>
    <header class="top"><div class="bar-row"><${Brand} />
      <div class="where" role="status"><${Where} live=${live} lost=${lost} /></div>
      <div class="switches">${token.given && html`<button type="button" class="forget" onClick=${forget}>${t('token.forget')}</button>`}<${Switches} /></div></div>
      <${Nav} view=${view} /></header>
    <main id="content" tabindex="-1">
      <h1 class="hidden">${t(`view.${view}`)}</h1>
      <${Notices} live=${live} lost=${lost} token=${token} notice=${notice} />
      ${live ? html`<${Page} view=${view} place=${`${view}/${state.detail}`} />` : html`<p class="empty">${token.declined ? '' : lost ? t('lost', { why: lost.why, at: '–' }) : t('loading')}</p>`}
    </main>
    ${token.asked && html`<${TokenDialog} wrong=${token.wrong} />`}`;
}

function draw() {
  document.title = `${t(`view.${state.view}`)} · Tollgate`;
  render(html`<${App} />`, document.getElementById('app'));
}

follows();
system.addEventListener('change', follows);
addEventListener('languagechange', follows);
addEventListener('hashchange', place);
place();
drawnBy(draw);
draw();
follow();
