//! Compiles `query`.

use tollgate_config as config;
use tollgate_policy::QueryRules;

use super::template::templates;

pub(super) fn query(query: &config::Query) -> QueryRules {
    let config::Query { remove, set, add } = query;
    QueryRules { remove: remove.clone(), set: templates(set), add: templates(add) }
}
