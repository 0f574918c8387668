//! `GET /api/v1/cache/objects`: the stored responses with the most hits, the most bytes or the highest age.
//!
//! It visits the whole store on a thread of its own and keeps only the responses that it returns, so its memory does
//! not grow with the store.

use std::cmp::Reverse;
use std::sync::Arc;

use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};
use tollgate_cache::{Moment, Store, Stored};
use tollgate_policy::KEY_SEPARATOR;

use super::cache::store;
use super::response::{error_response, json_or_yaml};
use crate::admin_context::AdminContext;

/// The most responses of an answer.
const ITEMS_MAX: usize = 500;
/// The number without `limit`.
const ITEMS_DEFAULT: usize = 25;
/// The most tags that are listed of a response.
const TAGS_MAX: usize = 16;

/// The query parameters.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObjectQuery {
    #[serde(default)]
    sort: Order,
    /// Only responses whose URL begins so.
    prefix: Option<String>,
    limit: Option<usize>,
}

/// The order of the responses, highest value first.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Order {
    #[default]
    Hits,
    Bytes,
    Age,
}

/// Lists stored responses, the leading one first.
pub async fn list(
    State(context): State<AdminContext>,
    Query(query): Query<ObjectQuery>,
    headers: HeaderMap,
) -> Response {
    if query.limit.is_some_and(|limit| limit > ITEMS_MAX) {
        let message = format!("`limit` is above {ITEMS_MAX}");
        return error_response(StatusCode::BAD_REQUEST, "bad_request", &message);
    }
    let found = match store(&context) {
        Some(store) => tokio::task::spawn_blocking(move || leading(&store, &query)).await.unwrap_or_default(),
        None => (0, Vec::new()),
    };
    let now = Moment::from(std::time::SystemTime::now());
    let items: Vec<Value> = found.1.iter().map(|stored| describe(stored, now)).collect();
    json_or_yaml(&headers, &json!({ "found": found.0, "items": items }))
}

/// Returns how many responses the query finds, and the leading ones.
fn leading(store: &Store, query: &ObjectQuery) -> (u64, Vec<Arc<Stored>>) {
    let now = Moment::from(std::time::SystemTime::now());
    let measure = |stored: &Stored| match query.sort {
        Order::Hits => u64::from(stored.hits()),
        Order::Bytes => stored.cost(),
        Order::Age => stored.head().age(now),
    };
    let limit = query.limit.unwrap_or(ITEMS_DEFAULT);
    let prefix = query.prefix.as_deref().unwrap_or_default().as_bytes();
    let (mut found, mut best) = (0, Vec::new());
    let lead = |best: &mut Vec<(u64, Arc<Stored>)>| {
        best.sort_by(|one, other| (Reverse(one.0), one.1.key()).cmp(&(Reverse(other.0), other.1.key())));
        best.truncate(limit);
    };
    store.for_each(|stored| {
        if stored.key().starts_with(prefix) {
            found += 1;
            best.push((measure(stored), stored.clone()));
            if best.len() >= 4 * ITEMS_MAX {
                lead(&mut best);
            }
        }
    });
    lead(&mut best);
    (found, best.into_iter().map(|(_, stored)| stored).collect())
}

fn describe(stored: &Stored, now: Moment) -> Value {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut parts = stored.key().split(|byte| *byte == KEY_SEPARATOR).map(text);
    let head = stored.head();
    let vary: Vec<String> =
        head.vary().into_iter().flat_map(|vary| vary.fields()).map(|(name, _)| text(name)).collect();
    json!({
        "url": parts.next(),
        "place": parts.next(),
        "status": head.status(),
        "bytes": stored.length(),
        "cost": stored.cost(),
        "age": head.age(now),
        "ttl": head.freshness().left_millis(now).div_euclid(1000),
        "hits": stored.hits(),
        "stale": !stored.is_usable(now),
        "vary": vary,
        "tags": head.tags().take(TAGS_MAX).map(text).collect::<Vec<_>>(),
    })
}
