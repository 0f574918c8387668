//! Lists of routes and upstreams with their figures: `GET /api/v1/live/routes` and `/api/v1/live/upstreams`.
//!
//! The gateway selects, sorts and pages, so that a client of a gateway with thousands of routes receives one
//! page. A row joins the resource, from the [`View`](tollgate_sources::View), with the counts and rates of
//! [`Figures`](tollgate_observe::live::Figures). The dashboard shows these rows.

mod routes;
mod upstreams;

use std::cmp::Ordering;

use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use self::routes::routes;
pub use self::upstreams::{upstream_limits, upstreams};
use crate::api::{error_response, json_or_yaml};

/// Rows of a page unless the client sets `limit`.
const LIMIT_DEFAULT: usize = 50;

/// Bound of the rows of a page.
const LIMIT_MAX: usize = 1_000;

/// The direction of the order.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Direction {
    Asc,
    Desc,
}

/// A page of a list.
#[derive(Debug, Serialize)]
struct Page {
    time: f64,
    window: f64,
    total: usize,
    found: usize,
    offset: usize,
    /// Requests per second of all rows, including rows on other pages and rows that the filter leaves out.
    rate: f64,
    items: Vec<Value>,
}

/// Makes a page on a blocking thread, because sorting thousands of rows takes milliseconds.
async fn answer(headers: &HeaderMap, make: impl FnOnce() -> Page + Send + 'static) -> Response {
    match tokio::task::spawn_blocking(move || json!(make())).await {
        Ok(page) => json_or_yaml(headers, &page),
        Err(_) => error_response(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the list could not be made"),
    }
}

/// Returns the order of two rows, from the order that puts the least first.
fn directed(least_first: Ordering, order: Direction) -> Ordering {
    if order == Direction::Asc { least_first } else { least_first.reverse() }
}

/// Returns the rows of a page.
fn paged<T>(rows: Vec<T>, offset: usize, limit: Option<usize>) -> impl Iterator<Item = T> {
    rows.into_iter().skip(offset).take(limit.unwrap_or(LIMIT_DEFAULT).min(LIMIT_MAX))
}
