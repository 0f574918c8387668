//! Contents from before a start, when gateways share purges.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::super::{DiskState, PURGE_GAP_MAX};
use super::simulated::Simulated;
use super::{DISK_BYTES, FRESH, Tiers};
use crate::{Purge, PurgeMode};

fn open(folder: &Simulated) -> Tiers {
    Tiers::open_as(folder, DISK_BYTES, true)
}

/// Stores `a`, and notes a time at which its purges were known.
fn filled(folder: &Simulated, known_at: SystemTime) {
    let mut tiers = open(folder);
    tiers.put(b"a", FRESH, b"body").expect("stored");
    tiers.store.confirm_disk(known_at);
    tiers.flush();
}

#[test]
fn contents_wait_until_the_missed_purges_are_carried_out() {
    let folder = Simulated::default();
    filled(&folder, SystemTime::now());
    let mut tiers = open(&folder);
    assert_eq!((tiers.disk.status().objects, tiers.disk.status().state), (1, DiskState::Held));
    assert_eq!(tiers.body_on_disk(b"a"), None, "purges may concern it");
    tiers.put(b"b", FRESH, b"new").expect("stored");
    tiers.flush();
    tiers.store.confirm_disk(SystemTime::now());
    assert_eq!(tiers.disk.status().state, DiskState::Ready);
    assert_eq!(tiers.body_on_disk(b"a").as_deref(), Some(&b"body"[..]));
    assert_eq!(tiers.body_on_disk(b"b").as_deref(), Some(&b"new"[..]));
    // At the next start, the missed purges concern it.
    tiers.flush();
    let mut tiers = open(&folder);
    tiers.store.purge(Purge::Prefix(b"a"), PurgeMode::Remove);
    tiers.store.confirm_disk(SystemTime::now());
    assert_eq!(tiers.body_on_disk(b"a"), None);
    assert_eq!(tiers.body_on_disk(b"b").as_deref(), Some(&b"new"[..]));
    tiers.flush();
    assert!(!tiers.disk.status().was_outdated);
}

#[test]
fn contents_whose_missed_purges_may_be_gone_are_removed() {
    let (now, second) = (SystemTime::now(), Duration::from_secs(1));
    for (known_at, is_kept) in [
        (now - (PURGE_GAP_MAX - 60 * second), true),
        (now - (PURGE_GAP_MAX + second), false),
        (UNIX_EPOCH, false),
        (now + 2 * PURGE_GAP_MAX, false),
    ] {
        let folder = Simulated::default();
        filled(&folder, known_at);
        let tiers = open(&folder);
        assert_eq!(tiers.disk.status().was_outdated, !is_kept, "{known_at:?}");
        assert_eq!(tiers.disk.status().objects, u64::from(is_kept), "{known_at:?}");
        assert_eq!(folder.bytes() > 0, is_kept, "{known_at:?}");
    }
    // Without a note of the time, for example from an earlier version.
    let folder = Simulated::default();
    let mut tiers = Tiers::open(&folder);
    tiers.put(b"a", FRESH, b"body").expect("stored");
    tiers.flush();
    assert_eq!(open(&folder).disk.status().objects, 0);
    // Without shared purges, contents are served at once.
    let mut tiers = Tiers::open(&folder);
    tiers.put(b"a", FRESH, b"body").expect("stored");
    tiers.flush();
    assert_eq!(Tiers::open(&folder).body_on_disk(b"a").as_deref(), Some(&b"body"[..]));
}

#[test]
fn contents_that_cannot_be_removed_are_not_served() {
    let folder = Simulated::default();
    filled(&folder, UNIX_EPOCH);
    // The claim, the note and the listing work; the removal fails.
    folder.fail_after(3, super::simulated::Fault::Io);
    let tiers = open(&folder);
    tiers.store.confirm_disk(SystemTime::now());
    assert_eq!((tiers.disk.status().state, tiers.disk.status().objects), (DiskState::Closed, 0));
    assert_eq!(tiers.body_on_disk(b"a"), None);
}
