//! A worker's cache of short files.
//!
//! It keeps the content of files of at most 64 KiB, so that a request for a small file needs no call of the system
//! but the write. An entry is used without a look at the disk for [`FRESH_TIME`]; then the file is looked up again, and
//! read again only if it has changed. Longer files are not kept: no descriptor stays open between requests.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::served_file::ServedFile;
use crate::site::Site;

/// How long a file is served without a look at the disk. A change is seen that much later at most. At 4 look-ups a
/// second for each busy file, their cost does not show.
const FRESH_TIME: Duration = Duration::from_millis(250);
/// The most bytes that a worker keeps.
const BYTES_MAX: usize = 16 << 20;
/// The most files that a worker keeps.
const FILES_MAX: usize = 4096;

#[derive(Debug)]
struct Entry {
    file: Arc<ServedFile>,
    bytes: usize,
    checked: Instant,
    used: Instant,
}

/// The state of a path in the cache.
#[derive(Clone, Debug)]
pub enum Cached {
    /// The file, as it was a moment ago.
    Fresh(Arc<ServedFile>),
    /// The file as it was. It must be looked up again.
    Stale(Arc<ServedFile>),
    /// Nothing.
    Unknown,
}

/// A worker's cache of short files.
#[derive(Debug, Default)]
pub struct FileCache {
    files: HashMap<Vec<u8>, Entry, foldhash::fast::RandomState>,
    bytes: usize,
    /// The key of the last look-up: the site and the path.
    key: Vec<u8>,
}

impl FileCache {
    fn set_key(&mut self, site: &Site, path: &[u8]) {
        self.key.clear();
        self.key.extend_from_slice(&site.id().to_ne_bytes());
        self.key.extend_from_slice(path);
    }

    /// Returns what is known of a path, relative to the root of its site.
    pub fn get(&mut self, site: &Site, path: &[u8], now: Instant) -> Cached {
        if self.files.is_empty() {
            return Cached::Unknown;
        }
        self.set_key(site, path);
        let Some(entry) = self.files.get_mut(self.key.as_slice()) else { return Cached::Unknown };
        entry.used = now;
        let age = now.saturating_duration_since(entry.checked);
        let file = entry.file.clone();
        if age < FRESH_TIME { Cached::Fresh(file) } else { Cached::Stale(file) }
    }

    /// Keeps a file that was found, if it is short. `now`: when its look-up began.
    pub fn keep(&mut self, site: &Site, path: &[u8], file: &Arc<ServedFile>, now: Instant) {
        self.forget(site, path);
        let Some(bytes) = file.kept_bytes().map(|bytes| bytes + self.key.len()) else { return };
        if self.files.len() >= FILES_MAX || self.bytes + bytes > BYTES_MAX {
            self.make_room();
        }
        self.bytes += bytes;
        let entry = Entry { file: file.clone(), bytes, checked: now, used: now };
        self.files.insert(self.key.clone(), entry);
    }

    /// Forgets a file that is not served any more.
    pub fn forget(&mut self, site: &Site, path: &[u8]) {
        self.set_key(site, path);
        if let Some(entry) = self.files.remove(self.key.as_slice()) {
            self.bytes -= entry.bytes;
        }
    }

    /// Drops the half of the files that was not used for the longest time.
    fn make_room(&mut self) {
        let mut uses: Vec<Instant> = self.files.values().map(|entry| entry.used).collect();
        let middle = uses.len() / 2;
        let Some((_, median, _)) = (!uses.is_empty()).then(|| uses.select_nth_unstable(middle)) else {
            return;
        };
        let median = *median;
        // Equal times must not keep the cache full.
        let mut equal = uses.iter().filter(|used| **used < median).count();
        self.files.retain(|_, entry| {
            let keeps = entry.used > median || entry.used == median && equal >= middle;
            equal += usize::from(entry.used == median);
            keeps
        });
        self.bytes = self.files.values().map(|entry| entry.bytes).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::find::{Found, find};
    use crate::site::{SiteSettings, TryPath};

    fn site(root: &std::path::Path) -> Site {
        Site::new(SiteSettings {
            root: root.to_owned(),
            index: Vec::new(),
            candidates: vec![TryPath::own()],
            browse: false,
            cache_control: Vec::new(),
            precompressed: Vec::new(),
        })
    }

    fn load(site: &Site, path: &str) -> Arc<ServedFile> {
        match find(site, path.as_bytes(), true, None) {
            Ok(Found::File(file, _)) => file,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_file_is_fresh_for_a_moment() {
        let root = tempfile::tempdir().expect("a directory");
        std::fs::write(root.path().join("a"), "1").expect("a file");
        let (site, other) = (site(root.path()), site(root.path()));
        let (mut cache, now) = (FileCache::default(), Instant::now());
        assert!(matches!(cache.get(&site, b"a", now), Cached::Unknown));
        cache.keep(&site, b"a", &load(&site, "a"), now);
        assert!(matches!(cache.get(&site, b"a", now), Cached::Fresh(_)));
        assert!(matches!(cache.get(&other, b"a", now), Cached::Unknown));
        assert!(matches!(cache.get(&site, b"a", now + FRESH_TIME), Cached::Stale(_)));
        cache.forget(&site, b"a");
        assert!(matches!(cache.get(&site, b"a", now), Cached::Unknown));
        assert_eq!(cache.bytes, 0);
    }

    #[test]
    fn it_is_bounded() {
        let root = tempfile::tempdir().expect("a directory");
        std::fs::write(root.path().join("a"), vec![b'x'; 60_000]).expect("a file");
        let site = site(root.path());
        let file = load(&site, "a");
        let (mut cache, start) = (FileCache::default(), Instant::now());
        for number in 0..2_000_u64 {
            // Ten files at a time are used at the same moment.
            let now = start + Duration::from_millis(number / 10);
            cache.keep(&site, format!("{number}").as_bytes(), &file, now);
            assert!(cache.bytes <= BYTES_MAX && cache.files.len() <= FILES_MAX);
            assert!(matches!(cache.get(&site, format!("{number}").as_bytes(), now), Cached::Fresh(_)));
        }
        let same = start + Duration::from_secs(1);
        for number in 0..2_000_u64 {
            cache.keep(&site, format!("same {number}").as_bytes(), &file, same);
            assert!(cache.bytes <= BYTES_MAX);
        }
    }
}
