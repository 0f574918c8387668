//! Compares the compiled router with the rules of `docs/matching.md`, applied one by one to a plain list.

mod request;

use std::cmp::Ordering;

use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use request::Sent;
use tollgate_route::{
    Age, BuildError, FieldSpec, MismatchReason, PathSpec, Request, RouteSpec, Router, ValueSpec,
};

/// A regular expression, and a plain test for the paths that it matches.
type Pattern = (&'static str, fn(&str) -> bool);

const PATTERNS: [Pattern; 5] = [
    ("/a/.*", |path| path.starts_with("/a/")),
    ("/[ab]+", |path| path.len() > 1 && path[1..].bytes().all(|byte| byte == b'a' || byte == b'b')),
    (".*b", |path| path.ends_with('b')),
    ("/a/b|/b", |path| path == "/a/b" || path == "/b"),
    ("/a(/b)?", |path| path == "/a" || path == "/a/b"),
];

fn host_matches(spec: Option<&str>, host: &str) -> bool {
    let host = host.to_ascii_lowercase();
    let host = host.strip_suffix('.').unwrap_or(&host);
    match spec {
        None => true,
        Some(spec) => match spec.strip_prefix('*') {
            Some(suffix) => host.len() > suffix.len() && host.ends_with(suffix),
            None => host == spec,
        },
    }
}

fn path_matches(spec: &PathSpec, path: &str) -> bool {
    match spec {
        PathSpec::Any => true,
        PathSpec::Exact(text) => text == path,
        PathSpec::Prefix(text) => text.is_empty() || path == text || path.starts_with(&format!("{text}/")),
        PathSpec::Regex(text) => PATTERNS.iter().any(|(pattern, test)| pattern == text && test(path)),
        PathSpec::RawPrefix(text) => path.starts_with(text),
        PathSpec::Suffix(text) => path.ends_with(text),
    }
}

fn value_matches(spec: &ValueSpec, value: Option<&str>) -> bool {
    match spec {
        ValueSpec::Present => value.is_some(),
        ValueSpec::Absent => value.is_none(),
        ValueSpec::Exact(text) => value == Some(text),
        // The only generated expression is `1.*`.
        ValueSpec::Regex(_) => value.is_some_and(|value| value.starts_with('1')),
        ValueSpec::NotExact(text) => value != Some(text),
        ValueSpec::NotRegex(_) => !value.is_some_and(|value| value.starts_with('1')),
    }
}

fn matches(spec: &RouteSpec, sent: &Sent) -> bool {
    let header = |name: &str| sent.header(name).map(|value| std::str::from_utf8(value).unwrap());
    let query = |name: &str| {
        let pairs = sent.query.as_deref().unwrap_or("").split('&');
        pairs.filter_map(|pair| pair.split_once('=')).find(|(key, _)| *key == name).map(|(_, value)| value)
    };
    host_matches(spec.host.as_deref(), &sent.host)
        && path_matches(&spec.path, &sent.path)
        && (spec.methods.is_empty() || spec.methods.contains(&sent.method))
        && spec.headers.iter().all(|field| value_matches(&field.value, header(&field.name)))
        && spec.query.iter().all(|field| value_matches(&field.value, query(&field.name)))
}

/// Returns `Greater` if `one` wins over `other`, whatever their order in the list.
fn precedence(one: &RouteSpec, other: &RouteSpec) -> Ordering {
    let host = |spec: &RouteSpec| match spec.host.as_deref() {
        None => (0, 0),
        Some(name) if name.starts_with('*') => (1, name.len()),
        Some(_) => (2, 0),
    };
    let path = |spec: &RouteSpec| match &spec.path {
        PathSpec::Any => (0, 0, true),
        PathSpec::Prefix(text) => (0, text.len(), true),
        PathSpec::RawPrefix(text) => (0, text.len(), false),
        PathSpec::Suffix(text) => (1, text.len(), true),
        PathSpec::Regex(_) => (2, 0, true),
        PathSpec::Exact(_) => (3, 0, true),
    };
    // Routes without an age come first, then the older ones, then the smaller names.
    let age = |spec: &RouteSpec| spec.age.clone();
    host(one)
        .cmp(&host(other))
        .then(path(one).cmp(&path(other)))
        .then(one.methods.is_empty().cmp(&other.methods.is_empty()).reverse())
        .then(one.headers.len().cmp(&other.headers.len()))
        .then(one.query.len().cmp(&other.query.len()))
        .then(age(one).cmp(&age(other)).reverse())
}

fn winner(specs: &[RouteSpec], sent: &Sent) -> Option<usize> {
    let mut best: Option<usize> = None;
    for (at, spec) in specs.iter().enumerate().filter(|(_, spec)| matches(spec, sent)) {
        if best.is_none_or(|best| precedence(spec, &specs[best]) == Ordering::Greater) {
            best = Some(at);
        }
    }
    best
}

fn fields() -> impl Strategy<Value = Vec<FieldSpec>> {
    let value = || {
        select(vec![
            ValueSpec::Present,
            ValueSpec::Absent,
            ValueSpec::Exact("1".into()),
            ValueSpec::Exact("12".into()),
            ValueSpec::Regex("1.*".into()),
            ValueSpec::NotExact("1".into()),
            ValueSpec::NotRegex("1.*".into()),
        ])
    };
    (any::<bool>(), subsequence(vec!["x", "y"], 0..=2), value(), value()).prop_map(
        |(none, names, one, other)| {
            let both = names.into_iter().zip([one, other]);
            let fields = both.map(|(name, value)| FieldSpec { name: name.into(), value });
            fields.filter(|_| !none).collect()
        },
    )
}

fn specs() -> impl Strategy<Value = Vec<RouteSpec>> {
    let host = select(vec![None, Some("a.b.c"), Some("*.c"), Some("*.b.c"), Some("b.c"), Some("*.z")]);
    let text = |choices: &[&str]| select(choices.iter().map(|&text| text.to_owned()).collect::<Vec<_>>());
    let path = prop_oneof![
        Just(PathSpec::Any),
        text(&["/", "/a", "/a/b", "/a/", "/b"]).prop_map(PathSpec::Exact),
        text(&["", "/a", "/a/b", "/b", "/a/b/a"]).prop_map(PathSpec::Prefix),
        text(&["/", "/a", "/a/", "/a/b", "/b", "/a/b/"]).prop_map(PathSpec::RawPrefix),
        text(&["b", "/b", "/a/b", "a", "/"]).prop_map(PathSpec::Suffix),
        select(PATTERNS.map(|(pattern, _)| PathSpec::Regex(pattern.into())).to_vec()),
    ];
    let methods = subsequence(vec!["GET", "PUT"], 0..=2);
    let age = (0..4_i64, select(vec!["a", "b"])).prop_map(|(created, name)| {
        (created > 0).then(|| Age { created: (created, 0), name: name.to_owned() })
    });
    let spec = (host, path, methods, fields(), fields(), age);
    let spec = spec.prop_map(|(host, path, methods, headers, query, age)| RouteSpec {
        host: host.map(str::to_owned),
        path,
        methods: methods.into_iter().map(str::to_owned).collect(),
        headers,
        query,
        disabled: false,
        age,
    });
    prop::collection::vec(spec, 1..25)
}

fn requests() -> impl Strategy<Value = Sent> {
    let values = || subsequence(vec![("x", "1"), ("x", "2"), ("y", "12"), ("y", "")], 0..=3);
    (
        select(vec!["GET", "PUT", "POST"]),
        select(vec!["a.b.c", "A.B.C.", "x.b.c", "x.y.b.c", "b.c", "x.c", "c", "q", ""]),
        select(vec!["/", "/a", "/a/b", "/a/", "/b", "/ab", "/a/b/a/x", "/c", "/a//b", "*", "/abx/b"]),
        values(),
        values(),
    )
        .prop_map(|(method, host, path, headers, query)| {
            let pairs: Vec<String> = query.iter().map(|(name, value)| format!("{name}={value}")).collect();
            Sent {
                method: method.into(),
                query: (!pairs.is_empty()).then(|| pairs.join("&")),
                headers: headers.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
                ..Sent::get(host, path)
            }
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_router_agrees_with_the_list(
        mut specs in specs(),
        requests in prop::collection::vec(requests(), 1..30),
    ) {
        // Drop the routes that the router calls identical; the rest must compile.
        let (router, ties) = loop {
            match Router::build(specs.clone()) {
                Ok(built) => break built,
                Err(errors) => {
                    let mut repeated: Vec<usize> = Vec::new();
                    for error in &errors {
                        prop_assert!(matches!(error, BuildError::Identical { .. }), "{error}");
                        repeated.push(error.route() as usize);
                    }
                    repeated.sort_unstable();
                    repeated.dedup();
                    for at in repeated.into_iter().rev() {
                        specs.remove(at);
                    }
                }
            }
        };
        for sent in &requests {
            let expected = winner(&specs, sent);
            prop_assert_eq!(router.find(sent).map(|route| route as usize), expected, "{:?} {:?}", sent, specs);

            let explanation = router.explain(sent);
            prop_assert_eq!(explanation.winner.map(|route| route as usize), expected);
            prop_assert_eq!(explanation.others.len() + usize::from(expected.is_some()), specs.len());
            for (route, why) in explanation.others {
                let spec = &specs[route as usize];
                prop_assert_eq!(matches(spec, sent), matches!(why, MismatchReason::LessSpecific(_)), "{:?} {}", spec, why);
                match why {
                    MismatchReason::Host => prop_assert!(!host_matches(spec.host.as_deref(), &sent.host)),
                    MismatchReason::Path => prop_assert!(!path_matches(&spec.path, &sent.path)),
                    MismatchReason::LessSpecific(_) => {
                        // A tie that decided a request was reported.
                        let best = expected.unwrap();
                        if spec.age.is_none() && precedence(spec, &specs[best]) == Ordering::Equal {
                            prop_assert!(ties.iter().any(|tie| tie.second == route), "{:?}", spec);
                        }
                    }
                    _ => {}
                }
            }
        }
    }
}
