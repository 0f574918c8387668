//! The start of a gateway with etcd: from its last valid state, or from the first listing.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::mpsc;
use tollgate_config::{EtcdSettings, Parts, Problem};
use tollgate_etcd::{Etcd, News};

use super::{Brought, EtcdState, Shared, cache, settings};
use crate::sources::Sources;

/// How long a start waits for etcd if there is no last valid state.
const WAIT: Duration = Duration::from_secs(15);
/// How long it waits if there is one.
const SHORT: Duration = Duration::from_secs(2);

/// The identity of the gateway that joins.
#[derive(Clone, Debug)]
pub struct Joined {
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
        who: Joined,
        mut compile: impl FnMut(&Parts<'_>) -> Result<T, Vec<Problem>>,
    ) -> Result<(Brought<T>, mpsc::Receiver<News>), String> {
        let settings = settings::settings(from, who.name)?;
        let prefix = settings.prefix.clone();
        let cannot = |error: std::io::Error| format!("cannot follow etcd: {error}");
        let (etcd, mut news) = Etcd::start(settings, "{}".to_owned()).map_err(cannot)?;
        let now = SystemTime::now();
        let handle = etcd.handle().clone();
        self.view.update(|state| {
            state.etcd = Some(EtcdState {
                handle: handle.clone(),
                member: None,
                lost: None,
                since: now,
                losses: 0,
                cached: false,
                revision: 0,
                refused: Default::default(),
            });
        });
        let (mut told, mut last_good) = (Vec::new(), None);
        if let Some(path) = &from.cache {
            match cache::read(path, &prefix) {
                Ok(found) => last_good = found,
                Err(why) => told.push(format!(
                    "warning: etcd: the last good state in {} cannot be used: {why}",
                    path.display()
                )),
            }
        }
        let cache =
            from.cache.clone().map(|path| cache::Cache::start(path, prefix)).transpose().map_err(cannot)?;
        self.shared = Some(Shared {
            handle,
            etcd,
            seen: Default::default(),
            refused: Default::default(),
            cache,
            program: who.program,
            started: now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
        });
        let mut whole = Brought { good: None, told, changed: Vec::new() };
        let patience = if last_good.is_some() { SHORT } else { WAIT };
        if let Some((revision, entries)) = last_good {
            let brought = self.bring(vec![News::All { revision, entries }], &mut compile);
            whole.then(brought);
        }
        match self.first(&mut news, patience) {
            Ok(all) => {
                let brought = self.bring(vec![all], &mut compile);
                whole.then(brought);
            }
            Err(why) if patience == SHORT => {
                self.view.update(|state| {
                    if let Some(etcd) = &mut state.etcd {
                        etcd.cached = true;
                    }
                });
                whole.told.push(format!(
                    "warning: etcd: {why}: the gateway starts with its last good state, revision {}",
                    self.version
                ));
            }
            Err(why) => {
                self.shared = None;
                let help = "set `etcd.cache` to a file, and a gateway that has run once starts without etcd";
                return Err(format!("etcd: {why}; {help}"));
            }
        }
        self.show_brought(&whole);
        Ok((whole, news))
    }

    /// Waits for the first listing.
    fn first(&self, news: &mut mpsc::Receiver<News>, patience: Duration) -> Result<News, String> {
        let end = std::time::Instant::now() + patience;
        let mut why = format!("no member answers within {patience:?}");
        // Polling costs nothing noticeable at a start.
        while std::time::Instant::now() < end {
            match news.try_recv() {
                Ok(all @ News::All { .. }) => return Ok(all),
                Ok(other) => {
                    if let News::Lost { why: reason } = &other {
                        why.clone_from(reason);
                    }
                    self.heard(&other);
                }
                Err(mpsc::error::TryRecvError::Empty) => std::thread::sleep(Duration::from_millis(2)),
                Err(mpsc::error::TryRecvError::Disconnected) => break,
            }
        }
        Err(why)
    }

    /// Records whether a member answers. Returns a message for people, if that changed.
    pub fn heard(&self, news: &News) -> Option<String> {
        heard(&self.view, news)
    }
}

/// Records whether a member answers. Returns a message for people, if that changed.
pub fn heard(view: &crate::View, news: &News) -> Option<String> {
    let mut told = None;
    view.update(|state| {
        let Some(etcd) = &mut state.etcd else { return };
        match news {
            News::Connected { endpoint } => {
                if etcd.member.as_ref() != Some(endpoint) {
                    told = Some(format!("etcd: {endpoint} answers"));
                    etcd.since = SystemTime::now();
                }
                (etcd.member, etcd.lost) = (Some(endpoint.clone()), None);
            }
            News::Lost { why } => {
                if etcd.lost.is_none() {
                    told = Some(format!("warning: etcd: {why}; what is in force stays so"));
                    etcd.since = SystemTime::now();
                    etcd.losses += 1;
                }
                (etcd.member, etcd.lost) = (None, Some(why.clone()));
            }
            News::All { .. } => etcd.cached = false,
            News::Changes { .. } => {}
        }
    });
    told
}

impl<T> Brought<T> {
    /// Adds the result of later events.
    fn then(&mut self, later: Self) {
        self.good = later.good.or(self.good.take());
        self.told.extend(later.told);
        self.changed.extend(later.changed);
    }
}
