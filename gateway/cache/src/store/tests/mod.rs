//! Tests of the store as a whole.

mod eviction;
mod fills;
mod forms;
mod purges;

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use tollgate_http::Head;

use super::fill::{Fill, Pushed};
use super::follower::{Chunk, Follower, Start};
use super::stored::Stored;
use super::{Begin, Lookup, Store, StoreSettings};
use crate::test_messages::{request, response};
use crate::{Admission, Moment, Received, RequestControl, StoredHead, admit};

const NOW: Moment = Moment::from_seconds(1_000_000_000);

/// A store for objects of 1 MiB at most.
fn store(capacity_bytes: u64) -> Arc<Store> {
    Store::new(StoreSettings { capacity_bytes, ..StoreSettings::default() })
}

/// The head of a response to a request with these fields.
fn head_for(asked: &str, fields: &str) -> StoredHead {
    let (asked, received) = (request("GET", "/", asked), response(200, fields));
    let times = Received { requested: NOW, received: NOW };
    admit(&asked, &RequestControl::default(), &received, &Admission::default(), times).expect("storable")
}

/// The head of a response that is fresh for a minute.
fn head() -> StoredHead {
    head_for("", "Cache-Control: max-age=60\r\n")
}

fn get(fields: &str) -> Head {
    request("GET", "/", fields).head
}

/// Stores a response under a key.
fn put(store: &Arc<Store>, key: &[u8], head: StoredHead, body: &[u8]) -> Option<Arc<Stored>> {
    let mut fill = store.begin_alone(key);
    assert!(fill.start(head, Some(body.len() as u64)));
    assert_eq!(fill.push(body), Pushed::Stored);
    fill.finish()
}

fn hit(store: &Store, key: &[u8], fields: &str) -> Option<Arc<Stored>> {
    match store.lookup(key, &get(fields), NOW) {
        Lookup::Hit(stored) => Some(stored),
        Lookup::Miss | Lookup::Uncacheable => None,
    }
}

fn lead(store: &Arc<Store>, key: &[u8]) -> Fill {
    match store.begin(key, &get(""), None) {
        Begin::Lead(fill) => fill,
        other => panic!("{other:?}"),
    }
}

fn follow(store: &Arc<Store>, key: &[u8]) -> Follower {
    match store.begin(key, &get(""), None) {
        Begin::Follow(follower) => follower,
        other => panic!("{other:?}"),
    }
}

/// Wakes a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Polls until ready, and sleeps in between.
fn wait<T>(mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut cx = Context::from_waker(&waker);
    loop {
        match poll(&mut cx) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// Polls once, with a waker that does nothing.
fn once<T>(mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
    poll(&mut Context::from_waker(Waker::noop()))
}

/// Reads a follower's response to its end. Also returns whether it is complete.
fn read_all(follower: &mut Follower) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    loop {
        match wait(|cx| follower.poll_chunk(cx)) {
            Chunk::Data(data) => body.extend_from_slice(&data),
            Chunk::End => return (body, true),
            Chunk::Cut => return (body, false),
        }
    }
}

fn start(follower: &mut Follower) -> Start {
    let asked = get("");
    wait(|cx| follower.poll_start(cx, &asked))
}

#[test]
fn a_stored_response_is_found() {
    let store = store(1 << 20);
    assert!(hit(&store, b"a", "").is_none());
    let stored = put(&store, b"a", head(), b"hello").expect("stored");
    let found = hit(&store, b"a", "").expect("found");
    assert!(Arc::ptr_eq(&stored, &found) && hit(&store, b"b", "").is_none());
    assert_eq!((found.key(), found.length(), found.chunks().concat()), (&b"a"[..], 5, b"hello".to_vec()));
    assert_eq!((found.piece(0), found.piece(3), found.piece(5)), (&b"hello"[..], &b"lo"[..], &b""[..]));
    let counts = store.counts();
    assert_eq!((counts.hits, counts.misses, counts.objects, counts.bytes), (1, 2, 1, stored.cost()));
}

#[test]
fn a_response_replaces_the_one_before() {
    let store = store(1 << 20);
    let old = put(&store, b"a", head(), b"old").expect("stored");
    put(&store, b"a", head(), b"newer");
    assert_eq!(hit(&store, b"a", "").expect("found").chunks().concat(), b"newer");
    assert!(!old.is_stored());
    assert_eq!(
        (store.counts().objects, old.chunks().concat()),
        (1, b"old".to_vec()),
        "who has it can still send it"
    );
}

#[test]
fn variants_are_kept_apart() {
    let store = Store::new(StoreSettings { variants_max: 2, ..StoreSettings::default() });
    let vary = "Cache-Control: max-age=60\r\nVary: X-A\r\n";
    for value in ["1", "2"] {
        put(&store, b"a", head_for(&format!("X-A: {value}\r\n"), vary), value.as_bytes());
    }
    let body = |fields: &str| hit(&store, b"a", fields).map(|stored| stored.chunks().concat());
    assert_eq!((body("X-A: 1\r\n"), body("X-A: 2\r\n")), (Some(b"1".to_vec()), Some(b"2".to_vec())));
    assert_eq!((body("X-A: 3\r\n"), body("")), (None, None));
    assert_eq!(store.variants(b"a").len(), 2);
    put(&store, b"a", head_for("X-A: 3\r\n", vary), b"3");
    assert_eq!((body("X-A: 1\r\n"), body("X-A: 3\r\n")), (None, Some(b"3".to_vec())), "the oldest gave way");
}

#[test]
fn a_response_without_vary_counts_after_fresh_ones_with_it() {
    let store = Store::new(StoreSettings::default());
    let variant = |value: &str, seconds: u32| {
        let fields = format!("Cache-Control: max-age={seconds}\r\nVary: X-A\r\n");
        put(&store, b"a", head_for(&format!("X-A: {value}\r\n"), &fields), value.as_bytes());
    };
    let body = |fields: &str| hit(&store, b"a", fields).map(|stored| stored.chunks().concat());
    variant("1", 60);
    put(&store, b"a", head(), b"all");
    variant("2", 60);
    let all = Some(b"all".to_vec());
    assert_eq!((body("X-A: 1\r\n"), body("X-A: 2\r\n")), (Some(b"1".to_vec()), Some(b"2".to_vec())));
    assert_eq!((body("X-A: 3\r\n"), body("")), (all.clone(), all.clone()));
    // A response that is older by its date does not replace a newer one that fits as well.
    let vary =
        |name: &str, date: &str| format!("Cache-Control: max-age=600\r\nVary: {name}\r\nDate: {date}\r\n");
    let (store, both) = (Store::new(StoreSettings::default()), "X-A: 1\r\nX-B: 1\r\n");
    put(&store, b"a", head_for(both, &vary("X-A", "Sun, 09 Sep 2001 01:46:40 GMT")), b"new");
    put(&store, b"a", head_for(both, &vary("X-B", "Sun, 09 Sep 2001 01:46:30 GMT")), b"old");
    let body = |fields: &str| hit(&store, b"a", fields).map(|stored| stored.chunks().concat());
    assert_eq!((body(both), body("X-B: 1\r\n")), (Some(b"new".to_vec()), Some(b"old".to_vec())));
    // A stale response takes no precedence, so an endpoint that no longer varies is asked once.
    let (store, later) = (Store::new(StoreSettings::default()), "Date: Sun, 09 Sep 2001 01:47:40 GMT\r\n");
    put(&store, b"a", head_for("X-A: 1\r\n", "Cache-Control: max-age=60\r\nVary: X-A\r\n"), b"1");
    put(&store, b"a", head_for("", &format!("{later}Cache-Control: max-age=60\r\n")), b"all");
    assert_eq!(hit(&store, b"a", "X-A: 1\r\n").map(|stored| stored.chunks().concat()), all);
    assert_eq!(store.counts().objects, 2);
}

#[test]
fn a_key_that_is_not_stored_is_remembered() {
    let store = store(1 << 20);
    store.mark_uncacheable(b"a", NOW, 10, None);
    let at = |seconds| store.lookup(b"a", &get(""), Moment::from_seconds(NOW.seconds() + seconds));
    assert!(matches!((at(0), at(9), at(10)), (Lookup::Uncacheable, Lookup::Uncacheable, Lookup::Miss)));
    assert!(store.variants(b"a").is_empty());
    let stored = put(&store, b"a", head(), b"x").expect("stored");
    assert!(matches!(at(0), Lookup::Hit(_)), "a response replaces the mark");
    assert_eq!(store.counts().objects, 1);
    let later = Moment::from_seconds(NOW.seconds() + 60);
    store.mark_uncacheable(b"a", later, 10, None);
    assert!(matches!(at(60), Lookup::Hit(_)), "a mark replaces nothing that may be validated");
    store.mark_uncacheable(b"a", later, 10, Some(&stored));
    assert!(matches!(at(60), Lookup::Uncacheable) && !stored.is_stored(), "but what is out of date");
    // Of several variants, the one that is out of date goes alone.
    let vary = "Cache-Control: max-age=60\r\nVary: X-A\r\n";
    let [one, two] = ["1", "2"].map(|value| {
        put(&store, b"b", head_for(&format!("X-A: {value}\r\n"), vary), value.as_bytes()).expect("stored")
    });
    store.mark_uncacheable(b"b", later, 10, Some(&one));
    assert_eq!((one.is_stored(), two.is_stored(), store.variants(b"b").len()), (false, true, 1));
    assert!(hit(&store, b"b", "X-A: 1\r\n").is_none() && hit(&store, b"b", "X-A: 2\r\n").is_some());
}

#[test]
fn keys_with_one_hash_are_told_apart() {
    let store = store(1 << 20);
    let objects: Vec<Arc<Stored>> = [&b"a"[..], b"b", b"c"]
        .map(|key| Arc::new(Stored::response(7, key, head(), super::body::Body::default())))
        .into();
    for object in &objects {
        store.insert(object.clone());
    }
    for object in &objects {
        let found = store.index.find(7, object.key(), &get("")).expect("found");
        assert!(Arc::ptr_eq(&found, object));
    }
    store.index.remove(&mut store.index.lock(7), &objects[1]);
    let is_there = |key: &[u8]| store.index.find(7, key, &get("")).is_some();
    assert_eq!((is_there(b"a"), is_there(b"b"), is_there(b"c")), (true, false, true));
}
