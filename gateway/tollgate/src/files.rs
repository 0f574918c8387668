//! The files from which a configuration was made: which are watched, and when certificates expire.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tollgate_config::{Config, Problem};
use tollgate_plan::{Certificate, Plan};

use crate::plural::count_noun;

/// The files from which a configuration was made.
#[derive(Clone, Debug, Default)]
pub struct SourceFiles {
    /// The files to watch; empty unless `watch` is on.
    pub watched: Vec<PathBuf>,
    /// The listeners' certificates, each name once, with the expiry in seconds since 1970.
    pub certificates: Vec<(String, i64)>,
}

impl SourceFiles {
    /// Collects the files of a config and its plan. `sources` are the files from which the config was read.
    pub fn new(config: &Config, plan: &Plan, sources: Vec<PathBuf>) -> Self {
        let watched = if config.watch { sources } else { Vec::new() };
        Self { watched, certificates: certificate_expiries(plan) }
    }
}

/// Returns the listeners' certificates, each once, and when they expire.
pub fn certificate_expiries(plan: &Plan) -> Vec<(String, i64)> {
    let all = plan.listeners.iter().flat_map(|listener| &listener.certificates);
    let mut all: Vec<_> = all.filter_map(|it| Some((it.name.clone(), it.not_after?))).collect();
    all.sort();
    all.dedup_by(|one, other| one.0 == other.0);
    all
}

/// How long before its expiry a certificate gives a warning. Automatic renewal usually happens a month
/// before.
const EXPIRY_WARNING: Duration = Duration::from_secs(14 * 24 * 3600);

/// Returns warnings for certificates that have expired or will soon.
pub fn expiry_warnings(plan: &Plan) -> Vec<Problem> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() as i64;
    let mut problems = Vec::new();
    for Certificate { name, at, not_after } in plan.listeners.iter().flat_map(|it| &it.certificates) {
        let Some(left) = not_after.map(|end| end - now) else { continue };
        if left < EXPIRY_WARNING.as_secs() as i64 {
            let message = match left {
                ..=0 => format!("the certificate in `{name}` has ended: clients refuse it"),
                _ => {
                    format!("the certificate in `{name}` ends in {}", count_noun(left as u64 / 86_400, "day"))
                }
            };
            problems.push(Problem::warning(*at, message));
        }
    }
    problems
}
