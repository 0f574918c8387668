//! A page of a list: its form, its order, and its response.

use std::cmp::Ordering;

use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::api::{error_response, json_or_yaml};

/// Rows of a page unless the client sets `limit`.
const LIMIT_DEFAULT: usize = 50;

/// Bound of the rows of a page.
const LIMIT_MAX: usize = 1_000;

/// The direction of the order.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum Direction {
    Asc,
    Desc,
}

/// A page of a list.
#[derive(Debug, Serialize)]
pub(super) struct Page {
    pub time: f64,
    pub window: f64,
    pub total: usize,
    pub found: usize,
    pub offset: usize,
    /// Requests per second of all rows, including rows on other pages and rows that the filter leaves out.
    pub rate: f64,
    pub items: Vec<Value>,
}

/// Makes a page on a blocking thread, because sorting thousands of rows takes milliseconds.
pub(super) async fn answer(headers: &HeaderMap, make: impl FnOnce() -> Page + Send + 'static) -> Response {
    match tokio::task::spawn_blocking(move || json!(make())).await {
        Ok(page) => json_or_yaml(headers, &page),
        Err(_) => error_response(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the list could not be made"),
    }
}

/// Returns the order of two rows, from the order that puts the least first.
pub(super) fn directed(least_first: Ordering, order: Direction) -> Ordering {
    if order == Direction::Asc { least_first } else { least_first.reverse() }
}

/// Returns the rows of a page.
pub(super) fn paged<T>(rows: Vec<T>, offset: usize, limit: Option<usize>) -> impl Iterator<Item = T> {
    rows.into_iter().skip(offset).take(limit.unwrap_or(LIMIT_DEFAULT).min(LIMIT_MAX))
}
