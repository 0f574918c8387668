//! Host names: finds the configured names that cover a request's host, the most specific first.

use std::collections::HashMap;

use super::map::Map;

/// Length of the longest name, in bytes of text (RFC 1035, section 2.3.4: 255 octets on the wire). Only
/// routes for any host cover a longer one.
const HOST_MAX_BYTES: usize = 253;

/// Names, each with the number of its entry. See [`Map`] for the choice of hash.
pub(crate) type HostNames<'n> = HashMap<&'n HostName, u32, foldhash::fast::RandomState>;

/// A route's host in its canonical spelling: lower case, without trailing dot. The order is the precedence.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum HostName {
    /// Any host.
    Any,
    /// Every name below this one, at any depth.
    Below(String),
    /// This name only.
    Exact(String),
}

impl HostName {
    pub(crate) fn parse(text: Option<&str>) -> Result<Self, &'static str> {
        let Some(text) = text else { return Ok(Self::Any) };
        let text = text.to_ascii_lowercase();
        let (text, below) = match text.strip_prefix("*.") {
            Some(rest) => (rest, true),
            None => (text.as_str(), false),
        };
        let name = text.strip_suffix('.').unwrap_or(text);
        if name == "*" {
            return Err("a host of `*` is any host: leave it out");
        }
        if name.contains('*') {
            return Err("a wildcard stands for the first labels of a host only: `*.example.com`");
        }
        if name.contains(':') && !name.starts_with('[') {
            return Err("a host is matched without its port: leave the port out");
        }
        if name.is_empty() || (!name.starts_with('[') && name.split('.').any(str::is_empty)) {
            return Err("a host needs text between its dots");
        }
        if name.bytes().any(|byte| !byte.is_ascii_graphic() || b"/?#@\\".contains(&byte)) {
            return Err("a host holds letters, digits, `-` and `.`; write other scripts as `xn--`");
        }
        if name.len() > HOST_MAX_BYTES {
            return Err("a host has at most 253 bytes");
        }
        Ok(if below { Self::Below(name.to_owned()) } else { Self::Exact(name.to_owned()) })
    }

    /// Returns how specific it is among the names that cover a request; more is more specific.
    pub(crate) fn specificity(&self) -> usize {
        match self {
            Self::Any => 0,
            Self::Below(name) => name.len(),
            Self::Exact(_) => usize::MAX,
        }
    }

    /// Returns whether it covers the request's host, by direct comparison, for `explain`.
    pub(crate) fn covers(&self, host: &[u8]) -> bool {
        let host = without_dot(host).to_ascii_lowercase();
        let is_name = host.len() <= HOST_MAX_BYTES;
        match self {
            Self::Any => true,
            Self::Exact(name) => is_name && host == name.as_bytes(),
            Self::Below(name) => {
                let above = host.strip_suffix(name.as_bytes()).and_then(|rest| rest.strip_suffix(b"."));
                is_name && above.is_some_and(|labels| !labels.is_empty())
            }
        }
    }
}

/// Finds the entry of the most specific name for a request's host. Each entry knows the next less specific
/// one, which depends on the name alone, so that each further step costs one load.
#[derive(Default)]
pub(crate) struct Hosts {
    exact: Map<u32>,
    below: Map<u32>,
    any: Option<u32>,
    /// Number of labels of the longest wildcard name. Longer suffixes of a request's host need no look-up, so
    /// a client cannot make the search longer than the configuration does.
    most_labels: usize,
}

impl Hosts {
    /// Builds the tables from the names, each with the number of its entry.
    pub(crate) fn new(names: &HostNames<'_>) -> Self {
        let exact = names.keys().filter(|name| matches!(name, HostName::Exact(_))).count();
        let mut hosts =
            Self { exact: Map::with_capacity_and_hasher(exact, Default::default()), ..Self::default() };
        for (name, &entry) in names {
            match name {
                HostName::Any => hosts.any = Some(entry),
                HostName::Exact(name) => drop(hosts.exact.insert(name.as_bytes().into(), entry)),
                HostName::Below(name) => {
                    hosts.most_labels = hosts.most_labels.max(name.split('.').count());
                    hosts.below.insert(name.as_bytes().into(), entry);
                }
            }
        }
        hosts
    }

    /// Returns the next less specific entry after the entry of `name`.
    pub(crate) fn next(&self, name: &HostName) -> Option<u32> {
        match name {
            HostName::Any => None,
            HostName::Exact(name) | HostName::Below(name) => self.longest_below(name.as_bytes()),
        }
    }

    /// Returns the entry of the most specific name that covers `host`, which may be in any case and end in a
    /// dot.
    #[inline]
    pub(crate) fn most_specific(&self, host: &[u8]) -> Option<u32> {
        if self.exact.is_empty() && self.below.is_empty() {
            return self.any;
        }
        let host = without_dot(host);
        // The table's names are in lower case, so a hit needs no check of the case.
        if let Some(&entry) = self.exact.get(host) {
            return Some(entry);
        }
        if host.len() > HOST_MAX_BYTES {
            self.any
        } else if host.iter().any(u8::is_ascii_uppercase) {
            self.find_in_lower_case(host)
        } else {
            self.longest_below(host)
        }
    }

    /// Separate and rarely called, so that the usual host pays neither for the copy nor for clearing its
    /// space.
    #[cold]
    fn find_in_lower_case(&self, host: &[u8]) -> Option<u32> {
        let mut lower = [0; HOST_MAX_BYTES];
        let lower = &mut lower[..host.len()];
        lower.copy_from_slice(host);
        lower.make_ascii_lowercase();
        self.exact.get(lower).copied().or_else(|| self.longest_below(lower))
    }

    /// Returns the entry of the longest wildcard name above `host`, else the entry for any host.
    fn longest_below(&self, host: &[u8]) -> Option<u32> {
        if self.below.is_empty() {
            return self.any;
        }
        // The dot before the longest suffix that may be in the table. A dot at index 0 has no label before
        // it.
        let dots = host.iter().enumerate().skip(1).rev().filter(|&(_, &byte)| byte == b'.');
        let Some((mut dot, _)) = dots.take(self.most_labels).last() else { return self.any };
        loop {
            let suffix = &host[dot + 1..];
            if let Some(&entry) = self.below.get(suffix) {
                return Some(entry);
            }
            match memchr::memchr(b'.', suffix) {
                Some(at) => dot += 1 + at,
                None => return self.any,
            }
        }
    }
}

/// Removes a trailing dot, which only marks the name as complete (RFC 1034, section 3.1).
fn without_dot(host: &[u8]) -> &[u8] {
    host.strip_suffix(b".").unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(names: &[&str]) -> (Hosts, Vec<HostName>) {
        let names: Vec<HostName> =
            names.iter().map(|name| HostName::parse((*name != "any").then_some(*name)).unwrap()).collect();
        let numbered = names.iter().zip(0..).collect();
        (Hosts::new(&numbered), names)
    }

    /// Returns all entries for a host, in the order in which they are tried.
    fn chain(hosts: &(Hosts, Vec<HostName>), host: &str) -> Vec<u32> {
        let mut entry = hosts.0.most_specific(host.as_bytes());
        std::iter::from_fn(|| {
            let this = entry?;
            entry = hosts.0.next(&hosts.1[this as usize]);
            Some(this)
        })
        .collect()
    }

    #[test]
    fn most_specific_first() {
        let hosts =
            hosts(&["a.b.example.com", "*.example.com", "any", "*.b.example.com", "example.com", "*.com"]);
        for (host, expected) in [
            ("a.b.example.com", &[0, 3, 1, 5, 2][..]),
            ("A.b.EXAMPLE.com.", &[0, 3, 1, 5, 2]),
            ("x.b.example.com", &[3, 1, 5, 2]),
            ("y.x.b.example.com", &[3, 1, 5, 2]),
            ("b.example.com", &[1, 5, 2]),
            ("example.com", &[4, 5, 2]),
            ("xexample.com", &[5, 2]),
            ("com", &[2]),
            ("", &[2]),
            (".", &[2]),
            (".com", &[2]),
            ("..com", &[5, 2]),
            ("[::1]", &[2]),
        ] {
            assert_eq!(chain(&hosts, host), expected, "{host}");
            for (number, name) in hosts.1.iter().enumerate() {
                assert_eq!(
                    expected.contains(&(number as u32)),
                    name.covers(host.as_bytes()),
                    "{host} {name:?}"
                );
            }
        }
    }

    #[test]
    fn invalid_hosts_match_only_any_host() {
        let hosts = hosts(&["*.example.com", "any"]);
        let long = |labels: usize| "a.".repeat(labels) + "example.com";
        assert_eq!(chain(&hosts, &long(121)), [0, 1]);
        assert_eq!(chain(&hosts, &long(122)), [1]);
        assert!(!hosts.1[0].covers(long(122).as_bytes()));
        assert_eq!(chain(&hosts, &long(50_000)), [1]);
    }

    #[test]
    fn without_any_there_may_be_none() {
        let hosts = hosts(&["example.com"]);
        assert_eq!(chain(&hosts, "example.org"), []);
        assert_eq!(chain(&hosts, "a.example.com"), []);
    }

    #[test]
    fn spellings() {
        assert_eq!(HostName::parse(Some("Example.COM.")), Ok(HostName::Exact("example.com".into())));
        assert_eq!(HostName::parse(Some("*.Example.com")), Ok(HostName::Below("example.com".into())));
        assert_eq!(HostName::parse(Some("[::1]")), Ok(HostName::Exact("[::1]".into())));
        for bad in
            ["", "*", "*.", "a.*.com", "*.*.com", "a:80", "a..b", ".a", "a b", "a/b", "é", &"a".repeat(254)]
        {
            assert!(HostName::parse(Some(bad)).is_err(), "{bad}");
        }
    }
}
