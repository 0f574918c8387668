//! Names of documents. Kubernetes' names have no `_`, so it separates the parts of a name without ambiguity.

use crate::object::ObjectName;

/// The longest name of a document.
const NAME_MAX: usize = 128;

/// Joins parts to the name of a listener, an upstream or a certificate.
pub fn join(parts: &[&str]) -> String {
    bounded(parts.join("_"))
}

/// Returns the name of a route's document. Rules have two digits, so that the order of names is the order of
/// rules: it decides between matches that are equally specific.
pub fn route(kind: &str, name: &ObjectName, rule: usize, group: usize) -> String {
    let ObjectName { namespace, name } = name;
    let kind = kind.to_ascii_lowercase();
    bounded(match group {
        0 => format!("{kind}/{namespace}/{name}/{rule:02}"),
        group => format!("{kind}/{namespace}/{name}/{rule:02}/{group}"),
    })
}

/// Cuts a name that is too long, and makes it unique by a hash of the whole.
fn bounded(name: String) -> String {
    if name.len() <= NAME_MAX {
        return name;
    }
    let hash = fingerprint(&name);
    // Kubernetes' names are ASCII.
    let start = name.get(..NAME_MAX - 17).unwrap_or_default();
    format!("{start}-{hash:016x}")
}

/// Returns a hash of a text by FNV-1a: names must not change with a version of a library.
pub fn fingerprint(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_cut_and_stay_different() {
        let long = "a".repeat(200);
        let (one, two) = (join(&[&long, "x"]), join(&[&long, "y"]));
        assert_eq!((one.len(), two.len()), (NAME_MAX, NAME_MAX));
        assert_ne!(one, two);
        assert_eq!(join(&["ns", "service", "80"]), "ns_service_80");
        assert_eq!(route("HTTPRoute", &ObjectName::new("ns", "r"), 3, 1), "httproute/ns/r/03/1");
    }
}
