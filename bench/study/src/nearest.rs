//! Suggests a known name in place of an unknown one.

/// Returns the end of a sentence about an unknown name: the nearest name, or all names.
pub(crate) fn hint(name: &str, known: &[String]) -> String {
    match nearest(name, known) {
        near if near.is_empty() => format!("; known: {}", known.join(", ")),
        near => near,
    }
}

/// Returns `, did you mean ...?` if a name is near enough: at most 1 edit plus a third of its length.
pub(crate) fn nearest(name: &str, known: &[String]) -> String {
    known
        .iter()
        .map(|other| (strsim::damerau_levenshtein(name, other), other))
        .filter(|(distance, other)| *distance <= 1 + other.len() / 3)
        .min()
        .map_or_else(String::new, |(_, other)| format!(", did you mean `{other}`?"))
}
