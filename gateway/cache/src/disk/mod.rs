//! The disk tier: a log of responses behind the store in memory.
//!
//! Every response that enters memory is also written to disk, by a thread of the tier, so that the cache is warm after
//! a restart or a crash. A look-up that misses in memory continues here: [`Disk::candidates`] answers from an [index]
//! in memory, and [`DiskRecord::load`] reads on the calling thread, which is never a worker.
//!
//! The [log](writer) consists of segments: files that are only appended to. When the log is full, its oldest segment is
//! removed; records that were read since they were written are first copied to the end. A purge is a record of the log,
//! too, and applies to the records before it. So the log is the only state: replaying it at the [start](recovery) gives
//! the newest version of each object or nothing, wherever the process was killed. Damage in the log removes everything
//! before it, because the lost record may have been a purge or a newer version.
//!
//! Invariants: no byte leaves a record before its checksum is verified. A response is found only if no newer one was
//! stored under its key and no purge matches it, in this process or an earlier one. The tier never fails a request: a
//! full, slow or broken disk acts like a smaller cache, and is counted and reported.

mod announced;
mod body;
mod counters;
mod format;
mod index;
mod marks;
mod medium;
mod recovery;
mod writer;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::hash::BuildHasher;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use xxhash_rust::xxh3::xxh3_64;

use self::announced::Announced;
use self::body::RecordBody;
use self::format::{HEADER_BYTES, Header, Kind, Place, Purged, read_meta};
use self::index::{Candidate, ENTRY_BYTES, Entry, Index, VARIANT_MASK, Waiting};
use self::marks::Marks;
use self::medium::{Folder, SegmentFile, read_exact};
use self::writer::Writer;
use crate::store::body::{Body, DiskBody};
use crate::{Purge, PurgeMode, Stored, StoredHead};

pub use announced::{AnnouncedRecord, AnnouncedRemoval};
pub use counters::DiskCounters;
pub(crate) use marks::Verdict;

/// A body of at most this length is promoted to memory when it is read. A longer one is sent from disk.
const PROMOTED_BYTES_MAX: u64 = 1 << 20;
/// The share of the memory tier that the index may take, and the share that may wait to be written: one in this many
/// each.
const MEMORY_SHARE: u64 = 8;
/// The most bytes that wait to be written.
const WAITING_BYTES_MAX: u64 = 64 << 20;
/// The most purges that wait to be written. Beyond that, the log is removed instead.
const WAITING_PURGES_MAX: usize = 1 << 16;
/// How long the tier is suspended after a call that did not return in time.
const SUSPENDED_TIME: Duration = Duration::from_secs(10);
/// With shared purges, contents whose last confirmation is older than this are removed at the start, because their
/// source may have dropped purges since then.
pub const PURGE_GAP_MAX: Duration = Duration::from_secs(30 * 60);

/// The folder and the size of the disk tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskSettings {
    /// The folder. It belongs to one process at a time.
    pub path: PathBuf,
    /// The most bytes of all files in it.
    pub size_bytes: u64,
    /// Whether purges come from a source that other gateways share. The contents then answer no request until the
    /// caller [confirms](crate::Store::confirm_disk) that the purges which were made before the start are carried out.
    pub shares_purges: bool,
}

/// The state of the disk tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum DiskState {
    /// It waits for the folder, which another process holds.
    Waiting,
    /// It reads the log.
    Starting,
    /// It answers look-ups.
    Ready,
    /// It ended, or gave up because the folder cannot be changed.
    Closed,
    /// It is ready, but the purges before the start are not known yet. Only a [status](DiskStatus) has this state.
    Held,
    /// It is not used for a while, because a call did not return in time. Only a status has this state.
    Suspended,
}

impl DiskState {
    const ALL: [Self; 4] = [Self::Waiting, Self::Starting, Self::Ready, Self::Closed];

    /// Its name for the admin API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Closed => "closed",
            Self::Held => "held",
            Self::Suspended => "suspended",
        }
    }
}

/// The state and the contents of the disk tier.
#[derive(Clone, Debug)]
pub struct DiskStatus {
    /// Whether it serves.
    pub state: DiskState,
    /// Responses that can be found.
    pub objects: u64,
    /// Bytes of all files.
    pub bytes: u64,
    /// The most bytes of all files.
    pub size_bytes: u64,
    /// Bytes that wait to be written.
    pub waiting_bytes: u64,
    /// Purges that wait to be written.
    pub waiting_purges: usize,
    /// The current problem, and since when it lasts; `None`: there is none.
    pub problem: Option<(String, SystemTime)>,
    /// When the last error was counted, even if its cause is gone.
    pub last_error_at: Option<SystemTime>,
    /// Whether the contents were removed at the start, because purges may have been missed.
    pub was_outdated: bool,
    /// The counters.
    pub counters: DiskCounters,
}

/// A task of the writer.
#[derive(Debug)]
enum Operation {
    Write(Arc<Waiting>),
    Purge(WaitingPurge),
    /// The purges up to this time, in seconds since 1970, precede it in the queue.
    Confirm(u64),
}

/// A purge that waits to be written.
#[derive(Debug)]
struct WaitingPurge {
    purged: Purged,
    mode: PurgeMode,
    /// Its number among the [marks](Marks); 0 if it has none.
    number: u64,
    /// Receives whether the purge will survive the end of the process, and a loss of power unless it is
    /// [announced](AnnouncedRemoval).
    done: Option<SyncSender<bool>>,
    /// It is announced: the next start removes the key. In this process, the request removes it if it succeeds.
    is_announced: bool,
}

#[derive(Debug, Default)]
struct Queue {
    operations: VecDeque<Operation>,
    bytes: u64,
    purges: usize,
    has_confirmation: bool,
    /// Too many purges waited, so the log must be removed.
    is_overrun: bool,
    is_closing: bool,
}

/// The disk tier.
pub struct Disk {
    settings: DiskSettings,
    counters: DiskCounters,
    hasher: foldhash::quality::RandomState,
    index: Index,
    marks: Mutex<Marks>,
    /// The number of purges among the marks, to be read without the lock.
    purges: AtomicU64,
    files: RwLock<BTreeMap<u32, Arc<dyn SegmentFile>>>,
    queue: Mutex<Queue>,
    wake: Condvar,
    state: AtomicU8,
    /// The contents answer no request until the purges are known.
    is_held: AtomicBool,
    was_outdated: AtomicBool,
    problem: Mutex<Option<(String, SystemTime)>>,
    bytes: AtomicU64,
    objects_max: usize,
    waiting_bytes_max: u64,
    opened: Instant,
    /// Milliseconds after `opened` until which it is suspended.
    suspended_until: AtomicU64,
    /// The keys that are being looked up, and the tasks that wait for it.
    turns: Mutex<HashMap<u64, Vec<Waker>>>,
    /// The keys that requests may be about to remove.
    announced: Announced,
}

impl Disk {
    /// Starts the tier: a thread opens it and writes to it. `memory_bytes`: the capacity of the store in memory. The
    /// index and the queue each take a share of this size in addition.
    pub(crate) fn start(
        settings: DiskSettings,
        memory_bytes: u64,
        hasher: foldhash::quality::RandomState,
        counters: DiskCounters,
    ) -> Arc<Self> {
        let folder = Folder::new(&settings.path);
        let disk = Arc::new(Self::new(settings, memory_bytes, hasher, counters));
        let of_thread = disk.clone();
        let run = move || Writer::new(of_thread, folder).run();
        if let Err(error) = thread::Builder::new().name("cache-disk".to_owned()).spawn(run) {
            disk.set_state(DiskState::Closed);
            disk.note_problem(format!("no thread for the disk tier: {error}"));
        }
        disk
    }

    fn new(
        settings: DiskSettings,
        memory_bytes: u64,
        hasher: foldhash::quality::RandomState,
        counters: DiskCounters,
    ) -> Self {
        let share = memory_bytes / MEMORY_SHARE;
        let is_held = AtomicBool::new(settings.shares_purges);
        Self {
            settings,
            counters,
            hasher,
            index: Index::new(),
            marks: Mutex::default(),
            purges: AtomicU64::new(0),
            files: RwLock::default(),
            queue: Mutex::default(),
            wake: Condvar::new(),
            state: AtomicU8::new(DiskState::Waiting as u8),
            is_held,
            was_outdated: AtomicBool::new(false),
            problem: Mutex::default(),
            bytes: AtomicU64::new(0),
            objects_max: usize::try_from(share / ENTRY_BYTES).unwrap_or(usize::MAX).max(64),
            waiting_bytes_max: share.min(WAITING_BYTES_MAX),
            opened: Instant::now(),
            suspended_until: AtomicU64::new(0),
            turns: Mutex::default(),
            announced: Announced::default(),
        }
    }

    /// Returns its settings.
    #[must_use]
    pub fn settings(&self) -> &DiskSettings {
        &self.settings
    }

    /// Returns its state and contents.
    #[must_use]
    pub fn status(&self) -> DiskStatus {
        let (waiting_bytes, waiting_purges) = {
            let queue = lock(&self.queue);
            (queue.bytes, queue.purges)
        };
        let state = match self.state() {
            DiskState::Ready if self.is_held() => DiskState::Held,
            DiskState::Ready if self.is_suspended() => DiskState::Suspended,
            state => state,
        };
        DiskStatus {
            state,
            objects: self.index.count() as u64,
            bytes: self.bytes.load(Ordering::Relaxed),
            size_bytes: self.settings.size_bytes,
            waiting_bytes,
            waiting_purges,
            problem: lock(&self.problem).clone(),
            last_error_at: self.counters.last_error(),
            was_outdated: self.was_outdated.load(Ordering::Relaxed),
            counters: self.counters.clone(),
        }
    }

    pub(crate) fn counters(&self) -> &DiskCounters {
        &self.counters
    }

    /// The hash of a key, as the store in memory has it.
    fn hash(&self, key: &[u8]) -> u64 {
        self.hasher.hash_one(key)
    }

    fn state(&self) -> DiskState {
        DiskState::ALL[usize::from(self.state.load(Ordering::Acquire)) % DiskState::ALL.len()]
    }

    fn set_state(&self, state: DiskState) {
        self.state.store(state as u8, Ordering::Release);
    }

    fn note_problem(&self, problem: String) {
        let mut known = lock(&self.problem);
        // Its text may change while it lasts.
        let since = known.as_ref().map_or_else(SystemTime::now, |(_, since)| *since);
        *known = Some((problem, since));
    }

    fn end_problem(&self) {
        *lock(&self.problem) = None;
    }

    /// Ends the tier: its thread writes the queue, and then releases the folder. Does not wait for it.
    pub fn close(&self) {
        lock(&self.queue).is_closing = true;
        self.wake.notify_all();
    }

    /// Ends the tier, and waits at most this long until the folder is released. Returns whether it is.
    pub fn close_and_wait(&self, most: Duration) -> bool {
        self.close();
        let end = Instant::now() + most;
        let mut queue = lock(&self.queue);
        while self.state() != DiskState::Closed {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            queue = self.wake.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// The number of purges so far. A fetch remembers it when it starts.
    pub(crate) fn purges(&self) -> u64 {
        self.purges.load(Ordering::Acquire)
    }

    /// Queues a response that entered memory. `purges`: the number of purges when its fetch started. The caller holds
    /// the lock of the key's stripe, so responses to one key arrive in order.
    pub(crate) fn insert(&self, stored: &Arc<Stored>, purges: u64) {
        let (hash, variant) = (stored.hash(), variant(stored.head()));
        // Held until the object waits, so that a purge is before it or after it in the log and in the marks alike.
        let marks = lock(&self.marks);
        let is_valid = marks.of_fetch(purges, stored.key(), stored.head().tags()) == Verdict::Valid
            && !self.announced.has(hash);
        let mut queue = lock(&self.queue);
        if queue.is_closing || self.state() == DiskState::Closed {
            return;
        }
        let cost = stored.cost();
        let has_room = queue.bytes == 0 || queue.bytes + cost <= self.waiting_bytes_max;
        if is_valid && has_room && stored.length() <= self.settings.size_bytes / 4 {
            let object = Arc::new(Waiting::new(stored.clone(), hash, variant, purges));
            self.index.wait(&object);
            queue.bytes += cost;
            queue.operations.push_back(Operation::Write(object));
        } else {
            self.counters.count_drop();
            // The log has only older versions of what memory has, and no look-up may find them again.
            if self.index.displace(hash, variant) || self.state() != DiskState::Ready {
                Self::push_purge(&mut queue, WaitingPurge::of_key(stored.key(), PurgeMode::Remove));
            }
        }
        drop(queue);
        self.wake.notify_all();
    }

    fn push_purge(queue: &mut Queue, purge: WaitingPurge) {
        if queue.purges >= WAITING_PURGES_MAX {
            queue.is_overrun = true;
            return;
        }
        queue.purges += 1;
        queue.operations.push_back(Operation::Purge(purge));
    }

    /// Purges a key. The caller holds the lock of its stripe.
    pub(crate) fn purge_key(&self, hash: u64, key: &[u8], mode: PurgeMode) {
        let has_any = self.index.has(hash);
        self.index.purge(hash, mode, false);
        if has_any || self.state() != DiskState::Ready {
            Self::push_purge(&mut lock(&self.queue), WaitingPurge::of_key(key, mode));
            self.wake.notify_all();
        }
    }

    /// Purges by prefix, by tags, or everything. After it returns, no matching response is found. The receiver gets
    /// whether the purge survives the end of the process. The caller purges memory afterwards.
    pub(crate) fn purge(&self, what: Purge<'_>, mode: PurgeMode) -> Receiver<bool> {
        let (done, receiver) = sync_channel(1);
        let purged = Purged::from(what);
        // Held until the purge waits to be written: see `insert`.
        let mut marks = lock(&self.marks);
        let number = marks.begin(&purged, mode);
        self.purges.store(number, Ordering::Release);
        let mut queue = lock(&self.queue);
        if queue.is_closing || self.state() == DiskState::Closed {
            // Dropping the sender reports this to the caller.
            return receiver;
        }
        let done = Some(done);
        Self::push_purge(&mut queue, WaitingPurge { purged, mode, number, done, is_announced: false });
        drop(queue);
        self.wake.notify_all();
        receiver
    }

    /// Returns whether the contents answer no request until the purges are known.
    pub(crate) fn is_held(&self) -> bool {
        self.is_held.load(Ordering::Acquire)
    }

    /// Confirms that all purges up to a time, in seconds since 1970, are carried out, and lets the contents answer
    /// requests.
    pub(crate) fn confirm(&self, seconds: u64) {
        let mut queue = lock(&self.queue);
        let is_open = !queue.is_closing && self.state() != DiskState::Closed;
        if is_open && !std::mem::replace(&mut queue.has_confirmation, true) {
            queue.operations.push_back(Operation::Confirm(seconds));
        }
        drop(queue);
        self.is_held.store(false, Ordering::Release);
        self.wake.notify_all();
    }

    /// Returns whether a look-up of this hash may find a response.
    pub(crate) fn may_have(&self, hash: u64) -> bool {
        self.state() == DiskState::Ready && self.index.has(hash) && !self.is_held() && !self.is_suspended()
    }

    /// Returns the candidates for a key, the newest first.
    pub(crate) fn candidates(self: &Arc<Self>, hash: u64, key: &[u8]) -> Vec<DiskCandidate> {
        // While the log is read, a newer record or a purge may follow.
        if self.state() != DiskState::Ready || self.is_held() || self.is_suspended() {
            return Vec::new();
        }
        let files = self.files.read().unwrap_or_else(PoisonError::into_inner);
        let of = |candidate| match candidate {
            Candidate::Waiting(waiting) => {
                let of_key = waiting.stored.key() == key;
                of_key.then(|| DiskCandidate::Waiting(Loaded::of_waiting(waiting)))
            }
            Candidate::Record(entry) => Some(DiskCandidate::Record(DiskRecord {
                disk: self.clone(),
                hash,
                key: key.into(),
                entry,
                file: files.get(&entry.place.segment)?.clone(),
            })),
        };
        self.index.candidates(hash).into_iter().filter_map(of).collect()
    }

    /// Returns the effect of the purges on a response that a look-up found, just before it is put in memory. The caller
    /// holds the lock of the key's stripe.
    pub(crate) fn recheck(&self, loaded: &Loaded) -> Verdict {
        let stored = &loaded.stored;
        let is_current = match &loaded.source {
            Source::Waiting(waiting) => !waiting.is_gone(),
            Source::Record(place) => self.index.is_current(stored.hash(), variant(stored.head()), *place),
        };
        if !is_current {
            return Verdict::Removed;
        }
        let (key, tags) = (stored.key(), stored.head().tags());
        let marks = lock(&self.marks);
        match &loaded.source {
            Source::Waiting(waiting) => marks.of_fetch(waiting.purges, key, tags),
            Source::Record(place) => marks.of_record(*place, key, tags),
        }
    }

    /// Waits until no other request looks up a key with this hash.
    pub(crate) fn poll_turn(self: &Arc<Self>, hash: u64, cx: &mut Context<'_>) -> Poll<LookupTurn> {
        let mut turns = lock(&self.turns);
        if let Some(waiting) = turns.get_mut(&hash) {
            if !waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
                waiting.push(cx.waker().clone());
            }
            return Poll::Pending;
        }
        turns.insert(hash, Vec::new());
        Poll::Ready(LookupTurn { disk: self.clone(), hash })
    }

    /// Notes that a read did not return in time: for a while, nothing is looked up here.
    pub fn note_slow(&self) {
        self.counters.count_error();
        self.note_problem("the disk does not answer in time".to_owned());
        let until = self.opened.elapsed() + SUSPENDED_TIME;
        self.suspended_until.store(until.as_millis() as u64, Ordering::Relaxed);
    }

    fn is_suspended(&self) -> bool {
        let until = self.suspended_until.load(Ordering::Relaxed);
        if until == 0 {
            return false;
        }
        let is_over = self.opened.elapsed().as_millis() as u64 >= until;
        if is_over && self.suspended_until.swap(0, Ordering::Relaxed) != 0 {
            self.end_problem();
        }
        !is_over
    }

    /// Removes a record that cannot be read, or is damaged. The log records the removal: after the next start the
    /// record may be readable again, and a purge made since then would not have matched it.
    fn note_bad_record(&self, hash: u64, key: &[u8], place: Place) {
        self.counters.count_error();
        self.index.drop_record(hash, place);
        Self::push_purge(&mut lock(&self.queue), WaitingPurge::of_key(key, PurgeMode::Remove));
        self.wake.notify_all();
    }
}

impl fmt::Debug for Disk {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Disk").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl WaitingPurge {
    fn of_key(key: &[u8], mode: PurgeMode) -> Self {
        Self { purged: Purged::Key(key.into()), mode, number: 0, done: None, is_announced: false }
    }
}

/// The right to look a key up on disk. Other requests for the key wait, and then find it in memory.
#[derive(Debug)]
pub struct LookupTurn {
    disk: Arc<Disk>,
    hash: u64,
}

impl Drop for LookupTurn {
    fn drop(&mut self) {
        let waiting = lock(&self.disk.turns).remove(&self.hash);
        waiting.into_iter().flatten().for_each(Waker::wake);
    }
}

/// A response that the disk tier may have for a key.
#[derive(Debug)]
pub enum DiskCandidate {
    /// It is still in memory, because it waits to be written.
    Waiting(Loaded),
    /// It must be read.
    Record(DiskRecord),
}

/// A record that may answer a request.
#[derive(Debug)]
pub struct DiskRecord {
    disk: Arc<Disk>,
    hash: u64,
    key: Box<[u8]>,
    entry: Entry,
    file: Arc<dyn SegmentFile>,
}

/// A response that was found. [`Store::promote`](crate::Store::promote) decides whether it is still valid.
#[derive(Debug)]
pub struct Loaded {
    stored: Arc<Stored>,
    source: Source,
}

#[derive(Debug)]
enum Source {
    Waiting(Arc<Waiting>),
    Record(Place),
}

impl Loaded {
    fn of_waiting(waiting: Arc<Waiting>) -> Self {
        let old = &waiting.stored;
        // Another object, since that one has left memory for good.
        let stored = Stored::response(old.hash(), old.key(), old.head().clone(), old.body().clone());
        if waiting.is_marked() || old.is_marked_stale() {
            stored.mark_stale();
        }
        Self { stored: Arc::new(stored), source: Source::Waiting(waiting) }
    }

    /// The response.
    #[must_use]
    pub fn stored(&self) -> &Arc<Stored> {
        &self.stored
    }
}

impl DiskRecord {
    /// Reads the record. A short body is read as well; a long one stays on disk. `None`: the record has another key,
    /// was purged, or cannot be read. Blocks the thread.
    #[must_use]
    pub fn load(&self) -> Option<Loaded> {
        let Self { disk, hash, key, entry, .. } = self;
        let Some((head, body)) = self.read() else {
            disk.note_bad_record(*hash, key, entry.place);
            return None;
        };
        if body.key != *key {
            return None;
        }
        match lock(&disk.marks).of_record(entry.place, key, head.tags()) {
            Verdict::Removed => {
                disk.index.drop_record(*hash, entry.place);
                return None;
            }
            Verdict::Valid | Verdict::Stale => {}
        }
        let body = if body.length() <= PROMOTED_BYTES_MAX {
            let most = PROMOTED_BYTES_MAX as usize;
            // A failure is noted there.
            Body::new(vec![body.read(0, most).ok()?])
        } else {
            Body::on_disk(Arc::new(body))
        };
        let stored = Stored::response(*hash, key, head, body);
        if entry.is_stale() {
            stored.mark_stale();
        }
        Some(Loaded { stored: Arc::new(stored), source: Source::Record(entry.place) })
    }

    /// Reads the head, and describes the body. `None`: it cannot be read, or is damaged.
    fn read(&self) -> Option<(StoredHead, RecordBody)> {
        let Entry { place, meta_bytes, body_bytes, .. } = self.entry;
        let offset = u64::from(place.offset);
        let bytes = read_exact(&*self.file, HEADER_BYTES + meta_bytes as usize, offset).ok()?;
        let header = Header::read(&bytes, place)?;
        let is_it = (header.kind, header.body_bytes) == (Kind::Object, body_bytes);
        let meta = Some(&bytes[HEADER_BYTES..]).filter(|meta| is_it && header.has_meta(meta))?;
        let meta = read_meta(meta, body_bytes)?;
        let body = RecordBody {
            disk: self.disk.clone(),
            hash: self.hash,
            key: meta.key,
            place,
            file: self.file.clone(),
            start: offset + HEADER_BYTES as u64 + u64::from(meta_bytes),
            length: body_bytes,
            sums: meta.sums,
        };
        Some((meta.head, body))
    }
}

/// A hash of the varying fields: responses under one key that differ in it are variants.
fn variant(head: &StoredHead) -> u32 {
    xxh3_64(head.vary().map_or(b"", |vary| vary.as_bytes())) as u32 & VARIANT_MASK
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
