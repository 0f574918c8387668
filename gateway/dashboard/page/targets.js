// Where requests are shared out, in every form that the configuration has for it: a route's `to`, an upstream's endpoints.

/// The list of those that share, where it is in the value, and how a value with another one is made.
function shared(kind, value) {
  if (kind === 'routes') {
    const to = value?.to;
    if (to === undefined) return null;
    return { pointer: '/to', list: to, put: (list) => ({ ...value, to: list }) };
  }
  // Of a kind that shares nothing out, or one that is yet to be written.
  if (kind !== 'upstreams' || value === null || value === undefined) return null;
  if (typeof value !== 'object' || Array.isArray(value)) return { pointer: '', list: value, put: (list) => list };
  if (value.endpoints === undefined) return null;
  return { pointer: '/endpoints', list: value.endpoints, put: (list) => ({ ...value, endpoints: list }) };
}

const entries = (list) => (Array.isArray(list) ? list : [list]);

/// `{ name, weight, drains, upstream, pointer }` of each; `pointer` is where its weight is, or would be. `upstream`: whether the name may be one.
export function targets(kind, value) {
  const found = shared(kind, value);
  if (!found) return [];
  const one = (entry, index) => {
    const plain = typeof entry === 'string';
    const name = plain ? entry : entry.upstream ?? entry.address ?? '';
    const place = Array.isArray(found.list) ? `${found.pointer}/${index}` : found.pointer;
    const drains = !plain && [true, 'on', 'yes', 'true'].includes(entry.drain);
    return { name, drains, weight: plain ? 1 : entry.weight ?? 1, pointer: place, upstream: kind === 'routes' && !/[:/]/.test(name) };
  };
  return entries(found.list).map(one);
}

/// The value with other weights.
export function withWeights(kind, value, weights) {
  const found = shared(kind, value);
  const list = entries(found.list).map((entry, index) => {
    const weight = weights[index];
    if (typeof entry !== 'string') return entry.weight === undefined && weight === 1 ? entry : { ...entry, weight };
    if (weight === 1) return entry;
    const key = kind === 'routes' && !/[:/]/.test(entry) ? 'upstream' : 'address';
    return { [key]: entry, weight };
  });
  return found.put(Array.isArray(found.list) ? list : list[0]);
}

/// The parts of the requests that weights come to; of weights that are none, nothing.
export function parts(weights) {
  const numbers = weights.map(Number);
  const sum = numbers.reduce((all, one) => all + one, 0);
  return numbers.map((one) => (Number.isFinite(sum) && sum > 0 && one >= 0 ? one / sum : null));
}
