//! Tests of the disk tier on a simulated folder, step by step and without threads.

mod announced;
mod faults;
mod model;
mod replay;
mod shared_purges;
mod simulated;

use std::sync::Arc;

use tollgate_http::Head;

use self::simulated::Simulated;
use super::writer::Writer;
use super::{Disk, DiskCandidate, DiskCounters, DiskSettings};
use crate::test_messages::{request, response};
use crate::{
    Admission, Lookup, Moment, Pushed, Received, RequestControl, Store, StoreSettings, Stored, StoredHead,
    admit,
};

const NOW: Moment = Moment::from_seconds(1_000_000_000);
const MEMORY_BYTES: u64 = 64 << 20;
const DISK_BYTES: u64 = 16 << 20;

/// A store with a disk tier, whose writer runs when the test says so.
struct Tiers {
    store: Arc<Store>,
    disk: Arc<Disk>,
    writer: Writer<Simulated>,
}

impl Tiers {
    /// Opens the tiers of a process that starts.
    fn open(folder: &Simulated) -> Self {
        Self::open_with(folder, DISK_BYTES)
    }

    fn open_with(folder: &Simulated, size_bytes: u64) -> Self {
        Self::open_as(folder, size_bytes, false)
    }

    fn open_as(folder: &Simulated, size_bytes: u64, shares_purges: bool) -> Self {
        let capacity_bytes = MEMORY_BYTES;
        let object_bytes_max = MEMORY_BYTES;
        let store =
            Store::new(StoreSettings { capacity_bytes, object_bytes_max, ..StoreSettings::default() });
        let settings = DiskSettings { path: "simulated".into(), size_bytes, shares_purges };
        let disk = store.attach_disk(|hasher| {
            Arc::new(Disk::new(settings, capacity_bytes, hasher, DiskCounters::default()))
        });
        let mut writer = Writer::new(disk.clone(), folder.clone());
        if writer.claim() {
            writer.recover();
        }
        Self { store, disk, writer }
    }

    /// Writes everything that waits.
    fn flush(&mut self) {
        while self.writer.step(false).is_continue() {}
    }

    /// Evicts everything from memory.
    fn forget(&self) {
        self.store.set_capacity(0);
        self.store.set_capacity(MEMORY_BYTES);
    }

    fn put(&self, key: &[u8], fields: &str, body: &[u8]) -> Option<Arc<Stored>> {
        self.put_for(key, "", fields, body)
    }

    /// Stores a response to a request with these fields.
    fn put_for(&self, key: &[u8], asked: &str, fields: &str, body: &[u8]) -> Option<Arc<Stored>> {
        let mut fill = self.store.begin_alone(key);
        assert!(fill.start(head_for(asked, fields), Some(body.len() as u64)));
        assert!(body.is_empty() || fill.push(body) == Pushed::Stored);
        fill.finish()
    }

    /// Finds a response as a request does.
    fn find(&self, key: &[u8], fields: &str) -> Option<Arc<Stored>> {
        let asked = get(fields);
        match self.store.lookup(key, &asked, NOW) {
            Lookup::Hit(stored) => return Some(stored),
            Lookup::Uncacheable => return None,
            Lookup::Miss => {}
        }
        if !self.store.may_be_on_disk(key) {
            return None;
        }
        for candidate in self.store.disk_candidates(key) {
            let loaded = match candidate {
                DiskCandidate::Waiting(loaded) => Some(loaded),
                DiskCandidate::Record(record) => record.load(),
            };
            if let Some(loaded) = loaded
                && loaded.stored().head().is_selected_by(&asked)
            {
                return match self.store.promote(loaded, &asked, NOW) {
                    Lookup::Hit(stored) => Some(stored),
                    Lookup::Miss | Lookup::Uncacheable => None,
                };
            }
        }
        None
    }

    /// Finds a response without memory, and returns its body.
    fn body_on_disk(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.forget();
        body(&*self.find(key, "")?)
    }
}

/// Reads the whole body of a response; `None`: a block is damaged, or cannot be read.
fn body(stored: &Stored) -> Option<Vec<u8>> {
    let Some(disk) = stored.disk_body() else { return Some(stored.chunks().concat()) };
    let mut bytes = Vec::new();
    while (bytes.len() as u64) < disk.length() {
        bytes.extend_from_slice(&disk.read(bytes.len() as u64, 100_000).ok()?);
    }
    Some(bytes)
}

fn head_for(asked: &str, fields: &str) -> StoredHead {
    let (asked, received) = (request("GET", "/", asked), response(200, fields));
    let times = Received { requested: NOW, received: NOW };
    let tag_fields = vec!["surrogate-key".into(), "cache-tag".into()];
    let admission = Admission { tag_fields, ..Admission::default() };
    admit(&asked, &RequestControl::default(), &received, &admission, times).expect("storable")
}

fn get(fields: &str) -> Head {
    request("GET", "/", fields).head
}

const FRESH: &str = "Cache-Control: max-age=60\r\n";
