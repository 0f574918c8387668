//! `headers`.

use std::sync::Arc;

use tollgate_config as config;
use tollgate_policy::{Change, HeaderRules};

pub(super) fn headers(headers: &config::Headers) -> HeaderRules {
    let change = |change: &config::HeaderChange| Change {
        remove: change.remove.clone(),
        set: change.set.clone(),
        add: change.add.clone(),
    };
    HeaderRules { request: change(&headers.request), response: Arc::new(change(&headers.response)) }
}
