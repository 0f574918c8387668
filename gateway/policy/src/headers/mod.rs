//! `headers`: adds, replaces and removes header fields of requests and responses.
//!
//! The request changes at once, the response when it arrives. The lines of a change are built once per plan
//! if they have no placeholders, and otherwise for each request.

mod config;

use std::sync::Arc;

use tollgate_http::{FieldFinder, FieldLine};

use crate::{
    HeadEdit, Planned, Policy, PolicyStates, Request, Reserved, Response, Template, Verdict, request,
    response,
};

pub(crate) use config::{HeaderChange, HeaderSettings};

impl HeaderChange {
    fn is_empty(&self) -> bool {
        self.remove.is_empty() && self.set.is_empty() && self.add.is_empty()
    }

    fn count(&self) -> usize {
        self.remove.len() + self.set.len() + self.add.len()
    }

    /// Whether the change is the same for every request.
    fn is_fixed(&self) -> bool {
        self.set.iter().chain(&self.add).all(|(_, value)| value.fixed().is_some())
    }

    /// Returns the lines with the placeholders filled in from a request; without a request, only lines
    /// without placeholders. A line that is empty after filling is not added, but the fields that it would
    /// replace are still removed.
    fn lines(&self, request: Option<&Request<'_>>, may_be_changed: fn(&[u8]) -> bool) -> HeaderLines {
        let line = |name: &String, value: &Template| {
            let filled = match value.fixed() {
                Some(fixed) => fixed.to_vec(),
                None => request.map(|request| value.fill(request)).filter(|filled| !filled.is_empty())?,
            };
            FieldLine::new(name.as_bytes(), &filled)
        };
        let may = |name: &&String| may_be_changed(name.as_bytes());
        let set = self.set.iter().filter(|(name, _)| may(&name));
        let (begins, remove): (Vec<_>, Vec<_>) = self.remove.iter().partition(|name| name.ends_with('*'));
        let removed = remove.into_iter().filter(may).chain(set.clone().map(|(name, _)| name));
        let mut lines = HeaderLines {
            removed_prefixes: begins
                .into_iter()
                .map(|name| name.trim_end_matches('*').as_bytes().into())
                .collect(),
            removed: FieldFinder::new(removed.map(String::as_bytes)),
            set: set.filter_map(|(name, value)| line(name, value)).collect(),
            add: Vec::new(),
        };
        let add = self.add.iter().filter(|(name, _)| may(&name));
        lines.add.extend(add.filter_map(|(name, value)| line(name, value)));
        lines.set_each_once();
        lines
    }
}

/// A change with its lines filled in.
#[derive(Clone, Debug, Default)]
struct HeaderLines {
    /// Names to remove, including the names in `set`.
    removed: FieldFinder,
    /// Prefixes of further names to remove from a response.
    removed_prefixes: Box<[Box<[u8]>]>,
    set: Vec<FieldLine>,
    add: Vec<FieldLine>,
}

impl HeaderLines {
    /// Drops lines that a later line of the same name replaces.
    fn set_each_once(&mut self) {
        for at in (0..self.set.len()).rev() {
            let (name, behind) = (self.set[at].name(), &self.set[at + 1..]);
            if behind.iter().any(|later| later.name().eq_ignore_ascii_case(name)) {
                self.set.remove(at);
            }
        }
    }

    /// Appends the lines. The caller has removed the fields that are removed or replaced.
    fn apply_to_request(&self, request: &mut Request<'_>) {
        for line in self.set.iter().chain(&self.add) {
            request.head.append_line(line);
        }
    }
}

impl HeadEdit for HeaderLines {
    fn edit(&self, response: &mut Response<'_>) {
        if !self.removed.is_empty() {
            response.remove_all(&self.removed);
        }
        if !self.removed_prefixes.is_empty() {
            response.remove_prefixed(&self.removed_prefixes);
        }
        self.set.iter().chain(&self.add).for_each(|line| response.push(line));
    }
}

/// Changes to the fields of requests on their way upstream and of responses on their way back.
#[derive(Clone, Debug, Default)]
pub struct HeaderRules {
    /// Changes to requests.
    pub request: HeaderChange,
    /// Changes to responses, including the gateway's own.
    pub response: Arc<HeaderChange>,
}

impl Planned for HeaderRules {
    fn kind(&self) -> &'static str {
        "headers"
    }

    fn summary(&self) -> String {
        format!("{} of the request, {} of the response", self.request.count(), self.response.count())
    }

    fn derived_fields(&self) -> Vec<(&str, &Template)> {
        let written = self.request.set.iter().chain(&self.request.add);
        written
            .map(|(name, value)| (name.as_str(), value))
            .filter(|(_, value)| value.fixed().is_none())
            .collect()
    }

    fn activate(self: Arc<Self>, _: &str, _: &Arc<PolicyStates>) -> Arc<dyn Policy> {
        let set = self.request.set.iter().map(|(name, _)| name);
        let reserved = Reserved::new(self.request.remove.iter().chain(set).cloned());
        let fixed = |change: &HeaderChange, may_be_changed| {
            change.is_fixed().then(|| change.lines(None, may_be_changed))
        };
        let request = fixed(&self.request, request::may_be_changed);
        let response = fixed(&self.response, response::may_be_changed).map(Arc::new);
        Arc::new(Headers { rules: self, reserved, request, response })
    }
}

#[derive(Debug)]
struct Headers {
    rules: Arc<HeaderRules>,
    /// Names that a client cannot send, neither in trailers nor under a name that endpoints may confuse with
    /// them.
    reserved: Reserved,
    /// The lines, if they are the same for every request.
    request: Option<HeaderLines>,
    response: Option<Arc<HeaderLines>>,
}

impl Policy for Headers {
    fn request(&self, request: &mut Request<'_>) -> Verdict {
        // All placeholders are filled in before any change, because a field may be renamed.
        let filled = match &self.request {
            Some(_) => None,
            None => Some(self.rules.request.lines(Some(request), request::may_be_changed)),
        };
        self.skipped(request);
        // This removes the fields of `remove`, and the fields that `set` replaces.
        request.reserve(&self.reserved);
        if let Some(lines) = filled.as_ref().or(self.request.as_ref()) {
            lines.apply_to_request(request);
        }
        Verdict::Continue
    }

    /// Registers the change of the response.
    fn skipped(&self, request: &mut Request<'_>) {
        let change = &self.rules.response;
        if !change.is_empty() {
            let filled = || Arc::new(change.lines(Some(request), response::may_be_changed));
            let lines = self.response.clone().unwrap_or_else(filled);
            request.context.edit(lines);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::TemplatePart;
    use crate::testing::Sent;
    use crate::{BodyKind, Context};

    #[test]
    fn removed_and_set_names_cover_look_alikes() {
        let set = vec![("X-Role".to_owned(), Template::from(&b"guest"[..]))];
        let change = HeaderChange { remove: vec!["X-Debug".to_owned()], set, ..HeaderChange::default() };
        let policy = Arc::new(HeaderRules { request: change, response: Arc::default() });
        let policy = policy.activate("k", &Arc::default());
        let fields = "X_Role: admin\r\nx.debug: 1\r\nX-Roles: a\r\nTransfer-Encoding: chunked\r\n";
        let (mut sent, mut context) = (Sent::with("POST / HTTP/1.1", fields), Context::default());
        assert!(matches!(policy.request(&mut sent.request(&mut context)), Verdict::Continue));
        let names: Vec<_> = sent.head.head.fields().iter().map(|field| sent.head.slice(field.name)).collect();
        assert_eq!(names, [&b"Host"[..], b"X-Roles", b"Transfer-Encoding", b"X-Role"]);
        assert!(context.is_reserved(b"x_role") && context.is_reserved(b"X-Debug"), "behind the body");
    }

    #[test]
    fn fields_go_by_how_their_names_begin() {
        let change = |set: &str| HeaderChange {
            remove: vec!["X-*".to_owned(), "Con*".to_owned(), "Server".to_owned()],
            set: vec![(set.to_owned(), Template::from(&b"1"[..]))],
            ..HeaderChange::default()
        };
        let rules = HeaderRules { request: change("X-B"), response: Arc::new(change("X-C")) };
        let policy = Arc::new(rules).activate("k", &Arc::default());
        let fields =
            "X-A: 1\r\nx_a: 2\r\nX-Forwarded-For: a\r\nContent-Length: 0\r\nContent-Type: b\r\nY: x-\r\n";
        let (mut sent, mut context) = (Sent::new(fields), Context::default());
        assert!(matches!(policy.request(&mut sent.request(&mut context)), Verdict::Continue));
        let names: Vec<_> = sent.head.head.fields().iter().map(|field| sent.head.slice(field.name)).collect();
        assert_eq!(names, [&b"Host"[..], b"X-Forwarded-For", b"Content-Length", b"Y", b"X-B"]);
        let mut bytes =
            b"HTTP/1.1 200 X-OK\r\nX-A: 1\r\nx-b: 2\r\nDate: x-\r\nSERVER: s\r\nContent-Length: 0\r\n\
            Connection: close\r\nX-: 3\r\nContent-Type: t\r\n\r\n"
                .to_vec();
        context.respond(&mut bytes, BodyKind::Fixed, false);
        let expected =
            "HTTP/1.1 200 X-OK\r\nDate: x-\r\nContent-Length: 0\r\nConnection: close\r\nX-C: 1\r\n\r\n";
        assert_eq!(String::from_utf8_lossy(&bytes), expected);
    }

    #[test]
    fn a_field_that_is_set_twice_occurs_once() {
        let set = [("X-A", "1"), ("X-B", "2"), ("x-a", "3")];
        let set = set.map(|(name, value)| (name.to_owned(), Template::from(value.as_bytes()))).to_vec();
        let rules = HeaderRules {
            request: HeaderChange { set, ..HeaderChange::default() },
            ..HeaderRules::default()
        };
        let (mut sent, mut context) = (Sent::new("X-A: 0\r\n"), Context::default());
        Arc::new(rules).activate("k", &Arc::default()).request(&mut sent.request(&mut context));
        let fields = sent.head.head.fields().iter();
        let lines: Vec<_> =
            fields.map(|field| (sent.head.slice(field.name), sent.head.slice(field.value))).collect();
        assert_eq!(lines[1..], [(&b"X-B"[..], &b"2"[..]), (b"x-a", b"3")]);
    }

    #[test]
    fn a_field_can_be_given_another_name_and_none_begins_a_line() {
        let old = Template::from(vec![TemplatePart::Header("x-old".into())]);
        let change = HeaderChange {
            remove: vec!["X-Old".to_owned()],
            set: vec![
                ("X-New".to_owned(), old.clone()),
                ("X-Gone".to_owned(), Template::from(vec![TemplatePart::Consumer])),
            ],
            add: vec![("X-More".to_owned(), Template::from(vec![TemplatePart::Consumer]))],
        };
        let response = HeaderChange { set: vec![("X-Back".to_owned(), old)], ..HeaderChange::default() };
        let policy = Arc::new(HeaderRules { request: change, response: Arc::new(response) });
        let policy = policy.activate("k", &Arc::default());
        let (mut sent, mut context) =
            (Sent::new("X-Old: a b\r\nX-New: c\r\nX-Gone: d\r\n"), Context::default());
        assert!(matches!(policy.request(&mut sent.request(&mut context)), Verdict::Continue));
        let head = &sent.head.head;
        assert_eq!(head.get_by_text(b"x-new"), Some(&b"a b"[..]));
        for removed in ["x-old", "x-gone", "x-more"] {
            assert_eq!(head.get_by_text(removed.as_bytes()), None, "{removed}");
        }
        let mut bytes = b"HTTP/1.1 200 OK\r\n\r\n".to_vec();
        context.respond(&mut bytes, BodyKind::Fixed, false);
        assert_eq!(bytes, b"HTTP/1.1 200 OK\r\nX-Back: a b\r\n\r\n");
    }
}
