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
use tollgate_policy::{
    ApiKeyRules, BodyKind, CanaryKey, CanaryRule, CanaryRules, Consumer, ConsumerEntry, Consumers, Context,
    CorsRules, CredentialSource, HeaderChange, HeaderRules, Identity, Origin, OriginPattern, Planned, Policy,
    PolicyStates, Request, SecurityHeaders, Template, TemplatePart, Verdict,
};

const HEAD: &[u8] = b"GET /a/b?c=d HTTP/1.1\r\nHost: a.example\r\nUser-Agent: policy_cost\r\nAccept: */*\r\n\
    Accept-Encoding: gzip\r\nCookie: session=0123456789abcdef; theme=dark\r\nOrigin: https://a.example\r\nX-Canary: always\r\n\
    X-Api-Key: 7c1d4b0e9f3a4e52b8a6d1c07e5f29430500\r\n\r\n";
const RESPONSE: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\nServer: origin\r\n\r\n";

fn canary(by: CanaryKey, percent: u8, header: bool) -> Arc<dyn Planned> {
    let headers = if header { vec![("x-canary".into(), Some("always".into()))] } else { Vec::new() };
    let rule = CanaryRule {
        to: "next".into(),
        headers: headers.into(),
        cookies: [].into(),
        percent: u32::from(percent) * 10_000,
        by,
    };
    Arc::new(CanaryRules { rules: [rule].into() })
}

fn headers(fills: bool) -> Arc<dyn Planned> {
    let text = |text: &str| Template::from(text.as_bytes());
    let part = |part, fixed| if fills { Template::from(vec![part]) } else { text(fixed) };
    let request = HeaderChange {
        remove: vec!["X-Canary".to_owned()],
        set: vec![
            ("X-Env".to_owned(), text("production")),
            ("X-Real-IP".to_owned(), part(TemplatePart::Client, "192.0.2.1")),
        ],
        add: vec![("X-Path".to_owned(), part(TemplatePart::Path, "/a/b"))],
    };
    let response =
        HeaderChange { set: vec![("Server".to_owned(), text("gateway"))], ..HeaderChange::default() };
    Arc::new(HeaderRules { request, response: Arc::new(response) })
}

fn api_key() -> Arc<dyn Planned> {
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
    Arc::new(ApiKeyRules {
        from: vec![CredentialSource::Header { name: "X-Api-Key".to_owned(), prefix: None }],
        forward: false,
        optional: false,
        identity: Identity::new(Some("X-Consumer-Name".to_owned()), Some("X-Consumer-Groups".to_owned())),
        consumers: Arc::new(Consumers::new(known.collect())),
    })
}

fn main() {
    let mut words = std::env::args().skip(1);
    let name = words.next().unwrap_or_else(|| "none".to_owned());
    let requests: u32 = words.next().and_then(|word| word.parse().ok()).unwrap_or(100_000);
    let planned: Option<Arc<dyn Planned>> = match name.as_str() {
        "api_key" => Some(api_key()),
        "canary" => Some(canary(CanaryKey::Random, 5, false)),
        "canary_header" => Some(canary(CanaryKey::Random, 100, true)),
        "canary_cookie" => Some(canary(CanaryKey::Cookie("session".into()), 5, false)),
        "headers" => Some(headers(false)),
        "headers_filled" => Some(headers(true)),
        "cors" => {
            let origins = vec![OriginPattern::Exactly("https://a.example".into())];
            Some(Arc::new(CorsRules { origins, methods: "GET".to_owned(), ..CorsRules::default() }))
        }
        "security_headers" => {
            let fields = vec![
                ("X-Frame-Options", "DENY".to_owned()),
                ("X-Content-Type-Options", "nosniff".to_owned()),
            ];
            Some(Arc::new(SecurityHeaders { fields, overwrite: false }))
        }
        _ => None,
    };
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
    let begun = Instant::now();
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
    let each = begun.elapsed().as_nanos() as f64 / f64::from(requests.max(1));
    writeln!(stdout(), "{name}: {each:.0} ns a request").expect("standard output");
}
