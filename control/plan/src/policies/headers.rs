//! Compiles `headers`. The response's changes are behind a pointer, since every exchange keeps them until its
//! response.

use std::sync::Arc;

use tollgate_config as config;
use tollgate_policy::{HeaderChange, HeaderRules};

use super::template::templates;

pub(super) fn headers(headers: &config::Headers) -> HeaderRules {
    let change = |change: &config::HeaderChange| HeaderChange {
        remove: change.remove.clone(),
        set: templates(&change.set),
        add: templates(&change.add),
    };
    HeaderRules { request: change(&headers.request), response: Arc::new(change(&headers.response)) }
}
