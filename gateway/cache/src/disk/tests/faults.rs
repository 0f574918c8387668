//! Calls of the file system that fail, one after another.

use super::simulated::{Fault, Simulated};
use super::*;
use crate::{Purge, PurgeMode};

/// A body that stays on disk when it is read.
const LONG: usize = (1 << 20) + 1;

/// Puts, replaces, purges and reads some objects. `length`: of the last one.
fn scenario(folder: &Simulated, length: usize) -> Tiers {
    let mut tiers = Tiers::open(folder);
    for (key, version) in [(b"a", 1_u8), (b"b", 1), (b"a", 2), (b"c", 1)] {
        tiers.put(key, FRESH, &[version; 5_000]);
        tiers.flush();
        tiers.body_on_disk(key);
    }
    tiers.store.purge(Purge::Prefix(b"c"), PurgeMode::Remove);
    tiers.store.purge(Purge::Key(b"b"), PurgeMode::Remove);
    tiers.flush();
    tiers.put(b"d", FRESH, &vec![1; length]);
    tiers.flush();
    tiers
}

/// Checks that nothing but the newest version is found.
fn check(tiers: &Tiers, length: usize, context: &str) {
    let is_newest = |key: &[u8], body: Vec<u8>| tiers.body_on_disk(key).is_none_or(|found| found == body);
    assert!(is_newest(b"a", vec![2; 5_000]), "{context}");
    assert!(is_newest(b"d", vec![1; length]), "{context}");
    assert_eq!((tiers.body_on_disk(b"b"), tiers.body_on_disk(b"c")), (None, None), "{context}");
}

#[test]
fn each_call_may_fail_once() {
    for (length, faults) in [(70_000, &[Fault::Io, Fault::Full, Fault::Short][..]), (LONG, &[Fault::Io])] {
        let counted = Simulated::default();
        scenario(&counted, length);
        let calls = counted.calls();
        assert!(calls > 10, "{calls}");
        for at in 0..calls {
            for fault in faults {
                let folder = Simulated::default();
                folder.fail_after(at, *fault);
                let tiers = scenario(&folder, length);
                let context = format!("{fault:?} at call {at} of {calls}");
                check(&tiers, length, &context);
                drop(tiers);
                folder.revive();
                check(&Tiers::open(&folder), length, &format!("{context}, after a restart"));
            }
        }
    }
}

#[test]
fn a_start_may_fail_at_each_call() {
    let folder = Simulated::default();
    scenario(&folder, 100);
    let before = folder.calls();
    Tiers::open(&folder);
    for at in 0..folder.calls() - before {
        for fault in [Fault::Io, Fault::Short] {
            let folder = Simulated::default();
            scenario(&folder, 100);
            folder.fail_after(at, fault);
            check(&Tiers::open(&folder), 100, &format!("{fault:?} at call {at}"));
            folder.revive();
            check(&Tiers::open(&folder), 100, &format!("{fault:?} at call {at}, after a restart"));
        }
    }
}

#[test]
fn a_full_disk_is_used_as_far_as_it_goes() {
    let folder = Simulated::default();
    folder.set_room(Some(3 << 20));
    let mut tiers = Tiers::open(&folder);
    let mut found = 0;
    for number in 0..100_u8 {
        assert!(tiers.put(&[number], FRESH, &[number; 200_000]).is_some(), "memory has it in any case");
        tiers.flush();
        // A failed write pauses the writer for a second of the real clock.
        tiers.writer.end_pause();
        let body = tiers.body_on_disk(&[number]);
        assert!(body.is_none() || body == Some(vec![number; 200_000]));
        found += u32::from(body.is_some());
    }
    assert!(found > 50, "{found}");
    assert!(folder.bytes() <= 3 << 20);
    folder.set_room(Some(0));
    let confirmed = tiers.disk.purge(Purge::All, PurgeMode::Remove);
    tiers.flush();
    assert_eq!(confirmed.try_recv(), Ok(true), "without a byte of room, the log is removed");
    assert_eq!(folder.bytes(), 0);
}

#[test]
fn a_folder_that_cannot_be_changed_ends_the_tier() {
    let folder = Simulated::default();
    let mut tiers = Tiers::open(&folder);
    tiers.put(b"a", FRESH, b"body").expect("stored");
    tiers.flush();
    (0..100).for_each(|call| folder.fail_after(call, Fault::Io));
    let confirmed = tiers.disk.purge(Purge::Prefix(b"a"), PurgeMode::Remove);
    tiers.flush();
    assert_ne!(confirmed.try_recv(), Ok(true), "it may return after a restart");
    assert_eq!(tiers.disk.status().state, crate::DiskState::Closed);
    assert!(tiers.disk.status().problem.is_some());
    assert!(tiers.put(b"a", FRESH, b"new").is_some(), "memory goes on");
    assert_eq!(tiers.find(b"a", "").and_then(|stored| body(&stored)), Some(b"new".to_vec()));
}

#[test]
fn a_flipped_bit_is_never_served() {
    for seed in 0..200 {
        let length = if seed % 20 == 0 { LONG } else { 100_000 };
        let mut random = fastrand::Rng::with_seed(seed);
        let folder = Simulated::default();
        let tiers = scenario(&folder, length);
        for _ in 0..random.usize(1..4) {
            folder.flip(random.usize(0..folder.bytes()), random.u8(..));
        }
        check(&tiers, length, &format!("seed {seed}"));
        drop(tiers);
        check(&Tiers::open(&folder), length, &format!("seed {seed}, after a restart"));
    }
}
