//! The state of the process, for `GET /status` and the metrics on reloads.

use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::ResourceReading;

/// The state of the process and its configuration. The control thread maintains it with
/// [`Registry::update_status`].
///
/// [`Registry::update_status`]: crate::Registry::update_status
#[derive(Clone, Debug)]
pub struct Status {
    /// The commit that the program was built from; `None`: the build does not know it.
    pub commit: Option<&'static str>,
    /// When the process started.
    pub started: SystemTime,
    /// Worker threads.
    pub workers: usize,
    /// Whether the process drains before it exits.
    pub draining: bool,
    /// Path of the configuration file, as given on the command line.
    pub file: String,
    /// The listeners, each address once.
    pub listeners: Vec<ListenerStatus>,
    /// Number of the plan that every worker runs: 1 at the start, plus 1 for each reload that took effect.
    pub generation: u64,
    /// Number of routes in that plan.
    pub routes: usize,
    /// Number of routes that were parsed for that plan; unchanged routes are reused.
    pub routes_read: usize,
    /// Time since which every worker runs that plan.
    pub in_force_since: SystemTime,
    /// The last requested reload; `None`: none was requested yet.
    pub last_reload: Option<OperationResult>,
    /// The last requested binary upgrade that failed. A successful upgrade ends this process.
    pub last_upgrade: Option<OperationResult>,
    /// Use of memory and file descriptors.
    pub resources: ResourceReading,
    /// The listeners' certificates: each file once, with its expiry in seconds since 1970.
    pub certificates: Vec<(String, i64)>,
    /// Bound of open client connections; `None`: no limit.
    pub connections_limit: Option<u64>,
    /// Lines of the gateway's own log that were lost.
    pub log_lines_lost: u64,
    /// State of etcd; `None`: etcd is not a source of the configuration.
    pub etcd: Option<EtcdStatus>,
    /// State of the connection to a controller; `None`: a controller is not a source of the configuration.
    pub controller: Option<ControllerStatus>,
    /// State of the fleet that takes its configuration from this process; `None`: it is no controller.
    pub fleet: Option<FleetStatus>,
    /// State of the store of responses; `None`: no policy caches.
    pub cache: Option<CacheStatus>,
}

/// The state of the store of responses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStatus {
    /// The tier in memory.
    pub memory: CacheTier,
    /// The tier on disk; `None`: there is none.
    pub disk: Option<CacheTier>,
    /// Whether the disk tier answers requests.
    pub disk_serves: bool,
}

/// The contents of a tier of the store of responses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheTier {
    /// Stored responses.
    pub objects: u64,
    /// Their bytes; on disk, the bytes of all files.
    pub bytes: u64,
    /// The most bytes.
    pub capacity_bytes: u64,
}

/// The state of a controller as a source of the configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ControllerStatus {
    /// Whether a controller is connected.
    pub connected: bool,
    /// How often a connection was lost.
    pub losses: u64,
    /// The version that this gateway serves.
    pub version: u64,
    /// Number of refused documents.
    pub refused: usize,
    /// The number of the last purge that is carried out.
    pub purge: u64,
}

/// The state of the gateways of a controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FleetStatus {
    /// The version of the documents.
    pub version: u64,
    /// Number of documents.
    pub documents: usize,
    /// Number of connected gateways.
    pub gateways: usize,
    /// How many of them do not serve that version.
    pub behind: usize,
    /// The largest number of documents that one of them refused.
    pub refused: usize,
    /// Connections that were rejected.
    pub rejected: u64,
    /// The number of purges that were made.
    pub purges: u64,
    /// How many connected gateways have not carried out all of them.
    pub purges_behind: usize,
}

/// The state of etcd as a source of the configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EtcdStatus {
    /// Whether a member answers.
    pub connected: bool,
    /// How often the connection to every member was lost.
    pub losses: u64,
    /// The revision up to which all entries are applied or refused.
    pub revision: u64,
    /// Number of refused entries.
    pub refused: usize,
}

/// The address of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerStatus {
    /// The address as it is written in the configuration.
    pub configured: String,
    /// The address on which the workers accept connections, with its actual port; or why none does.
    pub actual: Result<String, String>,
}

/// A requested reload or upgrade, and its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationResult {
    /// When it finished or failed.
    pub at: SystemTime,
    /// Its duration.
    pub took: Duration,
    /// Why it failed; `None`: it succeeded.
    pub problem: Option<String>,
}

impl ListenerStatus {
    fn missing(&self) -> Option<Value> {
        let problem = self.actual.as_ref().err()?;
        Some(json!({ "address": self.configured, "problem": problem }))
    }
}

impl Default for Status {
    fn default() -> Self {
        let now = SystemTime::now();
        Self {
            commit: None,
            started: now,
            workers: 0,
            draining: false,
            file: String::new(),
            listeners: Vec::new(),
            generation: 0,
            routes: 0,
            routes_read: 0,
            in_force_since: now,
            last_reload: None,
            last_upgrade: None,
            resources: ResourceReading::default(),
            certificates: Vec::new(),
            connections_limit: None,
            log_lines_lost: 0,
            etcd: None,
            controller: None,
            fleet: None,
            cache: None,
        }
    }
}

impl Status {
    /// Returns whether the last reload took effect, or none was requested.
    #[must_use]
    pub fn last_reload_succeeded(&self) -> bool {
        self.last_reload.as_ref().is_none_or(|attempt| attempt.problem.is_none())
    }

    /// Renders the answer to `GET /status`. Times are seconds since 1970.
    pub(crate) fn json(&self) -> String {
        let value = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "commit": self.commit,
            "pid": std::process::id(),
            "state": if self.draining { "draining" } else { "running" },
            "started": seconds(self.started),
            "workers": self.workers,
            "listeners": self.listeners.iter().filter_map(|it| it.actual.as_ref().ok()).collect::<Vec<_>>(),
            "listeners_missing": self.listeners.iter().filter_map(ListenerStatus::missing).collect::<Vec<_>>(),
            "config": {
                "file": self.file,
                "generation": self.generation,
                "routes": self.routes,
                "routes_read": self.routes_read,
                "in_force_since": seconds(self.in_force_since),
                "last_reload": self.last_reload.as_ref().map(OperationResult::json),
            },
            "last_failed_upgrade": self.last_upgrade.as_ref().map(OperationResult::json),
            "overload": self.resources.json(),
            "etcd": self.etcd.map(|etcd| json!({
                "connected": etcd.connected,
                "losses": etcd.losses,
                "revision": etcd.revision,
                "refused": etcd.refused,
            })),
            "controller": self.controller.map(|controller| json!({
                "connected": controller.connected,
                "losses": controller.losses,
                "version": controller.version,
                "refused": controller.refused,
                "purge": controller.purge,
            })),
            "fleet": self.fleet.map(|fleet| json!({
                "version": fleet.version,
                "documents": fleet.documents,
                "gateways": fleet.gateways,
                "behind": fleet.behind,
                "refused": fleet.refused,
                "rejected": fleet.rejected,
                "purges": fleet.purges,
                "purges_behind": fleet.purges_behind,
            })),
        });
        format!("{value:#}\n")
    }
}

impl OperationResult {
    fn json(&self) -> Value {
        json!({
            "at": seconds(self.at),
            "milliseconds": (self.took.as_secs_f64() * 1e6).round() / 1e3,
            "ok": self.problem.is_none(),
            "problem": self.problem,
        })
    }
}

/// Returns the seconds since 1970, rounded to the millisecond.
pub(crate) fn seconds(at: SystemTime) -> f64 {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    (since.as_secs_f64() * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ResourceUse;

    #[test]
    fn shows_the_plan_in_force_and_the_last_reload() {
        let at = SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_250);
        let mut status = Status { generation: 3, routes: 7, ..Status::default() };
        assert!(status.last_reload_succeeded());
        let took = Duration::from_micros(12_345);
        status.last_reload = Some(OperationResult { at, took, problem: Some("line 1".to_owned()) });
        assert!(!status.last_reload_succeeded());
        let value: Value = serde_json::from_str(&status.json()).expect("JSON");
        assert_eq!(value["config"]["generation"], 3);
        assert_eq!(value["config"]["last_reload"]["at"], 1_700_000_000.25);
        assert_eq!(value["config"]["last_reload"]["milliseconds"], 12.345);
        assert_eq!(value["config"]["last_reload"]["ok"], false);
        assert_eq!(value["last_failed_upgrade"], Value::Null);
        assert_eq!(value["overload"], json!({ "memory": null, "files": null, "shed": [] }));
        let memory = Some(ResourceUse { used: 95, bound: 100 });
        status.resources = ResourceReading { memory, files: None, sheds: 2 };
        let value: Value = serde_json::from_str(&status.json()).expect("JSON");
        assert_eq!(value["overload"]["memory"], json!({ "used": 95, "bound": 100 }));
        assert_eq!(value["overload"]["shed"], json!(["low", "normal"]));
        assert_eq!(value["pid"], std::process::id());
    }
}
