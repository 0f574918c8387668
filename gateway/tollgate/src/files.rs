//! The files that a configuration was made of: which are watched, and when certificates end.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tollgate_config::{Config, Problem};
use tollgate_plan::{Certificate, Plan};

use crate::check::counted;

/// What is known of the files that a config was made of.
#[derive(Clone, Debug, Default)]
pub struct Files {
    /// Those that are watched, if the config says so.
    pub watched: Vec<PathBuf>,
    /// The listeners' certificates, as they are written, each once, and when they end, in seconds since 1970.
    pub certificates: Vec<(String, i64)>,
}

impl Files {
    /// Of a config and its plan; `sources` are the files that the config was read from.
    pub fn new(config: &Config, plan: &Plan, sources: Vec<PathBuf>) -> Self {
        let watched = if config.watch { sources } else { Vec::new() };
        Self { watched, certificates: ends(plan) }
    }
}

/// The listeners' certificates, each once, and when they end.
pub fn ends(plan: &Plan) -> Vec<(String, i64)> {
    let all = plan.listeners.iter().flat_map(|listener| &listener.certificates);
    let mut all: Vec<_> = all.filter_map(|it| Some((it.name.clone(), it.not_after?))).collect();
    all.sort();
    all.dedup_by(|one, other| one.0 == other.0);
    all
}

/// How long before its end a certificate is warned of. Those that are renewed by themselves are renewed a month before.
const SOON: Duration = Duration::from_secs(14 * 24 * 3600);

/// Certificates that have ended, or will soon.
pub fn ending(plan: &Plan) -> Vec<Problem> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() as i64;
    let mut problems = Vec::new();
    for Certificate { name, at, not_after } in plan.listeners.iter().flat_map(|it| &it.certificates) {
        let Some(left) = not_after.map(|end| end - now) else { continue };
        if left < SOON.as_secs() as i64 {
            let message = match left {
                ..=0 => format!("the certificate in `{name}` has ended: clients refuse it"),
                _ => format!("the certificate in `{name}` ends in {}", counted(left as u64 / 86_400, "day")),
            };
            problems.push(Problem::warning(*at, message));
        }
    }
    problems
}
