//! Finds the most specific of several names for a host: an exact one, then the longest wildcard, then the entry for any host.
//! It selects among the listeners of one address: for a handshake by its server name, for a request by its host.

use std::collections::HashMap;

/// The longest host name (RFC 1035, section 2.3.4). A longer one gets the entry for any host.
const HOST_MAX_BYTES: usize = 253;

/// Entries by host name. A wildcard `*.example.com` covers every name below `example.com`, at any depth.
#[derive(Clone, Debug)]
pub struct HostTable<T> {
    exact: HashMap<Box<[u8]>, T>,
    /// Keyed by the name after `*.`.
    below: HashMap<Box<[u8]>, T>,
    /// Number of labels of the longest wildcard name. Longer suffixes of a host need no look-up.
    most_labels: usize,
    any: Option<T>,
}

impl<T> Default for HostTable<T> {
    fn default() -> Self {
        Self { exact: HashMap::new(), below: HashMap::new(), most_labels: 0, any: None }
    }
}

impl<T> HostTable<T> {
    /// Adds an entry for a name in lower case, exact or `*.` and a name. The first entry of a name stays.
    pub fn insert(&mut self, name: &str, entry: T) {
        match name.strip_prefix("*.") {
            Some(base) => {
                self.most_labels = self.most_labels.max(base.split('.').count());
                self.below.entry(base.as_bytes().into()).or_insert(entry);
            }
            None => drop(self.exact.entry(name.as_bytes().into()).or_insert(entry)),
        }
    }

    /// Sets the entry for any host, unless there is one.
    pub fn insert_any(&mut self, entry: T) {
        self.any.get_or_insert(entry);
    }

    /// Returns the entry of the most specific name that covers a host, which may be in any case and end in a dot.
    #[must_use]
    pub fn find(&self, host: &[u8]) -> Option<&T> {
        let host = host.strip_suffix(b".").unwrap_or(host);
        if host.len() > HOST_MAX_BYTES {
            return self.any.as_ref();
        }
        let mut lower = [0; HOST_MAX_BYTES];
        let lower = &mut lower[..host.len()];
        lower.copy_from_slice(host);
        lower.make_ascii_lowercase();
        self.exact.get(&*lower).or_else(|| self.longest_below(lower)).or(self.any.as_ref())
    }

    fn longest_below(&self, host: &[u8]) -> Option<&T> {
        if self.below.is_empty() {
            return None;
        }
        let labels = host.split(|byte| *byte == b'.').count();
        let mut rest = host;
        for left in (1..labels).rev() {
            let dot = rest.iter().position(|byte| *byte == b'.')?;
            rest = &rest[dot + 1..];
            // A wildcard stands for at least one label that is not empty.
            if left <= self.most_labels
                && host.len() - rest.len() > 1
                && let Some(found) = self.below.get(rest)
            {
                return Some(found);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_beats_the_longest_wildcard_and_that_beats_any() {
        let mut table = HostTable::default();
        for name in ["a.example.com", "*.example.com", "*.b.example.com", "*.com"] {
            table.insert(name, name);
        }
        let find = |table: &HostTable<&'static str>, host: &str| table.find(host.as_bytes()).copied();
        for (host, found) in [
            ("a.example.com", Some("a.example.com")),
            ("A.Example.COM.", Some("a.example.com")),
            ("x.example.com", Some("*.example.com")),
            ("x.y.example.com", Some("*.example.com")),
            ("b.example.com", Some("*.example.com")),
            ("x.b.example.com", Some("*.b.example.com")),
            ("x.a.example.com", Some("*.example.com")),
            ("example.com", Some("*.com")),
            (".example.com", Some("*.com")),
            ("com", None),
            ("example.org", None),
            ("", None),
        ] {
            assert_eq!(find(&table, host), found, "{host}");
        }
        table.insert_any("any");
        table.insert_any("second");
        table.insert("a.example.com", "second");
        assert_eq!(find(&table, "example.org"), Some("any"));
        assert_eq!(find(&table, ""), Some("any"));
        assert_eq!(find(&table, "a.example.com"), Some("a.example.com"), "the first stays");
        let long = format!("{}.example.com", "x".repeat(250));
        assert_eq!(find(&table, &long), Some("any"));
    }
}
