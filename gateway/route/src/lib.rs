//! Compiled matching of host, path, method, headers and query.
//!
//! A request's path is first brought into its one normal form ([`normalise`]); the same bytes are then
//! matched ([`Router::find`]), authorised and sent upstream. `docs/paths.md` has the rule of every byte,
//! `docs/matching.md` the order in which routes win; the examples in both are tests of this crate.
//!
//! | File | What it answers |
//! |---|---|
//! | `path/` | What is the normal form of this path, or why has it none? |
//! | `spec.rs` | What may a route ask for? |
//! | `request.rs` | What must a request tell? |
//! | `router.rs` | Which route takes this request? |
//! | `router/hosts.rs` | Which hosts does a name fall under, most specific first? |
//! | `router/trie.rs` | Which paths of a host are a beginning of this one? |
//! | `router/pattern.rs` | What does a regular expression match? |
//! | `router/conditions.rs`, `router/query.rs` | Do method, headers and query fit? |
//! | `router/conflicts.rs` | Which routes are the same, and which does only list order tell apart? |
//! | `router/explain.rs` | Why this route, and why not the others? |

mod escape;
pub mod path;
mod request;
mod router;
mod spec;

pub use escape::percent_decoded;
pub use path::{EncodedSlash, Normalised, PathError, PathRules, Semicolon, normalise, normalise_rewritten};
pub use request::Request;
pub use router::conflicts::Tie;
pub use router::error::{BuildError, Place};
pub use router::explain::{Criterion, Explanation, Why};
pub use router::pattern::PathPattern;
pub use router::query::{is_form_encoding, query_parameter};
pub use router::{Prepared, Router};
pub use spec::{FieldSpec, PathSpec, RouteSpec, ValueSpec};
