//! The key under which a response is stored.
//!
//! A key is `scheme://host/path?query`, a separator, the name of the route, and then the listed fields and cookies with
//! their values. The route keeps requests apart that have the same URL and differ in a header. The
//! URL comes first, so that a purge of a URL or of a prefix of URLs compares the beginnings of keys.

use tollgate_http::Head;

use crate::query_pairs::{QueryPair, QueryPairs};

/// Ends the URL and each part after it. No URL contains it: the parser refuses control characters.
pub const KEY_SEPARATOR: u8 = 0x1f;

/// The parts of a request that its key consists of.
pub(crate) struct Keyed<'a> {
    pub secure: bool,
    pub authority: &'a [u8],
    pub path: &'a [u8],
    pub query: Option<&'a [u8]>,
    pub head: &'a Head,
    /// The name of its route.
    pub route: &'a str,
}

/// The parts of a key.
#[derive(Clone, Debug)]
pub(crate) struct KeyRules {
    pub query: QueryRule,
    /// Whether the parameters are sorted.
    pub sorts: bool,
    /// Names of fields, in lower case.
    pub headers: Box<[Box<str>]>,
    /// Names of cookies.
    pub cookies: Box<[Box<str>]>,
    /// Whether the host counts.
    pub host: bool,
}

/// The parameters that count.
#[derive(Clone, Debug)]
pub(crate) enum QueryRule {
    All,
    Only(Box<[Box<[u8]>]>),
    /// All but these; a `*` at the end stands for any rest.
    Without(Box<[Box<[u8]>]>),
}

impl QueryRule {
    /// Returns whether all parameters count.
    pub fn is_all(&self) -> bool {
        matches!(self, Self::All)
    }

    /// Returns whether a parameter with this name counts.
    pub fn counts_parameter(&self, name: &[u8]) -> bool {
        let is = |listed: &[u8]| match listed.strip_suffix(b"*") {
            Some(begin) => name.starts_with(begin),
            None => name == listed,
        };
        match self {
            Self::All => true,
            Self::Only(names) => names.iter().any(|own| **own == *name),
            Self::Without(names) => !names.iter().any(|own| is(own)),
        }
    }
}

impl KeyRules {
    /// Appends the key of a request.
    pub fn write(&self, out: &mut Vec<u8>, request: &Keyed<'_>) {
        self.write_base(out, request);
        out.extend_from_slice(request.path);
        self.write_query(out, request.query);
        self.write_place(out, request.head, request.route);
    }

    /// Returns whether one URL can have several keys on one route.
    pub fn has_values(&self) -> bool {
        !(self.headers.is_empty() && self.cookies.is_empty())
    }

    /// Returns the key that a request with this key has on another route, whose rules these are.
    pub fn on_route(
        &self,
        key: &[u8],
        (path, query): (&[u8], Option<&[u8]>),
        head: &Head,
        route: &str,
    ) -> Vec<u8> {
        let mut out = base(key).to_vec();
        out.extend_from_slice(path);
        self.write_query(&mut out, query);
        self.write_place(&mut out, head, route);
        out
    }

    /// Appends what follows the URL: the route, and the listed fields and cookies.
    fn write_place(&self, out: &mut Vec<u8>, head: &Head, route: &str) {
        out.push(KEY_SEPARATOR);
        out.extend_from_slice(route.as_bytes());
        for name in &self.headers {
            out.push(KEY_SEPARATOR);
            for value in head.all_by_text(name.as_bytes()) {
                write_value(out, value);
            }
        }
        for name in &self.cookies {
            out.push(KEY_SEPARATOR);
            // All of them: endpoints disagree about which of two cookies with one name counts.
            for value in head.cookies(name.as_bytes()) {
                write_value(out, value);
            }
        }
    }

    /// Returns the key with its path and query replaced.
    pub fn with_target(&self, key: &[u8], path: &[u8], query: Option<&[u8]>) -> Vec<u8> {
        let mut out = base(key).to_vec();
        out.extend_from_slice(path);
        self.write_query(&mut out, query);
        out.extend_from_slice(&key[end_of_url(key)..]);
        out
    }

    /// Appends scheme and authority: `https://example.com`.
    fn write_base(&self, out: &mut Vec<u8>, request: &Keyed<'_>) {
        let (scheme, port): (&[u8], &[u8]) =
            if request.secure { (b"https://", b":443") } else { (b"http://", b":80") };
        out.extend_from_slice(scheme);
        if self.host {
            let authority = request.authority;
            let authority = authority.strip_suffix(port).unwrap_or(authority);
            out.extend(authority.iter().map(u8::to_ascii_lowercase));
        }
    }

    fn write_query(&self, out: &mut Vec<u8>, query: Option<&[u8]>) {
        let Some(query) = query else { return };
        // Servers disagree about whether `;` separates parameters, so a choice between them would be another one than
        // the endpoint's: such a query counts whole.
        if matches!(self.query, QueryRule::All) && !self.sorts || query.contains(&b';') {
            out.push(b'?');
            out.extend_from_slice(query);
            return;
        }
        let mut pairs: Vec<QueryPair<'_>> = QueryPairs::of(query).filter(|pair| self.counts(*pair)).collect();
        if self.sorts {
            // Stable: the order of parameters with the same name may matter.
            pairs.sort_by_key(|pair| pair.name());
        }
        for (number, pair) in pairs.iter().enumerate() {
            out.push(if number == 0 { b'?' } else { b'&' });
            out.extend_from_slice(pair.as_written());
        }
    }

    fn counts(&self, pair: QueryPair<'_>) -> bool {
        let is = |name: &[u8]| match name.strip_suffix(b"*") {
            Some(begin) => pair.begins(begin),
            None => pair.is(name),
        };
        match &self.query {
            QueryRule::All => true,
            QueryRule::Only(names) => names.iter().any(|name| pair.is(name)),
            QueryRule::Without(names) => !names.iter().any(|name| is(name)),
        }
    }
}

/// Returns the URL of a key.
pub(super) fn url_of(key: &[u8]) -> &[u8] {
    &key[..end_of_url(key)]
}

/// Where the URL of a key ends.
fn end_of_url(key: &[u8]) -> usize {
    key.iter().position(|byte| *byte == KEY_SEPARATOR).unwrap_or(key.len())
}

/// The scheme and the authority of a key: `https://example.com`.
fn base(key: &[u8]) -> &[u8] {
    let end = end_of_url(key);
    let authority = key.windows(3).position(|three| three == b"://").map_or(0, |at| at + 3);
    let own = key[authority..end].iter().position(|byte| matches!(byte, b'/' | b'?'));
    &key[..own.map_or(end, |at| authority + at)]
}

/// Appends a value and its length, so that two values never look like one.
fn write_value(out: &mut Vec<u8>, value: &[u8]) {
    out.extend_from_slice(value.len().to_string().as_bytes());
    out.push(b':');
    out.extend_from_slice(value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Sent;

    fn rules() -> KeyRules {
        KeyRules {
            query: QueryRule::All,
            sorts: false,
            headers: Box::default(),
            cookies: Box::default(),
            host: true,
        }
    }

    fn key(rules: &KeyRules, host: &str, target: &str, fields: &str) -> String {
        let sent = Sent::at(host, &format!("GET {target} HTTP/1.1"), fields);
        let (head, mut out) = (&sent.head, Vec::new());
        let keyed = Keyed {
            secure: false,
            authority: head.slice(head.authority),
            path: head.slice(head.path),
            query: head.query.map(|query| head.slice(query)),
            head: &head.head,
            route: "r",
        };
        rules.write(&mut out, &keyed);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn a_url_is_one_key_however_its_host_is_written() {
        let plain = key(&rules(), "a.example", "/x?b=1&a=2", "");
        assert_eq!(plain, "http://a.example/x?b=1&a=2\u{1f}r");
        assert_eq!(key(&rules(), "A.example:80", "/x?b=1&a=2", ""), plain);
        assert_ne!(key(&rules(), "a.example:81", "/x?b=1&a=2", ""), plain);
        let any = KeyRules { host: false, ..rules() };
        assert_eq!(key(&any, "a.example", "/x", ""), key(&any, "b.example", "/x", ""));
    }

    #[test]
    fn parameters_that_count() {
        let names = |names: &[&str]| names.iter().map(|name| name.as_bytes().into()).collect();
        let sorted = KeyRules { sorts: true, ..rules() };
        let begin = |rules: &KeyRules, target: &str| {
            key(rules, "h", target, "").split('\u{1f}').next().map(str::to_owned).unwrap_or_default()
        };
        assert_eq!(begin(&sorted, "/?b=1&a=2&b=0"), "http://h/?a=2&b=1&b=0");
        let only = KeyRules { query: QueryRule::Only(names(&["page"])), ..rules() };
        assert_eq!(begin(&only, "/?x=1&page=2&p%61ge=3"), "http://h/?page=2&p%61ge=3");
        assert_eq!(begin(&only, "/?x=1"), "http://h/");
        let without = KeyRules { query: QueryRule::Without(names(&["utm_*", "x"])), ..rules() };
        assert_eq!(begin(&without, "/?utm_source=1&a=b&x=2&xy=3"), "http://h/?a=b&xy=3");
        let none = KeyRules { query: QueryRule::Only(Box::default()), ..rules() };
        assert_eq!(begin(&none, "/?a"), "http://h/");
        let hidden = "/?utm_source=1;a=b&x=2";
        assert_eq!(begin(&without, hidden), format!("http://h{hidden}"), "endpoints read it in two ways");
    }

    #[test]
    fn a_target_replaces_path_and_query() {
        let key = |url: &str| [url.as_bytes(), &[KEY_SEPARATOR], b"route/r"].concat();
        let without = QueryRule::Without([Box::from(b"x".as_slice())].into());
        let rules = KeyRules { query: without, ..rules() };
        for (url, path, query, expected) in [
            ("http://a/x?y", "/z", None, "http://a/z"),
            ("https://a:8443/", "/z", Some("q&x=1"), "https://a:8443/z?q"),
            ("http:///x", "/z", None, "http:///z"),
        ] {
            let made = rules.with_target(&key(url), path.as_bytes(), query.map(str::as_bytes));
            assert_eq!(made, key(expected), "{url}");
        }
    }

    #[test]
    fn values_of_fields_never_run_together() {
        let rules = KeyRules {
            headers: ["x-a".into(), "x-b".into()].into(),
            cookies: ["c".into()].into(),
            ..rules()
        };
        let keys = [
            key(&rules, "h", "/", "X-A: 1\r\nX-B: 2\r\n"),
            key(&rules, "h", "/", "X-A: 1\r\nX-A: 2\r\n"),
            key(&rules, "h", "/", "X-A: 1,2\r\n"),
            key(&rules, "h", "/", "X-B: 12\r\n"),
            key(&rules, "h", "/", "X-A: \r\n"),
            key(&rules, "h", "/", ""),
            key(&rules, "h", "/", "Cookie: c=1; d=2\r\n"),
            key(&rules, "h", "/", "Cookie: c=1; c=2\r\n"),
            key(&rules, "h", "/", "Cookie: d=1; c=2\r\n"),
        ];
        for (number, one) in keys.iter().enumerate() {
            assert!(!keys[..number].contains(one), "{one:?} occurs twice");
        }
    }
}
