//! Compiled matching of host, path, method, headers and query.
//!
//! A request's path is first converted to its one normal form ([`normalise`]). The same bytes are then
//! matched ([`Router::find`]), authorised and sent upstream. `docs/paths.md` has the rule of every byte;
//! `docs/matching.md` has the order in which routes win. The examples in both are tests of this crate.
//!
//! | File | Contents |
//! |---|---|
//! | `path/` | the normal form of a path, and the reasons to refuse one |
//! | `spec.rs` | the conditions of a route, as data |
//! | `request.rs` | the view of a request that matching needs |
//! | `router.rs` | the compiled table: which route takes a request |
//! | `router/hosts.rs` | the configured hosts that cover a name, most specific first |
//! | `router/trie.rs` | the configured paths of a host that lead to a request's path |
//! | `router/texts.rs` | texts that paths begin or end with |
//! | `router/pattern.rs` | regular expressions |
//! | `router/conditions.rs`, `router/query.rs` | conditions on method, headers and query |
//! | `router/routers.rs` | a router for each set of routes, for listeners with routes of their own |
//! | `router/conflicts.rs` | identical routes, and routes that only list order separates |
//! | `router/explain.rs` | why a route takes a request, and why every other route does not |

mod escape;
pub mod path;
mod request;
mod router;
mod spec;

pub use escape::percent_decoded;
pub use path::{EncodedSlash, Normalised, PathError, PathRules, Semicolon, normalise, normalise_rewritten};
pub use request::Request;
pub use router::conflicts::{Shadow, ShadowCause, Tie};
pub use router::error::{BuildError, RoutePosition};
pub use router::explain::{Criterion, Explanation, MismatchReason};
pub use router::pattern::PathPattern;
pub use router::query::{is_form_encoding, query_parameter};
pub use router::routers::{Groups, Routers};
pub use router::{PreparedRoute, Router};
pub use spec::{Age, FieldSpec, PathSpec, RouteSpec, ValueSpec};
