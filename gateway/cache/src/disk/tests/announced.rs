//! Removals by unsafe methods, and the end of the process at any moment of them.

use std::time::Duration;

use super::simulated::Simulated;
use super::{FRESH, Tiers};
use crate::{Purge, PurgeMode};

fn filled(folder: &Simulated) -> Tiers {
    let mut tiers = Tiers::open(folder);
    tiers.put(b"a", FRESH, b"old").expect("stored");
    tiers.put(b"b", FRESH, b"other").expect("stored");
    tiers.flush();
    tiers
}

#[test]
fn a_process_that_ends_after_the_response_does_not_bring_back_what_was_removed() {
    let folder = Simulated::default();
    let mut tiers = filled(&folder);
    let mut removal = tiers.store.announce_removal(b"a").expect("a tier");
    let record = removal.take_record().expect("something is on disk");
    tiers.flush();
    assert!(record.wait(Duration::ZERO));
    // Until the response arrives, it is served; a concurrent fetch gets what was there before as well.
    assert_eq!(tiers.body_on_disk(b"a").as_deref(), Some(&b"old"[..]));
    tiers.put(b"a", FRESH, b"old, fetched again").expect("stored");
    tiers.flush();
    // The process ends before the removal itself is written.
    assert_eq!(Tiers::open(&folder).body_on_disk(b"a"), None);
    assert_eq!(Tiers::open(&folder).body_on_disk(b"b").as_deref(), Some(&b"other"[..]));
    // In the process that goes on, the request succeeds.
    tiers.store.purge(Purge::Key(b"a"), PurgeMode::Remove);
    drop(removal);
    assert_eq!(tiers.body_on_disk(b"a"), None);
    tiers.put(b"a", FRESH, b"new").expect("stored");
    tiers.flush();
    assert_eq!(Tiers::open(&folder).body_on_disk(b"a").as_deref(), Some(&b"new"[..]));
}

#[test]
fn what_waits_to_be_written_does_not_follow_the_record() {
    let folder = Simulated::default();
    let mut tiers = filled(&folder);
    tiers.put(b"a", FRESH, b"newer").expect("stored");
    let mut removal = tiers.store.announce_removal(b"a").expect("a tier");
    assert!(removal.take_record().is_some());
    tiers.flush();
    assert_eq!(Tiers::open(&folder).body_on_disk(b"a"), None);
}

#[test]
fn a_request_that_fails_changes_nothing_in_this_process() {
    let folder = Simulated::default();
    let mut tiers = filled(&folder);
    let removal = tiers.store.announce_removal(b"a").expect("a tier");
    tiers.flush();
    drop(removal);
    assert_eq!(tiers.body_on_disk(b"a").as_deref(), Some(&b"old"[..]));
    tiers.put(b"a", FRESH, b"next").expect("stored");
    tiers.flush();
    assert_eq!(Tiers::open(&folder).body_on_disk(b"a").as_deref(), Some(&b"next"[..]));
}

#[test]
fn a_key_that_is_not_on_disk_costs_no_record() {
    let folder = Simulated::default();
    let mut tiers = filled(&folder);
    let bytes = folder.bytes();
    let mut removal = tiers.store.announce_removal(b"c").expect("a tier");
    assert!(removal.take_record().is_none());
    tiers.put(b"c", FRESH, b"fetched meanwhile").expect("stored");
    tiers.flush();
    assert_eq!(folder.bytes(), bytes, "neither a record nor the response");
    let second = tiers.store.announce_removal(b"c").expect("a tier");
    drop(removal);
    tiers.put(b"c", FRESH, b"the other request runs still").expect("stored");
    tiers.flush();
    assert_eq!(folder.bytes(), bytes);
    drop(second);
    tiers.put(b"c", FRESH, b"kept").expect("stored");
    tiers.flush();
    assert!(folder.bytes() > bytes);
}
