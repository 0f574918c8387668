//! Lists of routes and upstreams with their figures: `GET /api/v1/live/routes` and `/api/v1/live/upstreams`.
//!
//! The gateway selects, sorts and pages, so that a client of a gateway with thousands of routes receives one
//! page. A row joins the resource, from the [`View`](tollgate_sources::View), with the counts and rates of
//! [`Figures`](tollgate_observe::live::Figures). The dashboard shows these rows.

mod page;
mod routes;
mod upstreams;

pub use self::routes::routes;
pub use self::upstreams::{upstream_limits, upstreams};
