//! Runs a policy repeatedly over one request. Callgrind counts the instructions:
//!
//! ```sh
//! cargo build --release -p tollgate-policy --example policy_cost
//! for requests in 0 100000; do
//!   valgrind --tool=callgrind --callgrind-out-file=/dev/null target/release/examples/policy_cost canary $requests
//! done
//! ```
//!
//! The difference divided by the number of requests is the cost of one request. Subtract the result of
//! `none`, the cost of the example itself: copying a head of eight fields and clearing a context. Valgrind
//! does not support the processor's hash instructions, so the example also reports the time. For that, run it
//! without valgrind: `target/release/examples/policy_cost api_key 1000000`, and `none` for comparison.
//!
//! Policies: `none`, `canary_header`, `canary_cookie` (sticky), `canary` (a random percentage), `headers`
//! (one field removed, two set and one added in the request, one set in the response), `headers_filled` (the
//! same with placeholders in two values), `api_key` (one of a thousand in a field, which is not forwarded),
//! `cors`, `security_headers`.

use std::hint::black_box;
use std::io::{Write, stdout};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use aws_lc_rs::digest::{SHA256, digest};
use tollgate_http::h1::RequestParser;
use tollgate_http::{HeadLimits, RequestHead};
use tollgate_policy::testing::planned;
use tollgate_policy::{
    BodyKind, Consumer, ConsumerEntry, Consumers, Context, Origin, Planned, Policy, PolicyStates, Request,
    Verdict,
};

const HEAD: &[u8] = b"GET /a/b?c=d HTTP/1.1\r\nHost: a.example\r\nUser-Agent: policy_cost\r\nAccept: */*\r\n\
    Accept-Encoding: gzip\r\nCookie: session=0123456789abcdef; theme=dark\r\nOrigin: https://a.example\r\nX-Canary: always\r\n\
    X-Api-Key: 7c1d4b0e9f3a4e52b8a6d1c07e5f29430500\r\n\r\n";
const RESPONSE: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\nServer: origin\r\n\r\n";

fn consumers() -> Arc<Consumers> {
    let known = (0..1000).map(|number| {
        let name = format!("consumer-{number}");
        let hash = digest(&SHA256, format!("7c1d4b0e9f3a4e52b8a6d1c07e5f2943{number:04}").as_bytes());
        let api_keys = hash.as_ref().first_chunk().copied().into_iter().collect();
        ConsumerEntry {
            consumer: Consumer { name, ..Consumer::default() },
            api_keys,
            ..ConsumerEntry::default()
        }
    });
    Arc::new(Consumers::new(known.collect()))
}

/// Returns the settings of a policy as a file has them.
fn settings(name: &str) -> Option<&'static str> {
    Some(match name {
        "api_key" => "api_key: on",
        "canary" => "canary: {to: next, percent: 5}",
        "canary_header" => "canary: {to: next, headers: {x-canary: always}}",
        "canary_cookie" => "canary: {to: next, percent: 5, by: cookie session}",
        "headers" => {
            "headers: {request: {remove: X-Canary, set: {X-Env: production, X-Real-IP: 192.0.2.1}, \
             add: {X-Path: /a/b}}, response: {set: {Server: gateway}}}"
        }
        "headers_filled" => {
            "headers: {request: {remove: X-Canary, set: {X-Env: production, X-Real-IP: '{client}'}, \
             add: {X-Path: '{path}'}}, response: {set: {Server: gateway}}}"
        }
        "cors" => "cors: {origins: 'https://a.example', methods: GET}",
        "security_headers" => "security_headers: {referrer_policy: off, content_security_policy: off}",
        _ => return None,
    })
}

fn main() {
    let mut words = std::env::args().skip(1);
    let name = words.next().unwrap_or_else(|| "none".to_owned());
    let requests: u32 = words.next().and_then(|word| word.parse().ok()).unwrap_or(100_000);
    let planned: Option<Arc<dyn Planned>> = settings(&name).map(|settings| planned(settings, &consumers()));
    let shared = Arc::new(PolicyStates::default());
    let policy: Option<Arc<dyn Policy>> = planned.map(|planned| planned.activate("k", &shared));
    let mut head = RequestHead::default();
    let limits = HeadLimits { line: 8192, head: 65_536, fields: 100 };
    RequestParser::default().advance(HEAD, &mut head, &limits).expect("a head");
    let client = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    let origin = Origin {
        peer: SocketAddr::new(client, 4711),
        client,
        client_port: Some(4711),
        secure: false,
        certificate: None,
        route: "r",
        worker: 0,
        now: Instant::now(),
        forwarding: &(),
    };
    let (mut copy, mut answer, mut context) = (head.clone(), Vec::new(), Context::default());
    let started = Instant::now();
    for _ in 0..requests {
        copy.clone_from(&head);
        answer.clear();
        answer.extend_from_slice(RESPONSE);
        context.clear();
        if let Some(policy) = &policy {
            let verdict = policy.request(&mut Request::new(&mut copy, b"", &origin, &mut context, b""));
            assert!(matches!(verdict, Verdict::Continue), "{name} does not let it through");
        }
        context.respond(&mut answer, BodyKind::Transformable, true);
        black_box((&copy, &answer, &context));
    }
    let each = started.elapsed().as_nanos() as f64 / f64::from(requests.max(1));
    writeln!(stdout(), "{name}: {each:.0} ns a request").expect("standard output");
}
