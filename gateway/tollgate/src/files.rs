//! The files that a configuration was made of: which are watched, and when certificates end.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tollgate_config::{Config, PemFile, Problem};
use tollgate_plan::Plan;

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
        let mut certificates: Vec<_> = certificates(config, plan)
            .map(|(file, not_after)| (file.shown.trim_matches('`').to_owned(), not_after))
            .collect();
        certificates.sort();
        certificates.dedup_by(|one, other| one.0 == other.0);
        Self { watched, certificates }
    }
}

/// The listeners' certificates, and when they end.
fn certificates<'a>(config: &'a Config, plan: &'a Plan) -> impl Iterator<Item = (&'a PemFile, i64)> {
    let listeners = config.listen.iter().zip(&plan.listeners);
    listeners
        .filter_map(|(written, listener)| Some((written.tls.as_ref()?, listener.tls.as_ref()?)))
        .flat_map(|(written, tls)| {
            let both = written.certificates.iter().zip(tls.not_after());
            both.filter_map(|(certificate, not_after)| Some((&certificate.chain, (*not_after)?)))
        })
}

/// How long before its end a certificate is warned of. Those that are renewed by themselves are renewed a month before.
const SOON: Duration = Duration::from_secs(14 * 24 * 3600);

/// Certificates that have ended, or will soon.
pub fn ending(config: &Config, plan: &Plan) -> Vec<Problem> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() as i64;
    let mut problems = Vec::new();
    for (file, not_after) in certificates(config, plan) {
        let left = not_after - now;
        if left < SOON.as_secs() as i64 {
            let message = match left {
                ..=0 => format!("the certificate in {} has ended: clients refuse it", file.shown),
                _ => format!(
                    "the certificate in {} ends in {}",
                    file.shown,
                    counted(left as u64 / 86_400, "day")
                ),
            };
            problems.push(Problem::warning(file.at, message));
        }
    }
    problems
}
