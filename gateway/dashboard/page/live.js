// Asks for the live document once a second, and tells what happened between two of them.

import { call } from './api.js';
import { readAccess } from './resources.js';
import { set, state } from './store.js';

/// Seconds between two questions.
const EVERY = 1;
/// Seconds over which rates in tables are taken: one alone is restless.
const OVER = 5;
/// Seconds that charts show.
export const SPAN = 300;

/// Documents of the last seconds, the oldest first.
let documents = [];

const COLUMNS = ['time', 'requests', 'client_errors', 'server_errors', 'p50', 'p90', 'p99',
  'cpu_microseconds_per_request', 'cores_used', 'in_flight'];

/// Puts what is new behind what is there.
function joined(before, news, now) {
  const start = before ? before.time.findIndex((time) => time > now - SPAN - 2) : -1;
  const kept = (name) => (start < 0 ? [] : before[name].slice(start));
  return Object.fromEntries(COLUMNS.map((name) => [name, kept(name).concat(news[name])]));
}

function take(live) {
  const last = documents.at(-1);
  // Another process: what was counted before belongs to the old one.
  const anew = last && live.time - live.uptime > last.time - last.uptime + 5;
  if (anew) {
    documents = [];
    set({ access: null });
  }
  documents.push(live);
  while (documents.length > 1 && live.time - documents[1].time >= OVER) documents.shift();
  const history = joined(anew ? null : state.history, live.history, live.time);
  set({ live, history, lost: null });
}

/// Lists ask for their own rows; the document holds only the one route or upstream that is looked at.
function subject() {
  const { view, detail } = state;
  if (!detail || !['routes', 'upstreams'].includes(view)) return '';
  return `&${view.slice(0, -1)}=${encodeURIComponent(detail)}`;
}

let wake = () => {};

/// Asks at once, and not at the end of the second.
export function askNow() {
  wake();
}

async function ask() {
  const times = state.history?.time ?? [];
  const { body } = await call(`live?after=${times.at(-1) ?? 0}&routes=0&upstreams=0${subject()}`);
  take(body);
  // With another token, or another process, it may be another answer.
  if (!state.access) await readAccess();
}

/// Begins to ask. A page that nobody sees asks nothing; when it is seen again, the history brings what it missed.
export async function follow() {
  for (;;) {
    if (document.hidden) {
      await new Promise((seen) => document.addEventListener('visibilitychange', seen, { once: true }));
      continue;
    }
    const begun = performance.now();
    try {
      await ask();
    } catch (error) {
      set({ lost: state.lost ?? { since: Date.now(), why: error.message } });
    }
    const wait = state.lost ? 2 * EVERY : EVERY;
    const left = wait * 1000 - (performance.now() - begun);
    await new Promise((go) => { wake = go; setTimeout(go, Math.max(100, left)); });
  }
}

/// The upper bound of each bucket of a latency, in seconds; the last has none.
const bound = (index) => 1e-4 * 2 ** index;

/// The time that this part of all took at most: interpolated within its bucket, as the gateway does it.
function percentile(buckets, part) {
  const count = buckets.reduce((sum, one) => sum + one, 0);
  if (count === 0) return null;
  const rank = part * count;
  let below = 0;
  for (let index = 0; index < buckets.length; index += 1) {
    const inside = buckets[index];
    if (inside > 0 && below + inside >= rank) {
      const upper = bound(index);
      const lower = index === 0 ? 0 : upper / 2;
      if (index === buckets.length - 1) return lower;
      return lower + ((upper - lower) * (rank - below)) / inside;
    }
    below += inside;
  }
  return null;
}

/// What a list of the live document counted in the last seconds, by name: gives a function from an entry of now to
/// `{ rate, errorRate, failing, p50, p99 }`, in requests a second, or nothing before the second document.
export function recent(pick, key) {
  const now = documents.at(-1);
  const then = documents[0];
  const passed = now && then ? now.time - then.time : 0;
  const before = new Map(then ? pick(then).map((one) => [one[key], one]) : []);
  return (one) => {
    if (passed <= 0) return null;
    const earlier = before.get(one[key]);
    const requests = one.requests - (earlier?.requests ?? 0);
    const bad = (entry) => (entry ? entry.failures ?? entry.codes[5] : 0);
    const errors = bad(one) - bad(earlier);
    const buckets = one.latency?.buckets.map((count, index) => count - (earlier?.latency.buckets[index] ?? 0)) ?? [];
    return {
      rate: requests / passed,
      errors: requests > 0 ? errors / requests : 0,
      p50: percentile(buckets, 0.5),
      p99: percentile(buckets, 0.99),
    };
  };
}

/// What the last seconds of the history come to: means of rates, and the last of the others.
export function present(history) {
  const count = history?.time.length ?? 0;
  if (count === 0) return null;
  const from = Math.max(0, count - 3);
  const mean = (name) => {
    const some = history[name].slice(from);
    return some.reduce((sum, one) => sum + one, 0) / some.length;
  };
  const last = (name) => history[name].slice(from).findLast((value) => value !== null) ?? null;
  return {
    requests: mean('requests'),
    clientErrors: mean('client_errors'),
    serverErrors: mean('server_errors'),
    p50: last('p50'),
    p90: last('p90'),
    p99: last('p99'),
    cost: history.cpu_microseconds_per_request.at(-1),
    cores: history.cores_used.at(-1),
    inFlight: history.in_flight.at(-1),
  };
}
