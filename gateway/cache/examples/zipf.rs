//! Replays a zipf trace, and prints the hit ratios of the store, of LRU, and of the best fixed choice of objects:
//! `cargo run --release -p tollgate-cache --example zipf -- [OBJECTS] [SHARE] [EXPONENT] [REQUESTS]`.
//!
//! By default a million objects, a cache for 1 % of them, exponent 0.9, ten million requests, of which the first half
//! only warms the cache.

use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::sync::Arc;

use tollgate_cache::{
    Admission, Lookup, Moment, Received, RequestControl, Store, StoreSettings, StoredHead, admit,
};
use tollgate_http::h1::{RequestParser, ResponseParser};
use tollgate_http::{Head, HeadLimits, Method, RequestHead, ResponseHead};

const NOW: Moment = Moment::from_seconds(1_000_000_000);
const LIMITS: HeadLimits = HeadLimits { line: 1024, head: 4096, fields: 32 };

fn messages() -> Option<(Head, StoredHead)> {
    let (mut request, mut response) = (RequestHead::default(), ResponseHead::default());
    RequestParser::default().advance(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", &mut request, &LIMITS).ok()?;
    let text = b"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\n\r\n";
    ResponseParser::default().advance(text, Method::Get, &mut response, &LIMITS).ok()?;
    let times = Received { requested: NOW, received: NOW };
    let head = admit(&request, &RequestControl::default(), &response, &Admission::default(), times).ok()?;
    Some((request.head, head))
}

fn put(store: &Arc<Store>, key: &[u8], head: StoredHead) -> Option<u64> {
    let mut fill = store.begin_alone(key);
    if !fill.start(head, Some(64)) {
        return None;
    }
    fill.push(&[0; 64]);
    Some(fill.finish()?.cost())
}

fn main() -> std::io::Result<()> {
    let argument = |at: usize, default: f64| {
        std::env::args().nth(at).and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let objects = argument(1, 1e6) as usize;
    let kept = (objects as f64 * argument(2, 0.01)) as usize;
    let (exponent, requests) = (argument(3, 0.9), argument(4, 1e7) as usize);
    let mut sum = 0.0;
    let sums: Vec<f64> = (1..=objects)
        .map(|rank| {
            sum += (rank as f64).powf(-exponent);
            sum
        })
        .collect();
    let mut random = fastrand::Rng::with_seed(1);
    let mut next = || {
        let at = random.f64() * sum;
        sums.partition_point(|below| *below < at)
    };

    let Some((asked, head)) = messages() else {
        return Err(std::io::Error::other("the messages are malformed"));
    };
    let cost = put(&Store::new(StoreSettings::default()), &[0; 8], head.clone()).unwrap_or(1);
    let store = Store::new(StoreSettings { capacity_bytes: cost * kept as u64, ..StoreSettings::default() });
    let (mut used, mut order) = (HashMap::new(), BTreeMap::new());
    let (mut hits, mut lru_hits) = (0, 0);
    for time in 0..requests {
        let (object, is_counted) = (next(), time >= requests / 2);
        let key = (object as u64).to_be_bytes();
        if matches!(store.lookup(&key, &asked, NOW), Lookup::Hit(_)) {
            hits += usize::from(is_counted);
        } else {
            put(&store, &key, head.clone());
        }
        let before = used.insert(object, time);
        if let Some(before) = before {
            order.remove(&before);
            lru_hits += usize::from(is_counted);
        }
        order.insert(time, object);
        if used.len() > kept
            && let Some((_, oldest)) = order.pop_first()
        {
            used.remove(&oldest);
        }
    }
    let percent = |hits: usize| 100.0 * hits as f64 / (requests - requests / 2) as f64;
    let best = 100.0 * kept.checked_sub(1).map_or(0.0, |last| sums[last]) / sum;
    let (ours, lru) = (percent(hits), percent(lru_hits));
    writeln!(
        std::io::stdout(),
        "hits: {ours:.2} %, LRU {lru:.2} %, at best {best:.2} %; {:?}",
        store.counts()
    )
}
