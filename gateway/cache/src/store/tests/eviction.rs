//! Bounds and the choice of S3-FIFO.

use std::collections::HashMap;

use fastrand::Rng;
use proptest::prelude::*;

use super::*;

/// Checks that the counters match the objects in the index, and stay within the capacity.
fn check(store: &Store, capacity: u64) {
    let (mut bytes, mut objects) = (0, 0);
    store.index.for_each(|stored| {
        bytes += stored.cost();
        objects += 1;
        assert!(stored.is_stored());
    });
    let counts = store.counts();
    assert_eq!((counts.bytes, counts.objects), (bytes, objects));
    assert!(bytes <= capacity, "{bytes} of {capacity}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn the_capacity_is_kept(
        capacity in 2_000_u64..60_000,
        steps in proptest::collection::vec((0_u8..8, 0_u8..40, 0_usize..3_000), 0..120),
    ) {
        let store = store(capacity);
        for (step, number, length) in steps {
            let key = [number];
            match step {
                0..=2 => drop(put(&store, &key, head(), &vec![0; length])),
                3 => drop(hit(&store, &key, "")),
                4 => {
                    store.purge(crate::Purge::Key(&key), crate::PurgeMode::Remove);
                }
                5 | 6 => {
                    let coding = if step == 5 { tollgate_http::ContentCoding::Gzip } else { tollgate_http::ContentCoding::Zstd };
                    let fill = hit(&store, &key, "").and_then(|stored| store.begin_form(&stored, coding));
                    if let Some(mut fill) = fill {
                        fill.push(&vec![0; length]);
                        fill.finish();
                    }
                }
                _ => store.mark_uncacheable(&key, NOW, 5, None),
            }
            check(&store, capacity);
        }
        store.set_capacity(capacity / 2);
        check(&store, capacity / 2);
    }
}

#[test]
fn an_object_that_has_no_room_is_not_kept() {
    let store = store(1_000);
    assert!(!put(&store, b"a", head(), &[0; 900]).is_some_and(|stored| stored.is_stored()));
    check(&store, 1_000);
}

/// Numbers with a zipf distribution, by a table of sums.
struct Zipf {
    sums: Vec<f64>,
}

impl Zipf {
    fn new(count: usize, exponent: f64) -> Self {
        let mut sum = 0.0;
        let sums = (1..=count).map(|rank| {
            sum += (rank as f64).powf(-exponent);
            sum
        });
        Self { sums: sums.collect() }
    }

    fn next(&self, random: &mut Rng) -> u64 {
        let at = random.f64() * self.sums.last().copied().unwrap_or_default();
        self.sums.partition_point(|sum| *sum < at) as u64
    }
}

/// Replays numbers as keys of small objects. Returns which were hits.
fn replay(store: &Arc<Store>, keys: impl Iterator<Item = u64>) -> Vec<bool> {
    let (asked, template) = (get(""), head());
    keys.map(|key| {
        let key = key.to_be_bytes();
        let is_hit = matches!(store.lookup(&key, &asked, NOW), Lookup::Hit(_));
        if !is_hit {
            put(store, &key, template.clone(), &[0; 64]);
        }
        is_hit
    })
    .collect()
}

/// The same with a cache of `capacity` objects that evicts the least recently used one.
fn replay_lru(capacity: usize, keys: impl Iterator<Item = u64>) -> Vec<bool> {
    let (mut used, mut order) = (HashMap::new(), std::collections::BTreeMap::new());
    keys.enumerate()
        .map(|(time, key)| {
            let before = used.insert(key, time);
            if let Some(before) = before {
                order.remove(&before);
            }
            order.insert(time, key);
            if used.len() > capacity
                && let Some((_, oldest)) = order.pop_first()
            {
                used.remove(&oldest);
            }
            before.is_some()
        })
        .collect()
}

fn ratio(hits: &[bool]) -> f64 {
    hits.iter().filter(|hit| **hit).count() as f64 / hits.len() as f64
}

const OBJECTS: usize = 20_000;

/// A store for this many of the objects of [`replay`].
fn store_for(objects: u64) -> Arc<Store> {
    let cost =
        Stored::response(0, &[0; 8], head(), super::super::body::Body::new(vec![vec![0_u8; 64].into()]))
            .cost();
    store(objects * cost)
}

#[test]
fn a_zipf_trace_hits_more_than_with_lru() {
    let (zipf, mut random) = (Zipf::new(OBJECTS, 0.9), Rng::with_seed(7));
    let trace: Vec<u64> = (0..100_000).map(|_| zipf.next(&mut random)).collect();
    let ours = ratio(&replay(&store_for(200), trace.iter().copied())[20_000..]);
    let lru = ratio(&replay_lru(200, trace.iter().copied())[20_000..]);
    // The best choice that never changes keeps the 200 most frequent objects.
    let best = zipf.sums[199] / zipf.sums[OBJECTS - 1];
    assert!(ours > lru + 0.05 && ours > best - 0.06, "{ours:.3}, lru {lru:.3}, at best {best:.3}");
}

#[test]
fn a_scan_displaces_nothing() {
    let (zipf, mut random) = (Zipf::new(OBJECTS, 0.9), Rng::with_seed(8));
    let mut popular = |count: usize| (0..count).map(|_| zipf.next(&mut random)).collect::<Vec<_>>();
    let store = store_for(200);
    let (warm, after) = (popular(60_000), popular(2_000));
    let before = ratio(&replay(&store, warm.iter().copied())[40_000..]);
    // Each of them once, ten times as many as there is room for.
    let scan: Vec<u64> = (0..2_000).map(|number| 1_000_000 + number).collect();
    replay(&store, scan.iter().copied());
    let left = ratio(&replay(&store, after.iter().copied()));
    let all = warm.iter().chain(&scan).chain(&after).copied();
    let lru = ratio(&replay_lru(200, all)[62_000..]);
    assert!(left > before - 0.05, "{before:.3} before, {left:.3} after");
    assert!(left > lru + 0.05, "{left:.3}, lru {lru:.3}");
}
