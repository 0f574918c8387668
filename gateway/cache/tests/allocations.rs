//! A hit allocates nothing, and an object takes little more than its bytes.

use std::alloc::System;
use std::sync::{Arc, Mutex, PoisonError};

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tollgate_cache::{
    Admission, Allowances, Lookup, Moment, Received, RequestControl, Reuse, Store, StoreSettings, StoredHead,
    admit, answer, reuse,
};
use tollgate_http::h1::{Progress, RequestParser, ResponseParser};
use tollgate_http::{Answer, ContentCoding, HeadLimits, Method, RequestHead, ResponseHead};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The allocator counts for all threads, so one test runs at a time.
static ALONE: Mutex<()> = Mutex::new(());

const LIMITS: HeadLimits = HeadLimits { line: 1024, head: 4096, fields: 32 };
const NOW: Moment = Moment::from_seconds(1_000_000_000);

fn request() -> RequestHead {
    let text =
        b"GET / HTTP/1.1\r\nHost: a.example\r\nAccept-Encoding: gzip, br\r\nX-A: 1\r\nUser-Agent: x\r\n\r\n";
    let mut request = RequestHead::default();
    let parsed = RequestParser::default().advance(text, &mut request, &LIMITS);
    assert_eq!(parsed, Ok(Progress::Complete(text.len())));
    request
}

fn head(fields: &str) -> StoredHead {
    let text = format!("HTTP/1.1 200 OK\r\nDate: Sun, 09 Sep 2001 01:46:40 GMT\r\n{fields}\r\n");
    let mut response = ResponseHead::default();
    let parsed = ResponseParser::default().advance(text.as_bytes(), Method::Get, &mut response, &LIMITS);
    assert_eq!(parsed, Ok(Progress::Complete(text.len())));
    let times = Received { requested: NOW, received: NOW };
    admit(&request(), &RequestControl::default(), &response, &Admission::default(), times).expect("storable")
}

fn put(store: &Arc<Store>, key: &[u8], head: StoredHead, body: &[u8]) {
    let mut fill = store.begin_alone(key);
    assert!(fill.start(head, Some(body.len() as u64)));
    fill.push(body);
    fill.finish().expect("stored");
}

fn serve(store: &Store, request: &RequestHead) -> usize {
    let control = RequestControl::read(&request.head);
    let Lookup::Hit(stored) = store.lookup(b"key", &request.head, NOW) else { panic!("no hit") };
    assert_eq!(reuse(&stored, &control, &Allowances::default(), NOW), Reuse::Fresh);
    assert_eq!(answer(&stored, request), Some(Answer::Whole));
    let mut sent = stored.head().lines().len();
    while (sent as u64) < stored.length() {
        sent += stored.piece(sent as u64).len();
    }
    sent
}

#[test]
fn a_hit_allocates_nothing() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (store, request) = (Store::new(StoreSettings::default()), request());
    put(
        &store,
        b"key",
        head("Cache-Control: max-age=60\r\nETag: \"a\"\r\nVary: Accept-Encoding, X-A\r\n"),
        &[7; 200_000],
    );
    // The first look-up of a thread registers it.
    serve(&store, &request);
    let region = Region::new(ALLOCATOR);
    for _ in 0..1000 {
        assert!(serve(&store, &request) > 0);
    }
    let change = region.change();
    assert!(
        change.allocations + change.reallocations < 20,
        "the runner's thread allocates a little: {change:?}"
    );
}

/// The second hit that is compressed costs what a plain one does: it runs no compressor, which would allocate.
#[test]
fn a_hit_of_a_compressed_form_allocates_nothing() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (store, request) = (Store::new(StoreSettings::default()), request());
    put(&store, b"key", head("Cache-Control: max-age=60\r\n"), &[7; 200_000]);
    let Lookup::Hit(stored) = store.lookup(b"key", &request.head, NOW) else { panic!("no hit") };
    let mut fill = store.begin_form(&stored, ContentCoding::Gzip).expect("no form yet");
    fill.push(&[8; 2_000]);
    fill.finish();
    let region = Region::new(ALLOCATOR);
    for _ in 0..1000 {
        let Lookup::Hit(stored) = store.look_again(b"key", &request.head, NOW) else { panic!("no hit") };
        store.count_hit(&stored);
        assert_eq!(stored.form(ContentCoding::Gzip).map(|form| form.len()), Some(2_000));
    }
    let change = region.change();
    assert!(
        change.allocations + change.reallocations < 20,
        "the runner's thread allocates a little: {change:?}"
    );
}

#[test]
fn an_object_takes_little_more_than_its_bytes() {
    const OBJECTS: u64 = 20_000;
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for body in [&[7; 64][..], &[7; 2_000]] {
        let template = head("Cache-Control: max-age=60\r\n");
        let own = (template.lines().len() + 32 + body.len()) as u64;
        // As full as it gets: the index and the queues have the size that fits the objects.
        let region = Region::new(ALLOCATOR);
        let store = Store::new(StoreSettings { capacity_bytes: 64 << 20, ..StoreSettings::default() });
        for number in 0..OBJECTS {
            put(&store, format!("{number:032}").as_bytes(), template.clone(), body);
        }
        let change = region.change();
        let counts = store.counts();
        assert_eq!((counts.objects, counts.evictions), (OBJECTS, 0));
        let taken = (change.bytes_allocated - change.bytes_deallocated) as u64;
        let overhead = taken / OBJECTS - own;
        // Small objects leave most of the index unused at this capacity: its share of a full store is less.
        let unused = (64 << 20) / 2048 * 8 / OBJECTS;
        assert!(
            overhead - unused <= 256 && taken <= counts.bytes + unused * OBJECTS,
            "{overhead} bytes, {unused} of them unused"
        );
    }
}
