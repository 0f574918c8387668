//! What the process is and runs: for `GET /status`, and the metrics on reloads.

use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::GuardReading;

/// What the process is and runs. The control thread keeps it; see [`Registry::update_status`].
///
/// [`Registry::update_status`]: crate::Registry::update_status
#[derive(Clone, Debug)]
pub struct Status {
    /// When the process started.
    pub started: SystemTime,
    /// Worker threads.
    pub workers: usize,
    /// Whether it is on its way out: it drains.
    pub draining: bool,
    /// The configuration's file, as it was given.
    pub file: String,
    /// The number of the plan that every worker runs: 1 at the start, one more with each reload that took effect.
    pub generation: u64,
    /// Routes of that plan.
    pub routes: usize,
    /// How many of them were read for it; those that had not changed were not.
    pub routes_read: usize,
    /// Since when every worker has run it.
    pub in_force_since: SystemTime,
    /// The last reload that was asked for; nothing before the first.
    pub last_reload: Option<Attempt>,
    /// The last binary upgrade that was asked for and failed; one that succeeds ends this process.
    pub last_upgrade: Option<Attempt>,
    /// What is used of memory and file descriptors.
    pub guards: GuardReading,
    /// The listeners' certificates, by file, each once, and when they end, in seconds since 1970.
    pub certificates: Vec<(String, i64)>,
    /// etcd, if it is a source.
    pub etcd: Option<EtcdStatus>,
}

/// How etcd is, as a source of the configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EtcdStatus {
    /// Whether a member answers.
    pub connected: bool,
    /// How often none did any more.
    pub losses: u64,
    /// The revision up to which all is known.
    pub revision: u64,
    /// Entries that are refused.
    pub refused: usize,
}

/// Something that was asked for, and how it went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// When it was done, or had failed.
    pub at: SystemTime,
    /// How long it took.
    pub took: Duration,
    /// Why it failed; `None`: it succeeded.
    pub problem: Option<String>,
}

impl Default for Status {
    fn default() -> Self {
        let now = SystemTime::now();
        Self {
            started: now,
            workers: 0,
            draining: false,
            file: String::new(),
            generation: 0,
            routes: 0,
            routes_read: 0,
            in_force_since: now,
            last_reload: None,
            last_upgrade: None,
            guards: GuardReading::default(),
            certificates: Vec::new(),
            etcd: None,
        }
    }
}

impl Status {
    /// Whether the last reload took effect, or none was asked for.
    #[must_use]
    pub fn reloaded_well(&self) -> bool {
        self.last_reload.as_ref().is_none_or(|attempt| attempt.problem.is_none())
    }

    /// As the admin listener shows it. Times are seconds since 1970.
    pub(crate) fn json(&self) -> String {
        let value = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "pid": std::process::id(),
            "state": if self.draining { "draining" } else { "running" },
            "started": seconds(self.started),
            "workers": self.workers,
            "config": {
                "file": self.file,
                "generation": self.generation,
                "routes": self.routes,
                "routes_read": self.routes_read,
                "in_force_since": seconds(self.in_force_since),
                "last_reload": self.last_reload.as_ref().map(Attempt::json),
            },
            "last_failed_upgrade": self.last_upgrade.as_ref().map(Attempt::json),
            "overload": self.guards.json(),
            "etcd": self.etcd.map(|etcd| json!({
                "connected": etcd.connected,
                "losses": etcd.losses,
                "revision": etcd.revision,
                "refused": etcd.refused,
            })),
        });
        format!("{value:#}\n")
    }
}

impl Attempt {
    fn json(&self) -> Value {
        json!({
            "at": seconds(self.at),
            "milliseconds": (self.took.as_secs_f64() * 1e6).round() / 1e3,
            "ok": self.problem.is_none(),
            "problem": self.problem,
        })
    }
}

/// Seconds since 1970, to the millisecond.
pub(crate) fn seconds(at: SystemTime) -> f64 {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    (since.as_secs_f64() * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Guarded;

    #[test]
    fn it_says_what_is_in_force_and_how_the_last_reload_went() {
        let at = SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_250);
        let mut status = Status { generation: 3, routes: 7, ..Status::default() };
        assert!(status.reloaded_well());
        let took = Duration::from_micros(12_345);
        status.last_reload = Some(Attempt { at, took, problem: Some("line 1".to_owned()) });
        assert!(!status.reloaded_well());
        let value: Value = serde_json::from_str(&status.json()).expect("JSON");
        assert_eq!(value["config"]["generation"], 3);
        assert_eq!(value["config"]["last_reload"]["at"], 1_700_000_000.25);
        assert_eq!(value["config"]["last_reload"]["milliseconds"], 12.345);
        assert_eq!(value["config"]["last_reload"]["ok"], false);
        assert_eq!(value["last_failed_upgrade"], Value::Null);
        assert_eq!(value["overload"], json!({ "memory": null, "files": null, "shed": [] }));
        let memory = Some(Guarded { used: 95, bound: 100 });
        status.guards = GuardReading { memory, files: None, sheds: 2 };
        let value: Value = serde_json::from_str(&status.json()).expect("JSON");
        assert_eq!(value["overload"]["memory"], json!({ "used": 95, "bound": 100 }));
        assert_eq!(value["overload"]["shed"], json!(["low", "normal"]));
        assert_eq!(value["pid"], std::process::id());
    }
}
