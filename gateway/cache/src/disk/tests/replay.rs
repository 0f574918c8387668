//! A process that starts with the log of an earlier one.

use super::simulated::Simulated;
use super::*;
use crate::disk::format::BLOCK_BYTES;
use crate::{Purge, PurgeMode};

fn bytes(length: usize, seed: usize) -> Vec<u8> {
    (0..length).map(|at| (at / 3 + seed * 31) as u8).collect()
}

#[test]
fn a_killed_process_leaves_what_it_wrote() {
    let folder = Simulated::default();
    let lengths = [0, 1, 1000, BLOCK_BYTES, BLOCK_BYTES + 1, 300_000, 1 << 20, 3_000_000];
    let mut tiers = Tiers::open(&folder);
    for (number, length) in lengths.into_iter().enumerate() {
        tiers.put(&[number as u8], FRESH, &bytes(length, number)).expect("stored");
        assert_eq!(tiers.body_on_disk(&[number as u8]), Some(bytes(length, number)), "before it is written");
    }
    tiers.flush();
    for turn in 0..2 {
        for (number, length) in lengths.into_iter().enumerate() {
            assert_eq!(tiers.body_on_disk(&[number as u8]), Some(bytes(length, number)), "{length} {turn}");
        }
        tiers = Tiers::open(&folder);
        assert_eq!(tiers.disk.status().objects, lengths.len() as u64);
    }
    let long = tiers.find(&[7], "").expect("found");
    assert!(long.disk_body().is_some() && long.chunks().is_empty(), "a long body stays on disk");
    let short = tiers.find(&[2], "").expect("found");
    assert!(short.disk_body().is_none());
    let hits = tiers.store.counts().hits;
    tiers.find(&[2], "").expect("found");
    assert_eq!(tiers.store.counts().hits, hits + 1, "it is in memory");
}

#[test]
fn a_part_of_a_long_body_is_read_by_its_blocks() {
    let folder = Simulated::default();
    let mut tiers = Tiers::open(&folder);
    let whole = bytes(3_000_000, 1);
    tiers.put(b"k", FRESH, &whole).expect("stored");
    tiers.flush();
    tiers.forget();
    let stored = tiers.find(b"k", "").expect("found");
    let disk = stored.disk_body().expect("on disk");
    for (from, most) in
        [(0, 1), (65_535, 2), (65_536, 65_536), (2_999_999, 10), (100_000, 200_000), (3_000_000, 5)]
    {
        let read = disk.read(from as u64, most).expect("good");
        assert_eq!(read, whole[from..(from + most).min(whole.len())], "{from} {most}");
    }
}

#[test]
fn the_newest_version_is_found() {
    let folder = Simulated::default();
    let mut tiers = Tiers::open(&folder);
    for version in 0..5 {
        tiers.put(b"k", FRESH, &bytes(1000, version)).expect("stored");
        if version % 2 == 0 {
            tiers.flush();
        }
        assert_eq!(tiers.body_on_disk(b"k"), Some(bytes(1000, version)));
    }
    tiers.flush();
    let tiers = Tiers::open(&folder);
    assert_eq!((tiers.body_on_disk(b"k"), tiers.disk.status().objects), (Some(bytes(1000, 4)), 1));
}

#[test]
fn variants_stay_apart() {
    let folder = Simulated::default();
    let fields = "Cache-Control: max-age=60\r\nVary: X-A\r\n";
    let mut tiers = Tiers::open(&folder);
    tiers.put_for(b"k", "X-A: 1\r\n", fields, b"one").expect("stored");
    tiers.put_for(b"k", "X-A: 2\r\n", fields, b"two").expect("stored");
    tiers.flush();
    let tiers = Tiers::open(&folder);
    let of = |asked: &str| tiers.find(b"k", asked).and_then(|stored| body(&stored));
    assert_eq!(of("X-A: 1\r\n"), Some(b"one".to_vec()));
    assert_eq!(of("X-A: 2\r\n"), Some(b"two".to_vec()));
    assert_eq!(of("X-A: 3\r\n"), None);
}

#[test]
fn the_head_and_its_age_come_back() {
    let folder = Simulated::default();
    let fields =
        "Cache-Control: max-age=60, stale-if-error=9\r\nETag: \"a\"\r\nSurrogate-Key: x y\r\nAge: 7\r\n";
    let mut tiers = Tiers::open(&folder);
    let before = tiers.put(b"k", fields, b"body").expect("stored").head().clone();
    tiers.flush();
    let after = Tiers::open(&folder).find(b"k", "").expect("found");
    assert_eq!(*after.head(), before);
    assert_eq!(after.head().age(Moment::from_seconds(1_000_000_010)), 17, "by the wall clock");
}

/// Purges, and whether each concerns the key `a/1` with the tag `t`.
const PURGES: [(Purge<'static>, bool); 7] = [
    (Purge::Key(b"a/1"), true),
    (Purge::Key(b"a/"), false),
    (Purge::Prefix(b"a/"), true),
    (Purge::Prefix(b"b"), false),
    (Purge::Tags(&[b"t"]), true),
    (Purge::Tags(&[b"tt", b"x"]), false),
    (Purge::All, true),
];

#[test]
fn what_was_purged_never_returns() {
    let fields = "Cache-Control: max-age=60\r\nSurrogate-Key: t u\r\n";
    for (what, concerns) in PURGES {
        for is_written in [false, true] {
            let folder = Simulated::default();
            let mut tiers = Tiers::open(&folder);
            tiers.put(b"a/1", fields, b"old").expect("stored");
            if is_written {
                tiers.flush();
            }
            tiers.store.purge(what, PurgeMode::Remove);
            let expected = (!concerns).then(|| b"old".to_vec());
            assert_eq!(tiers.body_on_disk(b"a/1"), expected, "{what:?} {is_written}");
            tiers.flush();
            assert_eq!(tiers.body_on_disk(b"a/1"), expected, "{what:?} {is_written}");
            let mut tiers = Tiers::open(&folder);
            assert_eq!(tiers.body_on_disk(b"a/1"), expected, "{what:?} {is_written}, after a restart");
            tiers.put(b"a/1", fields, b"new").expect("stored");
            tiers.flush();
            assert_eq!(Tiers::open(&folder).body_on_disk(b"a/1"), Some(b"new".to_vec()), "{what:?}");
        }
    }
}

#[test]
fn a_soft_purge_survives_as_well() {
    let fields = "Cache-Control: max-age=60\r\nSurrogate-Key: t u\r\n";
    for (what, concerns) in PURGES {
        for is_written in [false, true] {
            let folder = Simulated::default();
            let mut tiers = Tiers::open(&folder);
            tiers.put(b"a/1", fields, b"old").expect("stored");
            if is_written {
                tiers.flush();
            }
            tiers.store.purge(what, PurgeMode::MarkStale);
            tiers.forget();
            let stale = |tiers: &Tiers| tiers.find(b"a/1", "").map(|stored| stored.is_marked_stale());
            assert_eq!(stale(&tiers), Some(concerns), "{what:?} {is_written}");
            tiers.flush();
            assert_eq!(stale(&Tiers::open(&folder)), Some(concerns), "{what:?} {is_written}");
        }
    }
}

#[test]
fn a_purge_is_confirmed_when_it_is_written() {
    let folder = Simulated::default();
    let mut tiers = Tiers::open(&folder);
    let confirmed = tiers.disk.purge(Purge::All, PurgeMode::Remove);
    assert!(confirmed.try_recv().is_err());
    tiers.flush();
    assert_eq!(confirmed.try_recv(), Ok(true));
    tiers.disk.close();
    tiers.flush();
    assert!(tiers.disk.purge(Purge::All, PurgeMode::Remove).try_recv().is_err(), "the tier has ended");
}

#[test]
fn a_response_that_was_on_its_way_during_a_purge_is_not_on_disk() {
    let folder = Simulated::default();
    let mut tiers = Tiers::open(&folder);
    let mut fill = tiers.store.begin_alone(b"a/1");
    assert!(fill.start(head_for("", FRESH), Some(3)));
    fill.push(b"old");
    // Between the purge of the disk tier and that of memory.
    drop(tiers.disk.purge(Purge::Prefix(b"a/"), PurgeMode::Remove));
    fill.finish().expect("in memory until the purge arrives there");
    tiers.flush();
    assert_eq!(tiers.body_on_disk(b"a/1"), None);
    assert_eq!(Tiers::open(&folder).body_on_disk(b"a/1"), None);
}

#[test]
fn what_a_look_up_loads_during_a_purge_stays_out_of_memory() {
    let folder = Simulated::default();
    let mut tiers = Tiers::open(&folder);
    tiers.put(b"a/1", FRESH, b"old").expect("stored");
    tiers.flush();
    tiers.forget();
    let asked = get("");
    for purge in [Purge::Prefix(b"a/"), Purge::Key(b"a/1")] {
        let Some(DiskCandidate::Record(record)) = tiers.store.disk_candidates(b"a/1").pop() else {
            panic!("no record")
        };
        let loaded = record.load().expect("good");
        tiers.store.purge(purge, PurgeMode::Remove);
        assert!(matches!(tiers.store.promote(loaded, &asked, NOW), Lookup::Miss), "{purge:?}");
        tiers.put(b"a/1", FRESH, b"new").expect("stored");
        tiers.flush();
        tiers.forget();
    }
}

#[test]
fn a_confirmed_response_replaces_its_old_head() {
    let folder = Simulated::default();
    for length in [10, 2_000_000] {
        let mut tiers = Tiers::open(&folder);
        let data = bytes(length, 1);
        tiers.put(b"k", "Cache-Control: max-age=60\r\nX-Version: 1\r\n", &data).expect("stored");
        tiers.flush();
        tiers.forget();
        let stale = tiers.find(b"k", "").expect("found");
        let fill = tiers.store.begin_alone(b"k");
        let head = head_for("", "Cache-Control: max-age=60\r\nX-Version: 2\r\n");
        fill.freshen(&stale, head).expect("stored");
        let version = |tiers: &Tiers| {
            let stored = tiers.find(b"k", "").expect("found");
            assert_eq!(body(&stored).as_ref(), Some(&data));
            stored.head().get(b"x-version").map(<[u8]>::to_vec)
        };
        assert_eq!(version(&tiers), Some(b"2".to_vec()));
        tiers.forget();
        assert_eq!(version(&tiers), Some(b"2".to_vec()), "while it waits");
        tiers.flush();
        assert_eq!(version(&Tiers::open(&folder)), Some(b"2".to_vec()));
    }
}

#[test]
fn the_size_is_kept_and_what_is_read_stays() {
    let folder = Simulated::default();
    let mut tiers = Tiers::open(&folder);
    for number in 0..200_u32 {
        tiers.put(&number.to_be_bytes(), FRESH, &bytes(300_000, number as usize)).expect("stored");
        tiers.flush();
        assert!(folder.bytes() as u64 <= DISK_BYTES, "{number}");
        assert_eq!(tiers.disk.status().bytes, folder.bytes() as u64);
        assert!(tiers.body_on_disk(&0_u32.to_be_bytes()).is_some(), "it was always read: {number}");
    }
    assert!(tiers.body_on_disk(&1_u32.to_be_bytes()).is_none());
    let after = Tiers::open(&folder);
    assert!(after.body_on_disk(&0_u32.to_be_bytes()).is_some());
    assert_eq!(after.disk.status().objects, tiers.disk.status().objects);
}

#[test]
fn too_much_that_waits_is_not_written() {
    let folder = Simulated::default();
    let mut tiers = Tiers::open(&folder);
    tiers.put(b"old", FRESH, b"version 1").expect("stored");
    tiers.flush();
    for number in 0..20_u8 {
        tiers.put(&[number], FRESH, &bytes(1 << 20, 1)).expect("stored");
    }
    tiers.put(b"old", FRESH, &bytes(1 << 20, 2)).expect("stored");
    let status = tiers.disk.status();
    assert!(status.waiting_bytes <= MEMORY_BYTES / 8, "{status:?}");
    let drops = tiers.disk.counters().drops.load(std::sync::atomic::Ordering::Relaxed);
    assert!(drops >= 12, "{drops}");
    assert_eq!(
        tiers.body_on_disk(b"old"),
        None,
        "neither the version that was not written, nor an older one"
    );
    tiers.flush();
    assert_eq!(tiers.disk.status().waiting_bytes, 0);
    assert_eq!(Tiers::open(&folder).body_on_disk(b"old"), None);
}

#[test]
fn too_many_purges_remove_the_log() {
    let folder = Simulated::default();
    let mut tiers = Tiers::open(&folder);
    tiers.put(b"a/1", FRESH, b"written").expect("stored");
    tiers.flush();
    tiers.put(b"b/1", FRESH, b"waiting").expect("stored");
    for _ in 0..=crate::disk::WAITING_PURGES_MAX {
        drop(tiers.disk.purge(Purge::Prefix(b"b/"), PurgeMode::Remove));
    }
    tiers.flush();
    assert_eq!((tiers.disk.status().waiting_bytes, tiers.disk.status().waiting_purges), (0, 0));
    let tiers = Tiers::open(&folder);
    assert_eq!((tiers.body_on_disk(b"a/1"), tiers.body_on_disk(b"b/1")), (None, None));
}

#[test]
fn a_torn_end_is_no_damage() {
    let folder = Simulated::default();
    let mut tiers = Tiers::open(&folder);
    tiers.put(b"a", FRESH, b"first").expect("stored");
    tiers.flush();
    let first = folder.bytes();
    tiers.put(b"b", FRESH, b"second").expect("stored");
    tiers.flush();
    for length in (first..folder.bytes()).rev() {
        folder.cut_newest(length);
        let tiers = Tiers::open(&folder);
        assert_eq!(tiers.body_on_disk(b"a"), Some(b"first".to_vec()), "{length}");
        assert_eq!(tiers.body_on_disk(b"b"), None);
    }
}

#[test]
fn another_process_keeps_its_folder() {
    let path = std::env::temp_dir().join(format!("tollgate-cache-lock-{}", std::process::id()));
    let (mut one, mut other) =
        (super::super::medium::Folder::new(&path), super::super::medium::Folder::new(&path));
    use super::super::medium::Medium;
    assert!(one.claim().expect("a folder"));
    assert!(!other.claim().expect("a folder"));
    let file = one.create(7).expect("a segment");
    assert_eq!(file.write_at(b"abc", 0).expect("written"), 3);
    assert_eq!((file.length().expect("a length"), one.segments().expect("a list")), (3, vec![7]));
    assert!(one.create(7).is_err(), "a number is used once");
    one.remove(7).expect("removed");
    drop(one);
    assert!(other.claim().expect("a folder"), "it is free");
    std::fs::remove_dir_all(&path).expect("removed");
}

#[test]
fn a_lookup_waits_for_its_turn() {
    use std::task::{Context, Poll, Waker};
    let folder = Simulated::default();
    let tiers = Tiers::open(&folder);
    let mut cx = Context::from_waker(Waker::noop());
    let Poll::Ready(Some(first)) = tiers.store.poll_disk_turn(b"k", &mut cx) else { panic!("no turn") };
    assert!(tiers.store.poll_disk_turn(b"k", &mut cx).is_pending());
    assert!(tiers.store.poll_disk_turn(b"other", &mut cx).is_ready());
    drop(first);
    assert!(tiers.store.poll_disk_turn(b"k", &mut cx).is_ready());
}

#[test]
fn a_slow_disk_is_left_alone() {
    let folder = Simulated::default();
    let mut tiers = Tiers::open(&folder);
    tiers.put(b"k", FRESH, b"body").expect("stored");
    tiers.flush();
    tiers.forget();
    tiers.store.note_slow_disk();
    assert!(!tiers.store.may_be_on_disk(b"k"));
    assert!(tiers.disk.status().problem.is_some());
}
