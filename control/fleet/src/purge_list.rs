//! The purges of caches that a controller keeps for its gateways.
//!
//! The [server](crate::server) adds purges, and sends each gateway the purges after the last number that the gateway
//! carried out. So the list needs no queue per gateway. A purge is kept for an hour. A purge of everything replaces
//! those that a gateway lacks but that expired, and the oldest ones if there are too many within the hour.
//!
//! The *epoch* names a list, because numbers of different lists do not compare. A list in a [file](crate::PurgeFile)
//! keeps its epoch over a restart of the controller. Otherwise each run of the controller has a list of its own, which
//! starts with the purges of the last hour if they are in etcd. A gateway that followed another list gets all purges of
//! this one, and decides itself whether it was disconnected for too long.
//!
//! Invariant: a gateway with a number of this list gets every purge after it, or a purge of everything.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::message::{PurgePosition, ToGateway, line};

/// How long a purge is kept. A gateway that was disconnected for longer cannot get every purge that it missed.
pub const PURGE_KEPT_TIME: Duration = Duration::from_secs(3600);
/// The most purges that are kept. Beyond that, a purge of everything replaces the oldest.
const PURGES_MAX: usize = 4096;
/// Version of the format of [`SavedPurges`].
const FORMAT_VERSION: u64 = 1;

/// Returns the request that purges everything.
pub(crate) fn purge_of_all() -> Arc<Value> {
    Arc::new(json!({ "all": true }))
}

/// The purges of the last hour, by number.
#[derive(Clone, Debug, Default)]
pub struct PurgeList {
    /// Names the list; empty while the source of the purges has not answered yet.
    epoch: String,
    entries: VecDeque<Entry>,
    /// The number of the last purge.
    last: u64,
    /// The number of the last purge that expired.
    forgotten: u64,
}

#[derive(Clone, Debug)]
struct Entry {
    number: u64,
    made_at: SystemTime,
    request: Arc<Value>,
    /// How many stored responses it matched, over all gateways that reported it.
    purged: u64,
}

/// The purges that a gateway lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PurgeDelta {
    /// The lines of the purges.
    pub lines: Vec<Bytes>,
    /// The position after them.
    pub position: PurgePosition,
    /// Whether they cover every purge since the gateway's position.
    pub is_complete: bool,
}

/// A list as its file keeps it.
#[derive(Debug, Serialize, Deserialize)]
pub struct SavedPurges {
    format: u64,
    epoch: String,
    last: u64,
    forgotten: u64,
    purges: Vec<SavedPurge>,
}

#[derive(Debug, Serialize, Deserialize)]
struct SavedPurge {
    number: u64,
    /// Seconds since 1970.
    made_at: u64,
    request: Value,
}

impl PurgeList {
    /// Makes an empty list. `epoch` must differ from that of every other list.
    #[must_use]
    pub fn new(epoch: String) -> Self {
        Self { epoch, ..Self::default() }
    }

    /// Reads a list from the contents of its file.
    ///
    /// # Errors
    /// The contents are not a list of this format.
    pub fn parse(bytes: &[u8], now: SystemTime) -> Result<Self, String> {
        let saved: SavedPurges =
            serde_json::from_slice(bytes).map_err(|error| format!("it is no such file: {error}"))?;
        if saved.format != FORMAT_VERSION {
            return Err(format!("its format is {}, not {FORMAT_VERSION}", saved.format));
        }
        let entries = saved.purges.into_iter().map(|purge| Entry {
            number: purge.number,
            made_at: UNIX_EPOCH + Duration::from_secs(purge.made_at),
            request: Arc::new(purge.request),
            purged: 0,
        });
        let mut list = Self {
            epoch: saved.epoch,
            entries: entries.collect(),
            last: saved.last,
            forgotten: saved.forgotten,
        };
        list.forget(now);
        Ok(list)
    }

    /// Returns the list for its file.
    #[must_use]
    pub fn saved(&self) -> SavedPurges {
        let seconds = |at: SystemTime| at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let purges = self.entries.iter().map(|entry| SavedPurge {
            number: entry.number,
            made_at: seconds(entry.made_at),
            request: Value::clone(&entry.request),
        });
        SavedPurges {
            format: FORMAT_VERSION,
            epoch: self.epoch.clone(),
            last: self.last,
            forgotten: self.forgotten,
            purges: purges.collect(),
        }
    }

    /// Adds a purge of everything. The source calls it when it may have missed purges. Returns its number.
    pub fn push_all(&mut self, now: SystemTime) -> u64 {
        self.push(purge_of_all(), now)
    }

    /// Adds a purge. Returns its number.
    pub fn push(&mut self, request: Arc<Value>, now: SystemTime) -> u64 {
        self.last += 1;
        self.entries.push_back(Entry { number: self.last, made_at: now, request, purged: 0 });
        if self.entries.len() > PURGES_MAX {
            self.entries.pop_front();
            if let Some(oldest) = self.entries.front_mut() {
                oldest.request = purge_of_all();
            }
        }
        self.forget(now);
        self.last
    }

    /// Removes the purges that are older than an hour.
    fn forget(&mut self, now: SystemTime) {
        let is_old = |entry: &Entry| {
            // A clock that was set back makes a purge younger, so it is kept longer.
            now.duration_since(entry.made_at).is_ok_and(|age| age > PURGE_KEPT_TIME)
        };
        while let Some(oldest) = self.entries.pop_front_if(|entry| is_old(entry)) {
            self.forgotten = oldest.number;
        }
    }

    /// Returns the position after the last purge.
    #[must_use]
    pub fn position(&self) -> PurgePosition {
        PurgePosition { epoch: self.epoch.clone(), number: self.last }
    }

    /// Returns the number of purges that are kept.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether the source of the purges has answered, so that the list is complete.
    #[must_use]
    pub fn is_known(&self) -> bool {
        !self.epoch.is_empty()
    }

    /// Returns the purges that a gateway at a position lacks.
    pub fn since(&mut self, known: &PurgePosition, now: SystemTime) -> PurgeDelta {
        self.forget(now);
        let (of_list, reached) = (known.epoch == self.epoch, self.forgotten..=self.last);
        let after = if of_list && reached.contains(&known.number) { known.number } else { 0 };
        let mut lines = Vec::new();
        if of_list && !reached.contains(&known.number) {
            lines.push(purge_line(self.forgotten, &purge_of_all()));
        }
        let lacking = self.entries.iter().filter(|entry| entry.number > after);
        lines.extend(lacking.map(|entry| purge_line(entry.number, &entry.request)));
        PurgeDelta { lines, position: self.position(), is_complete: of_list }
    }

    /// Adds a gateway's report: the number of each purge, and how many stored responses it matched there.
    pub fn count(&mut self, counts: &[(u64, u64)]) {
        for (number, purged) in counts {
            if let Ok(index) = self.entries.binary_search_by_key(number, |entry| entry.number) {
                self.entries[index].purged += purged;
            }
        }
    }

    /// Returns how many stored responses a purge matched, over all gateways that have reported it.
    #[must_use]
    pub fn purged(&self, number: u64) -> u64 {
        let found = self.entries.binary_search_by_key(&number, |entry| entry.number);
        found.map_or(0, |index| self.entries[index].purged)
    }
}

fn purge_line(number: u64, request: &Value) -> Bytes {
    Bytes::from(line(&ToGateway::Purge { number, request: request.clone() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: SystemTime = UNIX_EPOCH;

    fn tag(number: u64) -> Arc<Value> {
        Arc::new(json!({ "tag": format!("t{number}") }))
    }

    fn at(epoch: &str, number: u64) -> PurgePosition {
        PurgePosition { epoch: epoch.to_owned(), number }
    }

    /// Returns the numbers that a gateway gets, with `all` for a purge of everything, and whether they are complete.
    fn sent(list: &mut PurgeList, known: &PurgePosition, now: SystemTime) -> (String, bool) {
        let delta = list.since(known, now);
        let texts = delta.lines.iter().map(|line| match serde_json::from_slice(line).expect("a message") {
            ToGateway::Purge { request, .. } if request["all"] == json!(true) => "all".to_owned(),
            ToGateway::Purge { number, .. } => number.to_string(),
            other => panic!("{other:?}"),
        });
        (texts.collect::<Vec<_>>().join(" "), delta.is_complete)
    }

    #[test]
    fn a_gateway_gets_what_it_lacks_and_everything_if_that_is_gone() {
        let mut list = PurgeList::new("one".to_owned());
        let minute = |minutes: u64| START + Duration::from_secs(60 * minutes);
        assert_eq!(sent(&mut list, &at("", 0), START), (String::new(), false));
        assert_eq!(sent(&mut list, &at("one", 0), START), (String::new(), true));
        assert_eq!([0, 10, 20].map(|minutes| list.push(tag(minutes), minute(minutes))), [1, 2, 3]);
        assert_eq!(sent(&mut list, &at("one", 1), minute(30)), ("2 3".to_owned(), true));
        assert_eq!(sent(&mut list, &at("one", 3), minute(30)), (String::new(), true));
        assert_eq!(sent(&mut list, &at("other", 2), minute(30)), ("1 2 3".to_owned(), false));
        // The first purge expired.
        assert_eq!(sent(&mut list, &at("one", 1), minute(65)), ("2 3".to_owned(), true));
        assert_eq!(sent(&mut list, &at("one", 0), minute(65)), ("all 2 3".to_owned(), true));
        assert_eq!(
            sent(&mut list, &at("one", 3), minute(600)),
            (String::new(), true),
            "it has missed nothing"
        );
        assert_eq!(sent(&mut list, &at("one", 2), minute(600)), ("all".to_owned(), true));
        // The gateway is ahead: the controller's file was restored from a backup.
        assert_eq!(sent(&mut list, &at("one", 9), minute(600)), ("all".to_owned(), true));
        assert_eq!((list.kept(), list.position()), (0, at("one", 3)));
    }

    #[test]
    fn too_many_purges_become_one_of_everything() {
        let mut list = PurgeList::new("one".to_owned());
        for number in 0..PURGES_MAX as u64 + 2 {
            list.push(tag(number), START);
        }
        assert_eq!(list.kept(), PURGES_MAX);
        assert!(sent(&mut list, &at("one", 1), START).0.starts_with("all 4 5 "));
        assert!(sent(&mut list, &at("", 0), START).0.starts_with("all 4 5 "));
        assert!(sent(&mut list, &at("one", 3), START).0.starts_with("4 5 "), "it has the others");
    }

    #[test]
    fn a_file_continues_the_list() {
        let mut list = PurgeList::new("one".to_owned());
        list.push(tag(1), START);
        list.push(tag(2), START + Duration::from_secs(3000));
        list.count(&[(2, 5), (2, 6), (7, 1)]);
        assert_eq!((list.purged(1), list.purged(2)), (0, 11));
        let file = serde_json::to_vec(&list.saved()).expect("a text");
        let mut read = PurgeList::parse(&file, START + Duration::from_secs(3700)).expect("a list");
        assert_eq!(read.position(), list.position());
        assert_eq!(sent(&mut read, &at("one", 0), START), ("all 2".to_owned(), true));
        assert_eq!(sent(&mut read, &at("one", 1), START), ("2".to_owned(), true));
        assert_eq!(read.push(tag(3), START), 3);
        assert!(PurgeList::parse(b"{}", START).is_err());
    }
}
