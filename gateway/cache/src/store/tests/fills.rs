//! Leaders and followers.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::*;

#[test]
fn a_follower_reads_as_bytes_arrive() {
    let store = store(1 << 20);
    let (mut fill, mut follower) = (lead(&store, b"a"), follow(&store, b"a"));
    assert!(once(|cx| follower.poll_start(cx, &get(""))).is_pending());
    assert!(fill.start(head(), Some(8)));
    assert!(matches!(start(&mut follower), Start::Streaming(head, Some(8)) if head.status() == 200));
    assert!(once(|cx| follower.poll_chunk(cx)).is_pending());
    fill.push(b"hel");
    assert_eq!(once(|cx| follower.poll_chunk(cx)), Poll::Ready(Chunk::Data("hel".into())));
    assert!(once(|cx| follower.poll_chunk(cx)).is_pending());
    fill.push(b"lo");
    fill.push(b"...");
    let stored = fill.finish().expect("stored");
    assert_eq!(read_all(&mut follower), (b"lo...".to_vec(), true));
    assert_eq!((stored.chunks().len(), stored.chunks().concat()), (1, b"hello...".to_vec()));
    assert!(matches!(store.begin(b"a", &get(""), None), Begin::Found(found) if Arc::ptr_eq(&found, &stored)));
    assert_eq!(store.counts().followed, 1);
}

#[test]
fn a_late_follower_reads_from_the_beginning() {
    let store = store(1 << 20);
    let mut fill = lead(&store, b"a");
    assert!(fill.start(head(), None));
    let body: Vec<u8> = (0..200_000_u32).map(|at| at as u8).collect();
    fill.push(&body[..150_000]);
    let mut late = follow(&store, b"a");
    fill.push(&body[150_000..]);
    assert!(matches!(start(&mut late), Start::Streaming(_, None)));
    let stored = fill.finish().expect("stored");
    assert_eq!(read_all(&mut late), (body.clone(), true));
    assert_eq!(stored.chunks().concat(), body);
}

#[test]
fn when_the_leader_goes_a_follower_leads() {
    let store = store(1 << 20);
    let fill = lead(&store, b"a");
    let mut followers = [follow(&store, b"a"), follow(&store, b"a"), follow(&store, b"a")];
    for follower in &mut followers {
        assert!(once(|cx| follower.poll_start(cx, &get(""))).is_pending());
    }
    drop(fill);
    let [gone, mut heir, mut other] = followers;
    // The woken follower leaves before it runs.
    drop(gone);
    let Start::Lead(mut fill) = start(&mut heir) else { panic!("no leader") };
    assert!(once(|cx| other.poll_start(cx, &get(""))).is_pending(), "one alone");
    assert!(matches!(store.begin(b"a", &get(""), None), Begin::Follow(_)));
    assert!(fill.start(head(), None));
    fill.push(b"x");
    fill.finish();
    assert!(matches!(start(&mut other), Start::Stored(_)));
}

#[test]
fn without_followers_a_lost_lead_is_over() {
    let store = store(1 << 20);
    drop(lead(&store, b"a"));
    let fill = lead(&store, b"a");
    let follower = follow(&store, b"a");
    drop(fill);
    drop(follower);
    drop(lead(&store, b"a"));
    assert!(store.index.lock(store.hash(b"a")).fills.is_empty());
}

#[test]
fn a_leader_that_is_lost_in_the_body_cuts() {
    let store = store(1 << 20);
    let (mut fill, mut follower, mut late) = (lead(&store, b"a"), follow(&store, b"a"), follow(&store, b"a"));
    assert!(fill.start(head(), None));
    fill.push(b"abc");
    assert!(matches!(start(&mut follower), Start::Streaming(..)));
    drop(fill);
    assert_eq!(read_all(&mut follower), (b"abc".to_vec(), false));
    assert!(matches!(start(&mut late), Start::Fetch), "nothing was sent to it, so it can fetch");
    assert!(hit(&store, b"a", "").is_none());
}

#[test]
fn a_body_of_another_length_is_not_stored() {
    let store = store(1 << 20);
    let (mut fill, mut follower) = (lead(&store, b"a"), follow(&store, b"a"));
    assert!(fill.start(head(), Some(5)));
    assert!(matches!(start(&mut follower), Start::Streaming(..)));
    fill.push(b"abc");
    assert!(fill.finish().is_none());
    assert_eq!(read_all(&mut follower), (b"abc".to_vec(), false));
    assert!(hit(&store, b"a", "").is_none());
}

#[test]
fn refusal_and_failure_reach_the_followers() {
    let store = store(1 << 20);
    let (fill, mut follower) = (lead(&store, b"a"), follow(&store, b"a"));
    fill.refuse();
    assert!(matches!(start(&mut follower), Start::Fetch));
    let (fill, mut follower) = (lead(&store, b"a"), follow(&store, b"a"));
    fill.fail();
    assert!(matches!(start(&mut follower), Start::Failed));
}

#[test]
fn after_a_failure_a_follower_leads_until_several_have_failed() {
    let store = store(1 << 20);
    let mut fill = lead(&store, b"a");
    let mut followers: Vec<Follower> = (0..5).map(|_| follow(&store, b"a")).collect();
    for _ in 1..3 {
        fill.fail_over();
        let mut next = followers.pop().expect("a follower");
        let Start::Lead(leads) = start(&mut next) else { panic!("no lead") };
        let asked = get("");
        assert!(followers.iter_mut().all(|it| once(|cx| it.poll_start(cx, &asked)).is_pending()));
        // A request that arrives now waits too.
        followers.insert(0, follow(&store, b"a"));
        fill = leads;
    }
    fill.fail_over();
    assert!(followers.iter_mut().all(|it| matches!(start(it), Start::Failed)));
    assert!(matches!(store.begin(b"a", &get(""), None), Begin::Lead(_)), "a later request tries again");
    // Without followers the fetch ends.
    lead(&store, b"b").fail_over();
    assert!(matches!(store.begin(b"b", &get(""), None), Begin::Lead(_)));
    // The response of the second leader is for all.
    let (fill, mut one, mut two) = (lead(&store, b"c"), follow(&store, b"c"), follow(&store, b"c"));
    fill.fail_over();
    let Start::Lead(mut fill) = start(&mut one) else { panic!("no lead") };
    assert!(fill.start(head(), Some(2)));
    assert_eq!(fill.push(b"ok"), Pushed::Stored);
    fill.finish();
    assert!(matches!(start(&mut two), Start::Stored(_)));
}

#[test]
fn a_response_for_others_sends_a_follower_away() {
    let store = store(1 << 20);
    let vary = "Cache-Control: max-age=60\r\nVary: X-A\r\n";
    let (mut fill, mut same) = (lead(&store, b"a"), follow(&store, b"a"));
    let Begin::Follow(mut other) = store.begin(b"a", &get("X-A: 2\r\n"), None) else { panic!("it varies") };
    assert!(fill.start(head_for("", vary), None));
    assert!(matches!(start(&mut same), Start::Streaming(..)));
    assert!(matches!(wait(|cx| other.poll_start(cx, &get("X-A: 2\r\n"))), Start::OtherVariant));
    // Those that were sent away meet again, while the first response is still arriving.
    let begin = |fields: &str| store.begin(b"a", &get(fields), None);
    let (two, again, same) = (begin("X-A: 2\r\n"), begin("X-A: 2\r\n"), begin(""));
    assert!(matches!((&two, again, same), (Begin::Lead(_), Begin::Follow(_), Begin::Follow(_))));
    drop(two);
    fill.finish();
    // From now on it is known that they differ.
    let first = store.begin(b"a", &get("X-A: 2\r\n"), None);
    let second = store.begin(b"a", &get("X-A: 3\r\n"), None);
    let third = store.begin(b"a", &get("X-A: 2\r\n"), None);
    assert!(matches!((first, second, third), (Begin::Lead(_), Begin::Lead(_), Begin::Follow(_))));
}

#[test]
fn a_response_that_each_must_validate_is_not_shared() {
    let store = store(1 << 20);
    let (mut fill, mut follower) = (lead(&store, b"a"), follow(&store, b"a"));
    assert!(fill.start(head_for("", "Cache-Control: no-cache\r\nETag: \"a\"\r\n"), None));
    assert!(matches!(start(&mut follower), Start::Fetch));
    let stored = fill.finish().expect("stored");
    assert!(
        matches!(store.begin(b"a", &get(""), Some(&stored)), Begin::Alone(_)),
        "no one waits for a validation"
    );
}

#[test]
fn a_validation_serves_all_who_wait() {
    let store = store(1 << 20);
    let stale = put(&store, b"a", head(), b"body").expect("stored");
    let Begin::Lead(fill) = store.begin(b"a", &get(""), Some(&stale)) else { panic!("no leader") };
    let Begin::Follow(mut follower) = store.begin(b"a", &get(""), Some(&stale)) else {
        panic!("no follower")
    };
    let fresh = fill.freshen(&stale, head_for("", "Cache-Control: max-age=99\r\n")).expect("stored");
    let Start::Stored(found) = start(&mut follower) else { panic!("not stored") };
    assert!(Arc::ptr_eq(&found, &fresh) && !stale.is_stored());
    assert_eq!(
        (found.chunks().concat(), found.head().freshness().lifetime_seconds()),
        (b"body".to_vec(), 99)
    );
    assert_eq!(found.chunks()[0].as_ptr(), stale.chunks()[0].as_ptr(), "the body is not copied");
    assert!(matches!(store.begin(b"a", &get(""), Some(&stale)), Begin::Found(_)));
}

#[test]
fn a_validation_that_forbids_storing_answers_one_request() {
    let store = store(1 << 20);
    let stale = put(&store, b"a", head(), b"body").expect("stored");
    let Begin::Lead(fill) = store.begin(b"a", &get(""), Some(&stale)) else { panic!("no leader") };
    let Begin::Follow(mut follower) = store.begin(b"a", &get(""), Some(&stale)) else {
        panic!("no follower")
    };
    let once = fill.use_once(&stale, head_for("", "Cache-Control: max-age=99\r\n"));
    assert_eq!((once.chunks().concat(), once.head().freshness().lifetime_seconds()), (b"body".to_vec(), 99));
    assert!(!once.is_stored() && matches!(start(&mut follower), Start::Fetch));
    assert!(hit(&store, b"a", "").is_some_and(|found| Arc::ptr_eq(&found, &stale)), "the old one stays");
}

#[test]
fn a_manifest_holds_the_length_of_the_whole() {
    let store = store(1 << 20);
    let (fill, mut waits) = (lead(&store, b"a"), follow(&store, b"a"));
    let stored = fill.finish_manifest(head(), 12_345_678_901).expect("stored");
    assert_eq!(stored.manifest_length(), Some(12_345_678_901));
    assert!(matches!(start(&mut waits), Start::Stored(found) if Arc::ptr_eq(&found, &stored)));
    for body in [&b""[..], b"-1", b"body", b"999999999999999999999"] {
        let other = put(&store, b"b", head(), body).expect("stored");
        assert_eq!(other.manifest_length(), None, "{body:?}");
    }
}

#[test]
fn the_request_of_a_leader_can_follow_its_own_fetch() {
    let store = store(1 << 20);
    // Also if no other request may follow it.
    for mut fill in [lead(&store, b"a"), store.begin_alone(b"a")] {
        let mut own = fill.follower().expect("a follower");
        assert!(fill.start(head(), Some(4)));
        assert!(matches!(start(&mut own), Start::Streaming(_, Some(4))));
        assert_eq!(fill.push(b"body"), Pushed::Stored);
        fill.finish().expect("stored");
        assert_eq!(read_all(&mut own), (b"body".to_vec(), true));
    }
    assert_eq!(store.counts().followed, 0, "it waits for no other request");
}

#[test]
fn one_refresh_runs_at_a_time() {
    let store = store(1 << 20);
    let stale = put(&store, b"a", head(), b"body").expect("stored");
    let fill = store.begin_refresh(&stale, &get("")).expect("the first");
    assert!(store.begin_refresh(&stale, &get("")).is_none());
    drop(fill);
    let fill = store.begin_refresh(&stale, &get("")).expect("the next one");
    fill.freshen(&stale, head());
    assert!(store.begin_refresh(&stale, &get("")).is_none(), "it was replaced");
}

#[test]
fn followers_are_bounded() {
    let store = Store::new(StoreSettings { followers_max: 2, ..StoreSettings::default() });
    let _fill = lead(&store, b"a");
    let first = follow(&store, b"a");
    let _second = follow(&store, b"a");
    assert!(matches!(store.begin(b"a", &get(""), None), Begin::Alone(_)));
    drop(first);
    let _third = follow(&store, b"a");
}

#[test]
fn a_body_that_is_announced_too_long_is_refused_at_once() {
    let store = Store::new(StoreSettings { object_bytes_max: 10, ..StoreSettings::default() });
    let (mut fill, mut follower) = (lead(&store, b"a"), follow(&store, b"a"));
    assert!(!fill.start(head(), Some(11)));
    assert!(matches!(start(&mut follower), Start::Fetch));
    drop(fill);
    assert_eq!((store.counts().refused, store.counts().objects), (1, 0));
    assert!(put(&store, b"a", head(), &[0; 10]).is_some());
}

#[test]
fn a_body_that_turns_out_too_long_still_reaches_its_followers() {
    let store = Store::new(StoreSettings { object_bytes_max: 100_000, ..StoreSettings::default() });
    let (mut fill, mut follower) = (lead(&store, b"a"), follow(&store, b"a"));
    let body: Vec<u8> = (0..3_000_000_u32).map(|at| (at / 251) as u8).collect();
    assert!(fill.start(head(), None));
    let expected = body.clone();
    let reader = thread::spawn(move || {
        assert!(matches!(start(&mut follower), Start::Streaming(..)));
        read_all(&mut follower)
    });
    let mut held_max = 0;
    for piece in body.chunks(10_000) {
        wait(|cx| fill.poll_room(cx));
        match fill.push(piece) {
            Pushed::Stored => {}
            Pushed::Followed => held_max = held_max.max(fill.held_bytes()),
            Pushed::Unused => panic!("it is followed"),
        }
    }
    assert!(matches!(store.begin(b"a", &get(""), None), Begin::Alone(_)), "too late for the beginning");
    assert!(fill.finish().is_none());
    assert!(reader.join().expect("no panic") == (expected, true));
    assert!(held_max <= 300_000, "{held_max}");
    assert_eq!((store.counts().refused, store.counts().objects), (1, 0));
}

#[test]
fn a_body_that_turns_out_too_long_for_no_one_is_dropped() {
    let store = Store::new(StoreSettings { object_bytes_max: 10, ..StoreSettings::default() });
    let mut fill = store.begin_alone(b"a");
    assert!(fill.start(head(), None));
    assert_eq!((fill.push(b"0123456789"), fill.push(b"0")), (Pushed::Stored, Pushed::Unused));
    assert_eq!(fill.held_bytes(), 0);
    assert!(fill.finish().is_none());
}

#[test]
fn a_thousand_followers_share_one_fetch() {
    let store = store(1 << 20);
    let stale = put(&store, b"a", head(), b"stale").expect("stored");
    let Begin::Lead(mut fill) = store.begin(b"a", &get(""), Some(&stale)) else { panic!("no leader") };
    let join = |_| match store.begin(b"a", &get(""), Some(&stale)) {
        Begin::Follow(follower) => follower,
        other => panic!("{other:?}"),
    };
    let mut followers: Vec<Follower> = (0..999).map(join).collect();
    assert!(fill.start(head(), None));
    let body: Vec<u8> = (0..60_000_u32).map(|at| (at / 250) as u8).collect();
    let mut received = vec![Vec::new(); followers.len()];
    for piece in body.chunks(16_384) {
        fill.push(piece);
        // Every third one is quick; the others read nothing before the end.
        for (follower, received) in followers.iter_mut().zip(&mut received).step_by(3) {
            if received.is_empty() {
                assert!(matches!(start(follower), Start::Streaming(..)));
            }
            let Poll::Ready(Chunk::Data(data)) = once(|cx| follower.poll_chunk(cx)) else {
                panic!("it waits")
            };
            received.extend_from_slice(&data);
        }
    }
    assert!(fill.finish().is_some());
    for (at, (mut follower, mut received)) in followers.into_iter().zip(received).enumerate() {
        if at % 3 == 0 {
            received.extend_from_slice(&read_all(&mut follower).0);
        } else {
            let Start::Stored(stored) = start(&mut follower) else { panic!("it is stored") };
            received = stored.chunks().concat();
        }
        assert!(received == body, "follower {at}");
    }
    assert_eq!((store.counts().followed, store.counts().objects), (999, 1));
}

#[test]
fn bodies_that_are_being_fetched_are_bounded_together() {
    let bounds =
        StoreSettings { capacity_bytes: 100_000, object_bytes_max: 20_000, ..StoreSettings::default() };
    let store = Store::new(bounds);
    let fetch = |key: &[u8]| {
        let mut fill = store.begin_alone(key);
        assert!(fill.start(head(), None));
        fill
    };
    let (mut first, mut second, mut third) = (fetch(b"a"), fetch(b"b"), fetch(b"c"));
    assert_eq!((first.push(&[0; 15_000]), second.push(&[0; 10_000])), (Pushed::Stored, Pushed::Stored));
    assert_eq!(third.push(&[0; 1]), Pushed::Unused, "a quarter of the capacity is in use");
    assert_eq!((store.counts().filling_bytes, store.counts().refused), (25_000, 1));
    drop(third);
    assert!(first.finish().is_some());
    drop(second);
    assert_eq!((store.counts().filling_bytes, store.counts().objects), (0, 1));
    assert_eq!(fetch(b"c").push(&[0; 1]), Pushed::Stored);
}

/// Clients on 8 threads ask for one of 20 keys at a time, while some leaders leave. Each client gets the whole body
/// of its key in the end, and no key is fetched by two at once.
#[test]
fn many_threads_share_fetches() {
    const KEYS: usize = 80;
    const ROUNDS: usize = 40;
    let store = store(8 << 20);
    let running: Vec<AtomicUsize> = (0..KEYS).map(|_| AtomicUsize::new(0)).collect();
    let fetches = AtomicUsize::new(0);
    let body = |key: usize| vec![key as u8; 1_000 + key * 1_000];
    let fetch = |mut fill: Fill, key: usize, random: &mut fastrand::Rng| {
        assert_eq!(running[key].fetch_add(1, Ordering::SeqCst), 0, "two fetches of one key");
        fetches.fetch_add(1, Ordering::SeqCst);
        // Some leaders leave before there is a head.
        if random.u8(..8) == 0 {
            running[key].fetch_sub(1, Ordering::SeqCst);
            drop(fill);
            return None;
        }
        let body = body(key);
        assert!(fill.start(head(), Some(body.len() as u64)));
        for piece in body.chunks(700) {
            fill.push(piece);
            thread::yield_now();
        }
        // The next fetch can begin once this one is over.
        running[key].fetch_sub(1, Ordering::SeqCst);
        let stored = fill.finish().expect("stored");
        Some(stored.chunks().concat())
    };
    let client = |seed: u64| {
        let mut random = fastrand::Rng::with_seed(seed);
        let asked = get("");
        for round in 0..ROUNDS {
            // All of them ask for the same 20 keys for a while.
            let key = (round / 10) * 20 + random.usize(..20);
            let name = [key as u8];
            let received = loop {
                let mut follower = match store.begin(&name, &asked, None) {
                    Begin::Lead(fill) => match fetch(fill, key, &mut random) {
                        Some(body) => break body,
                        None => continue,
                    },
                    Begin::Found(stored) => break stored.chunks().concat(),
                    Begin::Follow(follower) => follower,
                    Begin::Alone(_) => panic!("there is room for followers"),
                };
                match wait(|cx| follower.poll_start(cx, &asked)) {
                    Start::Stored(stored) => break stored.chunks().concat(),
                    Start::Streaming(..) => match read_all(&mut follower) {
                        (body, true) => break body,
                        (_, false) => panic!("no leader leaves in the middle"),
                    },
                    Start::Lead(fill) => {
                        if let Some(body) = fetch(fill, key, &mut random) {
                            break body;
                        }
                    }
                    Start::Fetch | Start::OtherVariant | Start::Failed => panic!("no leader refuses"),
                }
            };
            assert!(received == body(key), "the body of {key}");
        }
    };
    let client = &client;
    thread::scope(|scope| {
        for seed in 0..8 {
            scope.spawn(move || client(seed));
        }
    });
    assert!(fetches.load(Ordering::SeqCst) >= KEYS);
    assert!((0..=255).all(|stripe| store.index.lock(stripe).fills.is_empty()));
}

#[test]
fn what_must_be_validated_is_found_by_no_other_request() {
    let store = store(1 << 20);
    put(&store, b"a", head_for("", "Cache-Control: no-cache\r\nETag: \"a\"\r\n"), b"x");
    assert!(matches!(store.begin(b"a", &get(""), None), Begin::Lead(_)));
    put(&store, b"b", head(), b"x");
    assert!(matches!(store.begin(b"b", &get(""), None), Begin::Found(_)));
}

/// Reads that last hold the memory of what was evicted.
#[test]
fn evicted_objects_that_are_still_read_count_against_the_bound_of_fetches() {
    const LONG: usize = 300_000;
    let store = Store::new(StoreSettings {
        capacity_bytes: 1 << 20,
        object_bytes_max: LONG as u64,
        ..StoreSettings::default()
    });
    let mut held: Vec<_> = (0..9_u8).filter_map(|key| put_long(&store, &[key], LONG)).collect();
    assert!((3..9).contains(&held.len()), "{} of them", held.len());
    assert!(put_long(&store, b"no", LONG).is_none());
    assert!(put(&store, b"short", head(), b"short").is_some(), "short ones are still stored");
    held.clear();
    assert!(put_long(&store, b"yes", LONG).is_some());
}

/// Stores a response in pieces.
fn put_long(store: &Arc<Store>, key: &[u8], length: usize) -> Option<Arc<Stored>> {
    let mut fill = store.begin_alone(key);
    assert!(fill.start(head(), Some(length as u64)));
    for piece in vec![0; length].chunks(50_000) {
        if fill.push(piece) == Pushed::Unused {
            return None;
        }
    }
    fill.finish()
}

#[test]
fn what_slow_clients_have_yet_to_take_counts_as_being_fetched() {
    let store = store(1 << 20);
    let mut unsent = store.begin_alone(b"a").unsent();
    unsent.set(700);
    unsent.set(500);
    assert_eq!(store.counts().filling_bytes, 500);
    drop(unsent);
    assert_eq!(store.counts().filling_bytes, 0);
}
