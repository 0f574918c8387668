//! Tests the problems and warnings of matches.

use tollgate_config::{Severity, from_text};

use super::*;
use crate::{Compiled, compile};

/// Compiles these lines followed by some routes, each answered with 204. Returns line, column and message of
/// each problem.
fn problems_of(lines: &str, matches: &[&str]) -> Vec<(u32, u32, String)> {
    problems(&text(lines, matches)).into_iter().map(|p| (p.at.line, p.at.column, p.message)).collect()
}

/// Writes one route a line, the first in line 4.
fn text(lines: &str, matches: &[&str]) -> String {
    let mut text = format!("listen: :80\n{lines}\nroutes:\n");
    for matches in matches {
        text.push_str(&format!("- {{match: {matches}, respond: 204}}\n"));
    }
    text
}

fn problems(text: &str) -> Vec<Problem> {
    tollgate_policy::register();
    let loaded = from_text("t", text, &|_| None);
    let config = loaded.config.unwrap_or_else(|| panic!("{}", loaded.problems.render(false)));
    match compile(&config) {
        Ok(Compiled { warnings, .. }) => warnings,
        Err(problems) => problems,
    }
}

const SAME: &str = "this match is identical to an earlier one: it could never win";

#[test]
fn every_path_is_the_same_however_it_is_written() {
    for (first, second) in [
        ("'*'", "/*"),
        ("a.b", "a.b/*"),
        ("{host: a.b}", "{host: a.b, path: {prefix: /}}"),
        ("a.b/*", "{host: a.b, path: '*'}"),
        ("//*", "/*"),
    ] {
        assert_eq!(problems_of("", &[first, second]), [(5, 11, SAME.to_owned())], "{first} and {second}");
    }
}

#[test]
fn an_identical_match_points_to_the_first() {
    let found = problems(&text("", &["/x", "/y", "{path: /x}"]));
    let [problem] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((problem.severity, problem.at.line, problem.at.column), (Severity::Error, 6, 11));
    let (first, why) = &problem.related[0];
    assert_eq!((first.line, first.column, why.as_str()), (4, 11, "the earlier one"));
}

#[test]
fn paths_are_compared_in_normal_form() {
    assert_eq!(problems_of("", &["/a//b", "/a/b"]), [(5, 11, SAME.to_owned())]);
    assert_eq!(problems_of("", &["/a//b/*", "/a/b/*"]), [(5, 11, SAME.to_owned())]);
    assert!(problems_of("paths: {merge_slashes: off}", &["/a//b", "/a/b"]).is_empty());
    assert_eq!(
        problems_of("paths: {encoded_slash: keep}", &["/a%2fb", "/a%2Fb"]),
        [(5, 11, SAME.to_owned())]
    );
}

#[test]
fn a_path_that_is_refused_in_every_request_is_a_mistake() {
    let found = problems_of("", &["a.b/x%2Fy", "/fine", "/x%5Cy/*", "/fine"]);
    let places: Vec<_> = found.iter().map(|(line, column, _)| (*line, *column)).collect();
    // Each faulty path gives one problem, and the other routes are still compared.
    assert_eq!(places, [(4, 14), (6, 11), (7, 11)], "{found:?}");
    assert!(found[0].2.starts_with("no request can have this path: "), "{found:?}");
    assert_eq!(found[2].2, SAME);
    assert!(problems_of("paths: {encoded_slash: keep}", &["/x%2Fy", "/x%5Cy/*"]).is_empty());
}

#[test]
fn a_tie_that_list_order_decides_is_a_warning() {
    let found = problems(&text("", &["{headers: {a: x}}", "{headers: {b: x}}"]));
    let [problem] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((problem.severity, problem.at.line), (Severity::Warning, 5));
    assert_eq!(problem.related[0].0.line, 4);
}

#[test]
fn an_error_of_the_router_is_placed_at_the_part_that_it_is_about() {
    // The reader accepts Unicode classes, but no byte of a request can match one.
    let found = problems_of(
        "",
        &[
            r"{path: {regex: '/\p{Greek}'}}",
            r"{headers: {a: {regex: '\p{Greek}'}}}",
            r"{query: {b: {regex: '\pL'}}}",
        ],
    );
    let lines: Vec<_> = found.iter().map(|(line, ..)| *line).collect();
    assert_eq!(lines, [4, 5, 6], "{found:?}");
    assert!(found.iter().all(|(_, column, _)| *column > 11), "{found:?}");
}

#[test]
fn matches_are_checked_despite_other_errors() {
    let text = text("timeouts: {total: fast}", &["/x", "/x", "/a%2Fb"]);
    tollgate_policy::register();
    let loaded = from_text("t", &text, &|_| None);
    assert_eq!(loaded.problems.len(), 1);
    let found = check_matches(&loaded.partial.expect("routes that can be read"));
    let lines: Vec<_> = found.iter().map(|problem| problem.at.line).collect();
    assert_eq!(lines, [6, 5], "{found:?}");
}
