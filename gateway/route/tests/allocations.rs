//! A look-up allocates nothing after the thread's regular-expression caches are warm.
//!
//! This is a program without the test harness: the counter covers the whole process, and the harness's thread
//! allocates at any time.

mod request;

use request::Sent;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use tollgate_route::{FieldSpec, Normalised, PathRules, PathSpec, RouteSpec, Router, ValueSpec, normalise};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() {
    let route = |host: Option<&str>, path: PathSpec| RouteSpec {
        host: host.map(str::to_owned),
        path,
        ..RouteSpec::default()
    };
    let field = |value: ValueSpec| vec![FieldSpec { name: "a".into(), value }];
    let mut specs = vec![
        route(None, PathSpec::Exact("/exact".into())),
        route(Some("*.example.com"), PathSpec::Prefix("/a/b".into())),
        route(Some("api.example.com"), PathSpec::Prefix("/a".into())),
        route(Some("api.example.com"), PathSpec::Regex("/r/[0-9]+".into())),
        route(Some("api.example.com"), PathSpec::Regex("/r/[a-z]+x".into())),
        route(Some("api.example.com"), PathSpec::Regex("/[a-z]+/one".into())),
    ];
    specs.push(RouteSpec { query: field(ValueSpec::Exact("b c".into())), ..specs[2].clone() });
    specs.push(RouteSpec { query: field(ValueSpec::Regex("[x-z] [0-9]+".into())), ..specs[2].clone() });
    specs.push(RouteSpec { headers: field(ValueSpec::Regex("[x-z]+".into())), ..specs[2].clone() });
    let (router, _) = Router::build(specs).unwrap();

    let with_query = |query: &str| Sent { query: Some(query.into()), ..Sent::get("api.example.com", "/a/x") };
    let cases = [
        (Sent::get("other", "/exact"), Some(0)),
        (Sent::get("x.EXAMPLE.com.", "/a/b/c"), Some(1)),
        (Sent::get("api.example.com", "/a/b"), Some(2)),
        (Sent::get("api.example.com", "/r/12345"), Some(3)),
        (Sent::get("API.example.com", "/r/abcx"), Some(4)),
        (Sent::get("api.example.com", "/abc/one"), Some(5)),
        (with_query("z=1&a=b%20c"), Some(6)),
        (with_query("a=x+123"), Some(7)),
        (Sent { headers: vec![("A".into(), "xyz".into())], ..Sent::get("api.example.com", "/a") }, Some(8)),
        (Sent::get("other", "/none"), None),
    ];
    let changes = &b"/a/./b%2d//c/../d"[..];
    let mut out = Vec::with_capacity(changes.len());
    let mut round = || {
        for (request, expected) in &cases {
            assert_eq!(router.find(request), *expected, "{request:?}");
        }
        assert_eq!(normalise(b"/a/b", &PathRules::default(), &mut out), Ok(Normalised::Unchanged));
        assert_eq!(normalise(changes, &PathRules::default(), &mut out), Ok(Normalised::Changed));
    };
    for _ in 0..3 {
        round();
    }
    let region = Region::new(ALLOCATOR);
    for _ in 0..100 {
        round();
    }
    let change = region.change();
    assert_eq!((change.allocations, change.reallocations), (0, 0));
}
