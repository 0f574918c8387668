//! The start of a gateway with etcd: from its last valid state, or from the first listing.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::mpsc;
use tollgate_config::{CombinedResources, EtcdSettings, LogLevel, Problem};
use tollgate_etcd::{EtcdEvent, EtcdThread};

use super::{Applied, EtcdSource, EtcdView, cache, settings};
use crate::sources::Sources;

/// How long a start waits for etcd if there is no last valid state.
const FIRST_LISTING_TIMEOUT: Duration = Duration::from_secs(15);
/// How long it waits if there is one.
const FIRST_LISTING_TIMEOUT_CACHED: Duration = Duration::from_secs(2);

/// The identity of the gateway that joins.
#[derive(Clone, Debug)]
pub struct GatewayIdentity {
    /// Name and version of the program.
    pub program: String,
    /// Name of the gateway in etcd, if the configuration file sets none.
    pub name: String,
}

impl Sources {
    /// Reads the entries of etcd, or the last valid state if etcd does not answer, and compiles them together
    /// with the file, which must be read before. Returns the result, and the receiver of further events.
    ///
    /// # Errors
    /// Returns a message if etcd does not answer and there is no last valid state.
    pub fn join<T>(
        &mut self,
        from: &EtcdSettings,
        identity: GatewayIdentity,
        mut compile: impl FnMut(&CombinedResources<'_>) -> Result<T, Vec<Problem>>,
    ) -> Result<(Applied<T>, mpsc::Receiver<EtcdEvent>), String> {
        let settings = settings::settings(from, identity.name)?;
        let prefix = settings.prefix.clone();
        let cannot = |error: std::io::Error| format!("cannot follow etcd: {error}");
        let (thread, mut events) = EtcdThread::start(settings, "{}".to_owned()).map_err(cannot)?;
        let now = SystemTime::now();
        let handle = thread.handle().clone();
        self.view.update(|state| {
            state.etcd = Some(EtcdView {
                handle: handle.clone(),
                member: None,
                problem: None,
                since: now,
                losses: 0,
                cached: false,
                revision: 0,
                refused: Default::default(),
            });
        });
        let mut messages = Vec::new();
        let cached_state = from.cache.as_deref().and_then(|path| {
            cache::read(path, &prefix).unwrap_or_else(|why| {
                let text = format!("etcd: the last good state in {} cannot be used: {why}", path.display());
                messages.push((LogLevel::Warn, text));
                None
            })
        });
        let cache = from
            .cache
            .clone()
            .map(|path| cache::CacheWriter::start(path, prefix))
            .transpose()
            .map_err(cannot)?;
        self.etcd_source = Some(EtcdSource {
            handle,
            thread,
            seen: Default::default(),
            refused: Default::default(),
            cache,
            program: identity.program,
            started: now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
        });
        let mut result = Applied { compiled: None, messages, changed: Vec::new() };
        let timeout =
            if cached_state.is_some() { FIRST_LISTING_TIMEOUT_CACHED } else { FIRST_LISTING_TIMEOUT };
        if let Some((revision, entries)) = cached_state {
            let applied = self.apply_events(vec![EtcdEvent::Snapshot { revision, entries }], &mut compile);
            result.merge(applied);
        }
        match self.wait_for_listing(&mut events, timeout) {
            Ok(all) => {
                let applied = self.apply_events(vec![all], &mut compile);
                result.merge(applied);
            }
            Err(why) if timeout == FIRST_LISTING_TIMEOUT_CACHED => {
                self.view.update(|state| {
                    if let Some(etcd) = &mut state.etcd {
                        etcd.cached = true;
                    }
                });
                let message = format!(
                    "etcd: {why}: the gateway starts with its last good state, revision {}",
                    self.version
                );
                result.messages.push((LogLevel::Warn, message));
            }
            Err(why) => {
                self.etcd_source = None;
                let help = "set `etcd.cache` to a file, and a gateway that has run once starts without etcd";
                return Err(format!("etcd: {why}; {help}"));
            }
        }
        self.publish_applied(&result);
        Ok((result, events))
    }

    /// Waits for the first listing.
    fn wait_for_listing(
        &self,
        events: &mut mpsc::Receiver<EtcdEvent>,
        timeout: Duration,
    ) -> Result<EtcdEvent, String> {
        let end = std::time::Instant::now() + timeout;
        let mut why = format!("no member answers within {timeout:?}");
        // Polling costs nothing noticeable at a start.
        while std::time::Instant::now() < end {
            match events.try_recv() {
                Ok(all @ EtcdEvent::Snapshot { .. }) => return Ok(all),
                Ok(other) => {
                    if let EtcdEvent::Disconnected { why: reason } = &other {
                        why.clone_from(reason);
                    }
                    self.record_connection(&other);
                }
                Err(mpsc::error::TryRecvError::Empty) => std::thread::sleep(Duration::from_millis(2)),
                Err(mpsc::error::TryRecvError::Disconnected) => break,
            }
        }
        Err(why)
    }

    /// Records whether a member answers. Returns a message for people, if that changed.
    pub fn record_connection(&self, event: &EtcdEvent) -> Option<(LogLevel, String)> {
        record_connection(&self.view, event)
    }
}

/// Records whether a member answers. Returns a message for the log, if that changed.
pub fn record_connection(view: &crate::View, event: &EtcdEvent) -> Option<(LogLevel, String)> {
    let mut message = None;
    view.update(|state| {
        let Some(etcd) = &mut state.etcd else { return };
        match event {
            EtcdEvent::Connected { endpoint } => {
                if etcd.member.as_ref() != Some(endpoint) {
                    message = Some((LogLevel::Info, format!("etcd: {endpoint} answers")));
                    etcd.since = SystemTime::now();
                }
                (etcd.member, etcd.problem) = (Some(endpoint.clone()), None);
            }
            EtcdEvent::Disconnected { why } => {
                if etcd.problem.is_none() {
                    message = Some((LogLevel::Warn, format!("etcd: {why}; what is in force stays so")));
                    etcd.since = SystemTime::now();
                    etcd.losses += 1;
                }
                (etcd.member, etcd.problem) = (None, Some(why.clone()));
            }
            EtcdEvent::Snapshot { .. } => etcd.cached = false,
            EtcdEvent::Changes { .. } => {}
        }
    });
    message
}

impl<T> Applied<T> {
    /// Adds the result of later events.
    fn merge(&mut self, later: Self) {
        self.compiled = later.compiled.or(self.compiled.take());
        self.messages.extend(later.messages);
        self.changed.extend(later.changed);
    }
}
