//! Calls of the file system that fail, one after another.

use super::simulated::{Fault, Simulated};
use super::*;
use crate::{Purge, PurgeMode};

/// Puts, replaces, purges and reads some objects. Returns what was found at the end, where the newest is expected to be.
fn scenario(folder: &Simulated) -> Tiers {
    let mut tiers = Tiers::open(folder);
    for (key, version) in [(b"a", 1_u8), (b"b", 1), (b"a", 2), (b"c", 1)] {
        tiers.put(key, FRESH, &[version; 70_000]);
        tiers.flush();
        assert!(matches!(tiers.body_on_disk(key), None | Some(_)));
    }
    tiers.store.purge(Purge::Prefix(b"c"), PurgeMode::Remove);
    tiers.store.purge(Purge::Key(b"b"), PurgeMode::Remove);
    tiers.flush();
    tiers.put(b"d", FRESH, &[1; 2_000_000]);
    tiers.flush();
    tiers
}

/// Checks that nothing but the newest version is found.
fn check(tiers: &Tiers, context: &str) {
    let found = |key: &[u8]| tiers.body_on_disk(key);
    assert!(matches!(found(b"a"), None) || found(b"a") == Some(vec![2; 70_000]), "{context}");
    assert_eq!((found(b"b"), found(b"c")), (None, None), "{context}");
    assert!(matches!(found(b"d"), None) || found(b"d") == Some(vec![1; 2_000_000]), "{context}");
}

#[test]
fn each_call_may_fail_once() {
    let counted = Simulated::default();
    scenario(&counted);
    let calls = counted.calls();
    assert!(calls > 30, "{calls}");
    for at in 0..calls {
        for fault in [Fault::Io, Fault::Full, Fault::Short] {
            let folder = Simulated::default();
            folder.fail_after(at, fault);
            let tiers = scenario(&folder);
            let context = format!("{fault:?} at call {at} of {calls}");
            check(&tiers, &context);
            drop(tiers);
            folder.revive();
            check(&Tiers::open(&folder), &format!("{context}, after a restart"));
        }
    }
}

#[test]
fn a_start_may_fail_at_each_call() {
    let folder = Simulated::default();
    scenario(&folder);
    let before = folder.calls();
    Tiers::open(&folder);
    for at in 0..folder.calls() - before {
        for fault in [Fault::Io, Fault::Short] {
            let folder = Simulated::default();
            scenario(&folder);
            folder.fail_after(at, fault);
            check(&Tiers::open(&folder), &format!("{fault:?} at call {at}"));
            folder.revive();
            check(&Tiers::open(&folder), &format!("{fault:?} at call {at}, after a restart"));
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
    for seed in 0..300 {
        let mut random = fastrand::Rng::with_seed(seed);
        let folder = Simulated::default();
        let tiers = scenario(&folder);
        for _ in 0..random.usize(1..4) {
            folder.flip(random.usize(0..folder.bytes()), random.u8(..));
        }
        check(&tiers, &format!("seed {seed}"));
        drop(tiers);
        check(&Tiers::open(&folder), &format!("seed {seed}, after a restart"));
    }
}
