//! Suggestions for misspelled names: "did you mean ...?"

use crate::spec::SectionSpec;

/// Returns the nearest of the names, if it is near enough to be a misspelling.
pub fn nearest<'a>(text: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // A longer text is not a misspelling of any name, and the cost of the distance is the product of the
    // lengths.
    if text.len() > 64 {
        return None;
    }
    let plain = |text: &str| text.to_ascii_lowercase().replace('-', "_");
    let text = plain(text);
    let length = text.chars().count();
    names
        // The distance is at least the difference in length, which is cheap to compute.
        .filter(|name| name.len() <= text.len() * 2 + 2)
        .map(|name| (strsim::damerau_levenshtein(&text, &plain(name)), name))
        // Allow one error in three characters; a prefix of a name or a plural `s` is also near.
        .filter(|(distance, name)| *distance <= (length.max(name.len()) / 3).max(1) && *distance < length)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Returns the key of a section that `text` probably means: a misspelling, or another gateway's name for it.
pub(crate) fn key(text: &str, section: &SectionSpec) -> Option<&'static str> {
    let exact = section.keys.iter().find(|key| key.aliases.contains(&text)).map(|key| key.name);
    exact.or_else(|| nearest(text, section.keys.iter().map(|key| key.name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::section::Section;
    use crate::sections::route::RouteKeys;
    use crate::spec::ROOT;

    #[test]
    fn slips_are_near_and_other_words_are_not() {
        assert_eq!(key("rout", ROOT), Some("routes"));
        assert_eq!(key("lsiten", ROOT), Some("listen"));
        assert_eq!(key("access-log", ROOT), Some("access_log"));
        assert_eq!(key("proxy_pass", RouteKeys::SPEC), Some("to"));
        assert_eq!(key("zebra", ROOT), None);
        assert_eq!(key("x", RouteKeys::SPEC), None);
    }
}
