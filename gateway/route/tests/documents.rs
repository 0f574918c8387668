//! Checks the examples in `docs/paths.md` and `docs/matching.md` against the code.

mod request;

use request::Sent;
use tollgate_route::{
    EncodedSlash, FieldSpec, MismatchReason, Normalised, PathRules, PathSpec, RouteSpec, Router, Semicolon,
    ValueSpec, normalise,
};

const PATHS: &str = include_str!("../../../docs/paths.md");
const MATCHING: &str = include_str!("../../../docs/matching.md");

/// Returns the tables after a `<!-- checked: ... -->` mark: the mark's text and the rows, without code
/// quotes.
fn tables(document: &str) -> Vec<(&str, Vec<Vec<String>>)> {
    let mut tables = Vec::new();
    for part in document.split("<!-- checked: ").skip(1) {
        let (mark, rest) = part.split_once(" -->").expect("the mark ends");
        let lines =
            rest.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
        tables.push((mark, lines.skip(2).map(cells).collect()));
    }
    tables
}

fn cells(line: &str) -> Vec<String> {
    let line = line.replace("\\|", "\0");
    let line = line.trim().trim_start_matches('|').trim_end_matches('|');
    line.split('|').map(|cell| cell.trim().replace('`', "").replace('\0', "|")).collect()
}

#[test]
fn paths() {
    let tables = tables(PATHS);
    assert_eq!(tables.len(), 4);
    for (mark, rows) in tables {
        let rules = PathRules {
            semicolon: match mark.contains("semicolon=reject") {
                true => Semicolon::Reject,
                false => Semicolon::Keep,
            },
            merge_slashes: mark.contains("merge_slashes=true"),
            encoded_slash: match mark.contains("encoded_slash=keep") {
                true => EncodedSlash::Keep,
                false => EncodedSlash::Reject,
            },
        };
        assert!(rows.len() >= 3);
        for row in rows {
            let [path, form, refusal] = &row[..] else { panic!("three cells: {row:?}") };
            let mut out = Vec::new();
            match normalise(path.as_bytes(), &rules, &mut out) {
                Ok(Normalised::Unchanged) => assert_eq!((form, refusal.as_str()), (path, ""), "{row:?}"),
                Ok(Normalised::Changed) => {
                    assert_eq!((form.as_bytes(), refusal.as_str()), (&out[..], ""), "{row:?}");
                }
                Err(error) => assert_eq!((form.as_str(), refusal.as_str()), ("", error.as_str()), "{row:?}"),
            }
        }
    }
}

fn list(cell: &str) -> impl Iterator<Item = &str> {
    cell.split(',').map(str::trim).filter(|item| !item.is_empty())
}

fn fields(cell: &str) -> Vec<FieldSpec> {
    let field = |item: &str| match item.split_once('=') {
        Some((name, value)) => {
            FieldSpec { name: name.into(), value: ValueSpec::Exact(value.replace('+', " ")) }
        }
        None => FieldSpec { name: item.into(), value: ValueSpec::Present },
    };
    list(cell).map(field).collect()
}

fn route(row: &[String]) -> RouteSpec {
    let [_, host, path, methods, headers, query] = row else { panic!("six cells: {row:?}") };
    let path = match path.split_once(' ').unwrap_or((path, "")) {
        ("exact", text) => PathSpec::Exact(text.into()),
        ("prefix", text) => PathSpec::Prefix(text.into()),
        ("regex", text) => PathSpec::Regex(text.into()),
        ("text", text) => PathSpec::RawPrefix(text.into()),
        ("suffix", text) => PathSpec::Suffix(text.into()),
        other => panic!("unknown kind of path: {other:?}"),
    };
    RouteSpec {
        host: (!host.is_empty()).then(|| host.clone()),
        path,
        methods: list(methods).map(str::to_owned).collect(),
        headers: fields(headers),
        query: fields(query),
        disabled: false,
        age: None,
    }
}

fn sent(request: &str, headers: &str) -> Sent {
    let (method, url) = request.split_once(" http://").expect("method and URL");
    let (host, path) = url.split_at(url.find('/').expect("a path"));
    let (path, query) = match path.split_once('?') {
        Some((path, query)) => (path, Some(query.to_owned())),
        None => (path, None),
    };
    let header = |line: &str| {
        let (name, value) = line.split_once(':').expect("a colon");
        (name.to_owned(), value.trim().to_owned())
    };
    Sent {
        method: method.into(),
        query,
        headers: list(headers).map(header).collect(),
        ..Sent::get(host, path)
    }
}

#[test]
fn matching() {
    let tables = tables(MATCHING);
    let [("routes", routes), ("requests", requests)] = &tables[..] else { panic!("two tables") };
    let (router, ties) =
        Router::build(routes.iter().map(|row| route(row)).collect()).expect("the table compiles");
    let number = |name: &str| routes.iter().position(|row| row[0] == name).expect("the route exists") as u32;
    assert_eq!(ties.len(), 1, "only the two that the table shows: {ties:?}");
    assert_eq!((ties[0].first, ties[0].second), (number("first"), number("second")));
    assert!(requests.len() > 20);
    for row in requests {
        let [request, headers, winner, over, because] = &row[..] else { panic!("five cells: {row:?}") };
        let explanation = router.explain(&sent(request, headers));
        assert_eq!(explanation.winner, Some(number(winner)), "{row:?}");
        let less: Vec<_> = explanation
            .others
            .iter()
            .filter(|(_, why)| matches!(why, MismatchReason::LessSpecific(_)))
            .collect();
        if over.is_empty() {
            assert_eq!(less, [] as [&(u32, MismatchReason); 0], "{row:?}");
            continue;
        }
        let (_, why) = less.iter().find(|(route, _)| *route == number(over)).expect("it matches too");
        assert_eq!(why.to_string(), format!("it matches, but {because}"), "{row:?}");
    }
}
