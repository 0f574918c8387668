//! The full files have every key, so that the other tests read each of them.

use std::collections::HashSet;
use std::path::Path;

use tollgate_config::section::{Node, NodeKind, SectionSpec, Shape, parsed, sections};

fn cover(node: &Node, shape: &'static Shape, seen: &mut HashSet<(&'static str, &'static str)>) {
    match (shape, &node.kind) {
        (Shape::Section(section), NodeKind::Map(_)) => cover_section(node, section, seen),
        (Shape::Registered(section), NodeKind::Map(_)) => cover_section(node, section(), seen),
        (Shape::OneOrMany(inner) | Shape::ListOf(inner), NodeKind::List(items)) => {
            items.iter().for_each(|item| cover(item, inner, seen));
        }
        (Shape::OneOrMany(inner), _) => cover(node, inner, seen),
        (Shape::MapOf(inner), NodeKind::Map(entries)) => {
            entries.iter().for_each(|entry| cover(&entry.value, inner, seen));
        }
        (Shape::AnyOf(shapes), _) => shapes.iter().for_each(|shape| cover(node, shape, seen)),
        _ => {}
    }
}

fn cover_section(
    node: &Node,
    section: &'static SectionSpec,
    seen: &mut HashSet<(&'static str, &'static str)>,
) {
    let NodeKind::Map(entries) = &node.kind else { return };
    for entry in entries {
        if let Some(key) = section.keys.iter().find(|key| key.name == entry.key) {
            seen.insert((section.name, key.name));
            cover(&entry.value, &key.shape, seen);
        }
    }
}

#[test]
fn the_full_files_have_every_key() {
    tollgate_policy::register();
    let mut seen = HashSet::new();
    for file in [
        "tests/good/full.yaml",
        "tests/good/tls.yaml",
        "tests/good/grpc.yaml",
        "tests/good/policies.yaml",
        "tests/good/limits.yaml",
        "tests/good/etcd.yaml",
        "tests/good/kubernetes.yaml",
        "tests/good/controller.yaml",
        "tests/good/fleet.yaml",
    ] {
        let text = std::fs::read_to_string(Path::new(file)).unwrap();
        cover_section(&parsed(&text).unwrap(), sections()[0], &mut seen);
    }
    let keys =
        sections().into_iter().flat_map(|section| section.keys.iter().map(|key| (section.name, key.name)));
    let missing: Vec<_> = keys.filter(|key| !seen.contains(key)).collect();
    assert!(missing.is_empty(), "in none of them: {missing:?}");
}
