//! How long a start takes with a log on disk, and a read from it: `cargo run --release -p tollgate-cache --example disk_start
//! -- FOLDER OBJECTS BODY_BYTES`. The files are in the page cache, so this is the time of the processor.

use std::io::{Write, stdout};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use tollgate_cache::{
    Admission, DiskCandidate, DiskCounters, DiskSettings, DiskState, Moment, Received, RequestControl, Store,
    StoreSettings, StoredHead, admit,
};
use tollgate_http::h1::{Progress, RequestParser, ResponseParser};
use tollgate_http::{HeadLimits, Method, RequestHead, ResponseHead};

const LIMITS: HeadLimits = HeadLimits { line: 1024, head: 4096, fields: 32 };
const NOW: Moment = Moment::from_seconds(1_000_000_000);

fn head() -> StoredHead {
    let asked = b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n";
    let mut request = RequestHead::default();
    assert_eq!(
        RequestParser::default().advance(asked, &mut request, &LIMITS),
        Ok(Progress::Complete(asked.len()))
    );
    let text = b"HTTP/1.1 200 OK\r\nDate: Sun, 09 Sep 2001 01:46:40 GMT\r\nCache-Control: max-age=60\r\n\
                 Content-Type: text/html\r\nETag: \"5f3a-5e2\"\r\n\r\n";
    let mut response = ResponseHead::default();
    assert_eq!(
        ResponseParser::default().advance(text, Method::Get, &mut response, &LIMITS),
        Ok(Progress::Complete(text.len()))
    );
    let times = Received { requested: NOW, received: NOW };
    admit(&request, &RequestControl::default(), &response, &Admission::default(), times).expect("storable")
}

fn start(settings: &DiskSettings) -> Arc<Store> {
    let store = Store::new(StoreSettings { capacity_bytes: 1 << 30, ..StoreSettings::default() });
    store.set_disk(Some(settings.clone()), &DiskCounters::default());
    while store.disk_status().is_none_or(|status| status.state != DiskState::Ready) {
        sleep(Duration::from_millis(1));
    }
    store
}

fn key(number: u64) -> Vec<u8> {
    format!("https://shop.example/products/{number}\u{1f}route/r").into_bytes()
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let path = PathBuf::from(arguments.next().expect("a folder"));
    let mut number = || arguments.next().and_then(|text| text.parse::<u64>().ok()).expect("a number");
    let (objects, body_bytes) = (number(), number());
    let settings = DiskSettings { path, size_bytes: 64 << 30, shares_purges: false };
    let store = start(&settings);
    let (template, body) = (head(), vec![7; body_bytes as usize]);
    let begin = Instant::now();
    for number in 0..objects {
        let mut fill = store.begin_alone(&key(number));
        assert!(fill.start(template.clone(), Some(body_bytes)));
        fill.push(&body);
        fill.finish().expect("stored");
        while store.disk_status().is_some_and(|status| status.waiting_bytes > 32 << 20) {
            sleep(Duration::from_millis(1));
        }
    }
    while store.disk_status().is_some_and(|status| status.waiting_bytes > 0) {
        sleep(Duration::from_millis(1));
    }
    let written = begin.elapsed();
    assert!(store.release_disk(Duration::from_secs(60)));
    let begin = Instant::now();
    let store = start(&settings);
    let started = begin.elapsed();
    let status = store.disk_status().expect("a tier");
    let begin = Instant::now();
    let reads = objects.min(100_000);
    for number in 0..reads {
        let number = number.wrapping_mul(7919) % objects;
        for candidate in store.disk_candidates(&key(number)) {
            let DiskCandidate::Record(record) = candidate else { panic!("it waits") };
            assert_eq!(record.load().expect("good").stored().length(), body_bytes);
        }
    }
    let read = begin.elapsed() / reads.max(1) as u32;
    let (found, mebibytes) = (status.objects, status.bytes >> 20);
    writeln!(
        stdout(),
        "{found} objects of {body_bytes} bytes, {mebibytes} MiB: written in {written:.2?}, started in {started:.2?}, \
         {read:.2?} a read"
    )
    .expect("standard output");
}
