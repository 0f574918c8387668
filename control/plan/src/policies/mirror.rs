//! Compiles `mirror`. Percentages become millionths.

use std::sync::Arc;

use tollgate_config as config;
use tollgate_policy::{CopyMarks, MirrorRules};

pub(super) fn mirror(mirror: &config::Mirror) -> MirrorRules {
    let config::Mirror { to, percent, body, in_flight, timeout, header, host } = mirror;
    let header = header.clone().map(|name| (name, "1".to_owned()));
    MirrorRules {
        to: to.value.as_str().into(),
        percent: percent.millionths(),
        body: *body,
        in_flight: *in_flight,
        timeout: *timeout,
        marks: Arc::new(CopyMarks { header, host: host.clone() }),
    }
}
