//! Measures the cost of the store and the rules, with an instruction counter.
//!
//! `cache_cost hit 1000` looks a response up a thousand times, decides about it, and visits its body. The cost of one is
//! the difference between two counts, divided by the difference of the rounds.
//!
//! ```text
//! valgrind --tool=callgrind target/release/examples/cache_cost hit 1000
//! ```
//!
//! `hit`: a fresh response. `vary`: a response that varies with two fields. `miss`: a look-up without a result, the
//! admission of a response, and its fetch with a body of 4 KiB, under one of 1,000 keys. `evict`: the same in a store
//! that is full.

use std::hint::black_box;
use std::sync::Arc;

use tollgate_cache::{
    Admission, Allowances, Begin, Lookup, Moment, Received, RequestControl, Reuse, Store, StoreSettings,
    admit, answer, reuse,
};
use tollgate_http::h1::{Progress, RequestParser, ResponseParser};
use tollgate_http::{Answer, HeadLimits, Method, RequestHead, ResponseHead};

const LIMITS: HeadLimits = HeadLimits { line: 8 * 1024, head: 32 * 1024, fields: 100 };
const NOW: Moment = Moment::from_seconds(1_000_000_000);

const REQUEST: &[u8] =
    b"GET /a/b?c=d HTTP/1.1\r\nHost: shop.example.com\r\nUser-Agent: wrk\r\nAccept: */*\r\n\
    Accept-Encoding: gzip, br\r\nAccept-Language: en\r\n\r\n";
const PLAIN: &[u8] = b"HTTP/1.1 200 OK\r\nServer: nginx/1.22.1\r\nDate: Sun, 09 Sep 2001 01:46:40 GMT\r\n\
    Content-Type: text/plain\r\nContent-Length: 4096\r\nCache-Control: max-age=60\r\nETag: \"6920d4a4-2\"\r\n\r\n";
const VARIES: &[u8] = b"HTTP/1.1 200 OK\r\nDate: Sun, 09 Sep 2001 01:46:40 GMT\r\nContent-Length: 4096\r\n\
    Cache-Control: max-age=60\r\nVary: Accept-Encoding, Accept-Language\r\n\r\n";

fn fetch(store: &Arc<Store>, key: &[u8], request: &RequestHead, response: &ResponseHead, body: &[u8]) {
    let Begin::Lead(mut fill) = store.begin(key, &request.head, None) else {
        panic!("there is no other request")
    };
    let (control, times) = (RequestControl::read(&request.head), Received { requested: NOW, received: NOW });
    let head = admit(request, &control, response, &Admission::default(), times).expect("storable");
    assert!(fill.start(head, Some(body.len() as u64)));
    fill.push(body);
    fill.finish().expect("stored");
}

fn serve(store: &Store, key: &[u8], request: &RequestHead) -> u64 {
    let control = RequestControl::read(&request.head);
    let Lookup::Hit(stored) = store.lookup(black_box(key), &request.head, NOW) else {
        panic!("it is stored")
    };
    assert_eq!(reuse(&stored, &control, &Allowances::default(), NOW), Reuse::Fresh);
    assert_eq!(answer(&stored, request), Some(Answer::Whole));
    stored.head().age(NOW) + stored.piece(0).len() as u64
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let what = arguments.next().unwrap_or_default();
    let rounds: u32 = arguments.next().and_then(|rounds| rounds.parse().ok()).unwrap_or(1000);
    let (mut request, mut response) = (RequestHead::default(), ResponseHead::default());
    let parsed = RequestParser::default().advance(REQUEST, &mut request, &LIMITS);
    assert_eq!(parsed, Ok(Progress::Complete(REQUEST.len())));
    let text = if what == "vary" { VARIES } else { PLAIN };
    let parsed = ResponseParser::default().advance(text, Method::Get, &mut response, &LIMITS);
    assert_eq!(parsed, Ok(Progress::Complete(text.len())));

    let capacity_bytes = if what == "evict" { 1 << 20 } else { 64 << 20 };
    let store = Store::new(StoreSettings { capacity_bytes, ..StoreSettings::default() });
    let body = [7; 4096];
    let key = |round: u32| format!("GET https shop.example.com /a/b?c=d {:08}", round % 1000);
    match what.as_str() {
        "hit" | "vary" => {
            fetch(&store, key(0).as_bytes(), &request, &response, &body);
            let key = key(0);
            for _ in 0..rounds {
                black_box(serve(&store, key.as_bytes(), &request));
            }
        }
        "miss" | "evict" => {
            for round in 0..rounds {
                // A store that is large enough has all of them after the first thousand.
                assert!(what == "evict" || round < 1000, "at most 1000 rounds");
                let key = key(round);
                if matches!(store.lookup(key.as_bytes(), &request.head, NOW), Lookup::Miss) {
                    fetch(&store, key.as_bytes(), &request, &response, &body);
                }
            }
        }
        _ => panic!("hit, vary, miss or evict"),
    }
}
