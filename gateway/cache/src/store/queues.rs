//! Chooses what is evicted: S3-FIFO (Yang et al., SOSP 2023), counted in bytes.
//!
//! A new object enters the small queue, a tenth of the capacity. If it was read twice there, it moves to the main
//! queue; otherwise it is evicted, and only its fingerprint is [remembered](super::ghosts). An object that returns soon
//! after enters the main queue at once. The main queue gives each object that was read since another round. So a scan
//! passes through the small queue and displaces nothing in the main one, and a read moves nothing: it sets two bits of
//! the object. The queues hold weak references: an object that was purged is freed at once, and its entry is skipped
//! later.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use super::ghosts::Ghosts;
use super::stored::Stored;

/// The share of the capacity of the small queue is one in this many, as in the paper.
const SMALL_SHARE: u64 = 10;
/// Reads in the small queue from which on an object moves to the main one, as in the paper. On zipf traces, 1 and 2
/// differ by a tenth of a point.
const READS_TO_STAY: u8 = 2;
/// The queues are compacted when this many more entries are dead than alive.
const DEAD_MAX: usize = 1024;

#[derive(Debug, Default)]
struct Queue {
    entries: VecDeque<Weak<Stored>>,
    /// The cost of the living objects.
    bytes: u64,
}

/// The queues of S3-FIFO.
#[derive(Debug, Default)]
pub(super) struct Queues {
    small: Queue,
    main: Queue,
    ghosts: Ghosts,
    /// The bytes of the compressed forms of the living objects, which are part of their cost.
    form_bytes: u64,
    /// The number of living objects in both queues.
    objects: usize,
    /// The number of living objects in the main queue.
    main_objects: usize,
}

impl Queues {
    /// The cost of all objects.
    pub fn bytes(&self) -> u64 {
        self.small.bytes + self.main.bytes
    }

    /// Bytes of the compressed forms of all objects.
    pub fn form_bytes(&self) -> u64 {
        self.form_bytes
    }

    /// Number of objects.
    pub fn objects(&self) -> usize {
        self.objects
    }

    /// Number of entries, including objects that are gone.
    pub fn entries(&self) -> usize {
        self.small.entries.len() + self.main.entries.len()
    }

    /// Adds an object that is in the index. It enters the main queue if it replaces an object there, was read twice or
    /// was evicted recently.
    pub fn push(&mut self, object: &Arc<Stored>) {
        // It may have been removed again already.
        if !object.is_stored() {
            return;
        }
        let is_known = self.ghosts.take(object.hash(), self.ghost_capacity());
        if is_known || object.reads() >= READS_TO_STAY {
            object.mark_main();
        }
        object.mark_queued();
        let (cost, is_main) = (object.cost(), object.is_main());
        self.objects += 1;
        self.form_bytes += object.form_bytes();
        self.main_objects += usize::from(is_main);
        let queue = if is_main { &mut self.main } else { &mut self.small };
        queue.bytes += cost;
        queue.entries.push_back(Arc::downgrade(object));
    }

    /// Stops counting an object that was removed from the index.
    pub fn forget(&mut self, object: &Stored) {
        if !object.unmark_queued() {
            return;
        }
        self.discount(object);
        let entries = self.entries();
        if entries > 2 * self.objects + DEAD_MAX {
            for queue in [&mut self.small, &mut self.main] {
                queue.entries.retain(|entry| entry.upgrade().is_some_and(|object| object.is_queued()));
                queue.entries.shrink_to(queue.entries.len() * 2);
            }
        }
    }

    fn discount(&mut self, object: &Stored) {
        self.objects -= 1;
        self.form_bytes -= object.form_bytes();
        let queue = if object.is_main() {
            self.main_objects -= 1;
            &mut self.main
        } else {
            &mut self.small
        };
        queue.bytes -= object.cost();
    }

    /// Makes a change that may raise the cost of an object, and returns its result. An object that is in no queue stays as it
    /// is.
    pub fn grow(&mut self, object: &Stored, change: impl FnOnce() -> bool) -> bool {
        if !object.is_queued() {
            return false;
        }
        let before = object.form_bytes();
        let is_changed = change();
        let added = object.form_bytes() - before;
        self.form_bytes += added;
        let queue = if object.is_main() { &mut self.main } else { &mut self.small };
        queue.bytes += added;
        is_changed
    }

    /// Takes objects out until the others cost at most `capacity`. The caller removes them from the index.
    pub fn evict(&mut self, capacity: u64) -> Vec<Arc<Stored>> {
        let mut victims = Vec::new();
        while self.bytes() > capacity {
            let victim = if self.small.bytes > capacity / SMALL_SHARE || self.main.bytes == 0 {
                self.evict_small()
            } else {
                self.evict_main()
            };
            victims.extend(victim);
            if self.objects == 0 {
                break;
            }
        }
        victims
    }

    /// Takes the oldest object out of the small queue: moves it to the main one, or evicts it.
    fn evict_small(&mut self) -> Option<Arc<Stored>> {
        let object = pop(&mut self.small)?;
        if object.reads() < READS_TO_STAY {
            object.unmark_queued();
            self.discount(&object);
            self.ghosts.insert(object.hash(), self.ghost_capacity());
            return Some(object);
        }
        let cost = object.cost();
        object.set_reads(0);
        object.mark_main();
        self.main_objects += 1;
        self.small.bytes -= cost;
        self.main.bytes += cost;
        self.main.entries.push_back(Arc::downgrade(&object));
        None
    }

    /// Takes the oldest object out of the main queue: evicts it, or gives it another round if it was read.
    fn evict_main(&mut self) -> Option<Arc<Stored>> {
        let object = pop(&mut self.main)?;
        let reads = object.reads();
        if reads == 0 {
            object.unmark_queued();
            self.discount(&object);
            return Some(object);
        }
        object.set_reads(reads - 1);
        self.main.entries.push_back(Arc::downgrade(&object));
        None
    }

    /// The number of remembered evictions, which is the number of objects in the larger queue.
    fn ghost_capacity(&self) -> usize {
        self.main_objects.max(self.objects - self.main_objects)
    }
}

/// Takes the oldest living object out of a queue.
fn pop(queue: &mut Queue) -> Option<Arc<Stored>> {
    loop {
        let object = queue.entries.pop_front()?.upgrade();
        if let Some(object) = object.filter(|object| object.is_queued()) {
            return Some(object);
        }
    }
}
