// The page's state, in one place. Whoever changes it says what is new; the page is drawn again once for all that changed.

export const state = {
  view: 'overview',
  /// The query of the address: which page of a list, its order, its filter.
  query: {},
  language: 'en',
  theme: 'auto',
  live: null,
  history: null,
  lost: null,
  /// The change that was made last: `{ version }`.
  notice: null,
  /// The resource with which a new one begins: `{ kind, text }`.
  copy: null,
  /// What `GET /api/v1` says.
  access: null,
  /// Whether a change was refused because the token may only read.
  readOnly: false,
  token: { asked: false, wrong: false, declined: false, given: false },
};

let draw = () => {};
let due = false;

/// What is called to draw the page.
export function drawnBy(render) {
  draw = render;
}

/// Changes some of the state.
export function set(changes) {
  Object.assign(state, changes);
  if (due) return;
  due = true;
  queueMicrotask(() => {
    due = false;
    draw();
  });
}

/// Draws again after something inside the state was changed in place.
export function changed() {
  set({});
}

/// What is kept over visits; a browser may refuse to keep anything.
export const kept = {
  get(name) {
    try { return localStorage.getItem(`tollgate.${name}`); } catch { return null; }
  },
  set(name, value) {
    try { localStorage.setItem(`tollgate.${name}`, value); } catch { /* for this visit, then */ }
  },
};
