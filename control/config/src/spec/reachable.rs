//! Every section of the table, found from its root.

use super::{ROOT, SectionSpec, Shape};

/// Returns every section that is reachable from the root, the root first.
#[must_use]
pub fn sections() -> Vec<&'static SectionSpec> {
    fn visit(shape: &'static Shape, found: &mut Vec<&'static SectionSpec>) {
        match shape {
            Shape::Section(section) => add(section, found),
            Shape::Registered(section) => add(section(), found),
            Shape::OneOrMany(inner) | Shape::ListOf(inner) | Shape::MapOf(inner) => visit(inner, found),
            Shape::AnyOf(shapes) => shapes.iter().for_each(|shape| visit(shape, found)),
            _ => {}
        }
    }
    fn add(section: &'static SectionSpec, found: &mut Vec<&'static SectionSpec>) {
        if found.iter().any(|known| known.name == section.name) {
            return;
        }
        found.push(section);
        section.keys.iter().for_each(|key| visit(&key.shape, found));
    }
    let mut found = Vec::new();
    add(ROOT, &mut found);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{Choice, ROOT_NAME};

    #[test]
    fn names_are_unique_and_choices_exist() {
        let all = sections();
        assert!(all.len() > 15);
        assert_eq!(all[0].name, ROOT_NAME);
        for section in all {
            for (i, key) in section.keys.iter().enumerate() {
                assert!(!section.keys[..i].iter().any(|other| other.name == key.name), "{}", key.name);
                assert!(key.doc.ends_with('.'), "{}.{}", section.name, key.name);
            }
            if let Choice::ExactlyOne(choice) | Choice::AtMostOne(choice) = section.choice {
                for name in choice {
                    assert!(section.keys.iter().any(|key| key.name == *name));
                }
            }
        }
    }
}
