//! Tests the tree, and the bounds on aliases and nesting.

use super::*;
use crate::tree::{Node, NodeKind};

fn texts(text: &str) -> Vec<String> {
    parse(0, text).problems.into_iter().map(|problem| problem.message).collect()
}

fn show(node: &Node) -> String {
    match &node.kind {
        NodeKind::Invalid => "!".into(),
        NodeKind::Scalar(scalar) => scalar.text.clone(),
        NodeKind::List(items) => format!("[{}]", items.iter().map(show).collect::<Vec<_>>().join(" ")),
        NodeKind::Map(entries) => {
            let inner: Vec<_> = entries.iter().map(|e| format!("{}={}", e.key, show(&e.value))).collect();
            format!("{{{}}}", inner.join(" "))
        }
    }
}

#[test]
fn json_is_read_with_tabs_and_all() {
    let parsed = parse(0, "{\n\t\"a\":1,\n\t\"b\": [true,\t\"x\\u0041\"]\n}");
    assert!(parsed.problems.is_empty());
    assert_eq!(show(&parsed.root.unwrap()), "{a=1 b=[true xA]}");
}

#[test]
fn merge_keys_give_way_to_own_keys() {
    let parsed = parse(0, "a: &x {q: 1, r: 2}\nb: {<<: *x, q: 3}\nc: {<<: [*x, {s: 4, q: 5}]}\n");
    assert!(parsed.problems.is_empty());
    assert_eq!(show(&parsed.root.unwrap()), "{a={q=1 r=2} b={q=3 r=2} c={q=1 r=2 s=4}}");
}

#[test]
fn alias_bombs_are_refused() {
    let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for i in 1..12 {
        let list = vec![format!("*a{}", i - 1); 10].join(", ");
        text.push_str(&format!("a{i}: &a{i} [{list}]\n"));
    }
    let problems = texts(&text);
    assert_eq!(problems, ["the aliases of this file expand to more than 100000 values"]);
}

#[test]
fn a_chain_of_aliases_cannot_get_deeper_than_plain_nesting() {
    let mut text = String::from("a0: &a0 [[[[[[[[[[x]]]]]]]]]]\n");
    for i in 1..100 {
        text.push_str(&format!("a{i}: &a{i} [[[[[[[[[[*a{}]]]]]]]]]]\n", i - 1));
    }
    assert!(texts(&text)[0].contains("64 levels"));
    assert_eq!(texts(&"[".repeat(100_000)), ["nested too deeply"]);
    assert!(texts(&"- ".repeat(10_000))[0].contains("64 levels"));
}

#[test]
fn an_alias_inside_its_own_anchor_is_refused() {
    assert_eq!(texts("a: &a [*a]\n"), ["this alias is inside the value that it refers to"]);
}

#[test]
fn duplicates_are_found_in_small_and_large_mappings() {
    assert_eq!(texts("a: 1\nb: 2\na: 3\n"), ["the key `a` is given twice"]);
    let mut text = String::new();
    for i in 0..50 {
        text.push_str(&format!("k{i}: x\n"));
    }
    text.push_str("k7: y\n");
    assert_eq!(texts(&text), ["the key `k7` is given twice"]);
}

#[test]
fn text_before_an_error_is_kept() {
    let parsed = parse(0, "a: 1\nb: {c: 2\nd: 3\n");
    assert!(!parsed.complete);
    assert_eq!(parsed.problems.len(), 1);
    assert!(show(&parsed.root.unwrap()).starts_with("{a=1"));
}
