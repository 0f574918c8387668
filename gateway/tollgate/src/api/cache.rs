//! Endpoints of the admin API for the stored responses of the policies `cache`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde_json::{Value, json};
use tollgate_cache::{Counts, DiskStatus, Purge, PurgeMode, Store};
use tollgate_net::component;
use tollgate_policy::KEY_SEPARATOR;
use tracing::info;

use super::body;
use super::response::{body as respond, error_response, json_or_yaml, wants_yaml};
use crate::access::ClientName;
use crate::admin_context::AdminContext;

/// How long a purge waits until the disk tier has written it.
const DISK_WAIT: Duration = Duration::from_secs(10);

/// `GET /api/v1/cache`: returns how much is stored, and how many requests it has answered.
pub async fn get(State(context): State<AdminContext>, headers: HeaderMap) -> Response {
    let counts = store(&context).map_or_else(Counts::default, |store| store.counts());
    let capacity = context.plan.borrow().settings.cache.memory;
    let looked_up = counts.hits + counts.misses;
    let ratio = (looked_up > 0).then(|| counts.hits as f64 / looked_up as f64);
    let mut state = json!({
        "objects": counts.objects,
        "bytes": counts.bytes,
        "capacity": capacity,
        "hits": counts.hits,
        "misses": counts.misses,
        "hit_ratio": ratio.map(|ratio| (ratio * 1e4).round() / 1e4),
        "followed": counts.followed,
        "evictions": counts.evictions,
        "refused": counts.refused,
    });
    if let Some(status) = store(&context).and_then(|store| store.disk_status()) {
        state["disk"] = disk_tier(&status);
    }
    json_or_yaml(&headers, &state)
}

fn disk_tier(status: &DiskStatus) -> Value {
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let counters = &status.counters;
    json!({
        "state": status.state.as_str(),
        "objects": status.objects,
        "bytes": status.bytes,
        "capacity": status.size_bytes,
        "waiting_bytes": status.waiting_bytes,
        "waiting_purges": status.waiting_purges,
        "hits": count(&counters.hits),
        "read_bytes": count(&counters.read_bytes),
        "writes": count(&counters.writes),
        "written_bytes": count(&counters.written_bytes),
        "drops": count(&counters.drops),
        "evictions": count(&counters.evictions),
        "errors": count(&counters.errors),
        "problem": status.problem,
    })
}

/// `POST /api/v1/cache/purge`: removes stored responses, or marks them as stale. It holds for this process.
pub async fn purge(
    State(context): State<AdminContext>,
    ClientName(who): ClientName,
    headers: HeaderMap,
    content: Body,
) -> Response {
    let value = match body::read(&headers, content).await {
        Ok(body) => body.value,
        Err(response) => return *response,
    };
    let request = match PurgeRequest::parse(&value) {
        Ok(request) => request,
        Err(message) => return error_response(StatusCode::BAD_REQUEST, "bad_request", &message),
    };
    info!(target: component::ADMIN, "audit: purge of the cache by {who}: {value}");
    let (purged, is_durable) = match store(&context) {
        // It visits all objects, and waits for the disk.
        Some(store) => {
            tokio::task::spawn_blocking(move || request.carry_out(&store)).await.unwrap_or_default()
        }
        None => (0, true),
    };
    let mut answer = json!({ "purged": purged });
    if !is_durable {
        answer["durable"] = json!(false);
    }
    respond(StatusCode::OK, wants_yaml(&headers), &answer)
}

fn store(context: &AdminContext) -> Option<Arc<Store>> {
    context.plan.borrow().policies().known_cache().cloned()
}

/// What is purged.
#[derive(Debug, PartialEq, Eq)]
enum Target {
    /// One URL: the keys that begin with it and a separator.
    Key(String),
    Prefix(String),
    Tag(String),
    All,
}

#[derive(Debug, PartialEq, Eq)]
struct PurgeRequest {
    target: Target,
    is_soft: bool,
}

impl PurgeRequest {
    /// Parses the body of a request.
    ///
    /// # Errors
    /// Returns a readable reason why the value is invalid.
    fn parse(value: &Value) -> Result<Self, String> {
        const EXPECTED: &str = "give one of `key`, `prefix`, `tag` and `all: true`";
        let entries = value.as_object().ok_or("the body is not a mapping")?;
        let (mut target, mut is_soft) = (None, false);
        for (name, value) in entries {
            let text = || value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
            let text = || text().ok_or_else(|| format!("`{name}` is not a text"));
            let next = match name.as_str() {
                "key" => Target::Key(text()?),
                "prefix" => Target::Prefix(text()?),
                "tag" => Target::Tag(text()?),
                "all" if *value == json!(true) => Target::All,
                "soft" => {
                    is_soft = value.as_bool().ok_or("`soft` is neither true nor false")?;
                    continue;
                }
                _ => return Err(format!("`{}`: {EXPECTED}", name.chars().take(64).collect::<String>())),
            };
            if target.replace(next).is_some() {
                return Err(format!("the request names more than one thing: {EXPECTED}"));
            }
        }
        let target = target.ok_or_else(|| format!("the request names nothing: {EXPECTED}"))?;
        Ok(Self { target, is_soft })
    }

    /// Returns how many responses in memory it concerned, and whether it holds after a restart too.
    fn carry_out(&self, store: &Store) -> (u64, bool) {
        let mode = if self.is_soft { PurgeMode::MarkStale } else { PurgeMode::Remove };
        let purge = |what: Purge<'_>| store.purge_durably(what, mode, DISK_WAIT);
        match &self.target {
            Target::Key(url) => purge(Purge::Prefix(&[url.as_bytes(), &[KEY_SEPARATOR]].concat())),
            Target::Prefix(prefix) => purge(Purge::Prefix(prefix.as_bytes())),
            Target::Tag(tag) => purge(Purge::Tags(&[tag.as_bytes()])),
            Target::All => purge(Purge::All),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_purge_names_exactly_one_thing() {
        let parse = |value: Value| PurgeRequest::parse(&value);
        let key = Target::Key("http://a/".to_owned());
        assert_eq!(parse(json!({ "key": "http://a/" })), Ok(PurgeRequest { target: key, is_soft: false }));
        assert_eq!(
            parse(json!({ "all": true, "soft": true })),
            Ok(PurgeRequest { target: Target::All, is_soft: true })
        );
        for (value, part) in [
            (json!([]), "not a mapping"),
            (json!({}), "names nothing"),
            (json!({ "soft": true }), "names nothing"),
            (json!({ "key": "a", "tag": "b" }), "more than one"),
            (json!({ "tags": "b" }), "`tags`"),
            (json!({ "tag": ["b"] }), "`tag` is not a text"),
            (json!({ "key": "" }), "`key` is not a text"),
            (json!({ "all": false }), "`all`"),
            (json!({ "all": true, "soft": 1 }), "`soft`"),
        ] {
            let message = parse(value.clone()).expect_err("invalid");
            assert!(message.contains(part), "{value}: {message}");
        }
    }
}
