//! `headers`: fields that requests and responses gain and lose.

use std::sync::Arc;

use crate::{Edit, Planned, Policy, Request, Reserved, Response, Shared, Template, Verdict};

/// What changes in the fields of a message: first some go, then others come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Fields that go.
    pub remove: Vec<String>,
    /// Fields that take the place of those of their name.
    pub set: Vec<(String, Template)>,
    /// Fields that come beside those of their name.
    pub add: Vec<(String, Template)>,
}

impl Change {
    fn is_empty(&self) -> bool {
        self.remove.is_empty() && self.set.is_empty() && self.add.is_empty()
    }

    fn count(&self) -> usize {
        self.remove.len() + self.set.len() + self.add.len()
    }

    /// Whether it is the same for every request.
    fn is_fixed(&self) -> bool {
        self.set.iter().chain(&self.add).all(|(_, value)| value.fixed().is_some())
    }

    /// What it is for a request. What comes out empty does not come, and what it would have taken the place of goes.
    fn filled(&self, request: &Request<'_>) -> Self {
        let mut out = Self { remove: self.remove.clone(), ..Self::default() };
        for (name, value) in &self.set {
            match value.fixed().map_or_else(|| value.fill(request), <[u8]>::to_vec) {
                filled if filled.is_empty() && value.fixed().is_none() => out.remove.push(name.clone()),
                filled => out.set.push((name.clone(), filled.as_slice().into())),
            }
        }
        for (name, value) in &self.add {
            let filled = value.fixed().map_or_else(|| value.fill(request), <[u8]>::to_vec);
            if !filled.is_empty() || value.fixed().is_some() {
                out.add.push((name.clone(), filled.as_slice().into()));
            }
        }
        out.set_each_once();
        out
    }

    /// Leaves out what is set and then set again.
    fn set_each_once(&mut self) {
        for at in (0..self.set.len()).rev() {
            let (name, behind) = (&self.set[at].0, &self.set[at + 1..]);
            if behind.iter().any(|(later, _)| later.eq_ignore_ascii_case(name)) {
                self.set.remove(at);
            }
        }
    }

    /// What goes is gone already, and so is what was there of the names that are set.
    fn of_request(&self, request: &mut Request<'_>) {
        for (name, value) in self.set.iter().chain(&self.add) {
            request.append(name, value.fixed().unwrap_or_default());
        }
    }
}

impl Edit for Change {
    fn edit(&self, response: &mut Response<'_>) {
        self.remove.iter().for_each(|name| response.remove(name));
        self.set.iter().for_each(|(name, value)| response.set(name, value.fixed().unwrap_or_default()));
        self.add.iter().for_each(|(name, value)| response.append(name, value.fixed().unwrap_or_default()));
    }
}

/// Fields that requests gain and lose on their way upstream, and responses on their way back.
#[derive(Clone, Debug, Default)]
pub struct HeaderRules {
    /// Of requests.
    pub request: Change,
    /// Of responses, the gateway's own too.
    pub response: Arc<Change>,
}

impl Planned for HeaderRules {
    fn kind(&self) -> &'static str {
        "headers"
    }

    fn summary(&self) -> String {
        format!("{} of the request, {} of the response", self.request.count(), self.response.count())
    }

    fn live(self: Arc<Self>, _: &str, _: &Arc<Shared>) -> Arc<dyn Policy> {
        let mut request = self.request.clone();
        let (fills_request, fills_response) = (!request.is_fixed(), !self.response.is_fixed());
        if !fills_request {
            request.set_each_once();
        }
        let set = request.set.iter().map(|(name, _)| name);
        let reserved = Reserved::new(request.remove.iter().chain(set).cloned());
        let response = self.response.clone();
        Arc::new(Headers { request, response, reserved, fills_request, fills_response })
    }
}

#[derive(Debug)]
struct Headers {
    request: Change,
    response: Arc<Change>,
    /// What a client cannot send: neither under a name that endpoints may take for one of these, nor behind the body.
    reserved: Reserved,
    /// Whether parts of a request are filled in.
    fills_request: bool,
    fills_response: bool,
}

impl Policy for Headers {
    fn request(&self, request: &mut Request<'_>) -> Verdict {
        let change = &self.request;
        // All of it is filled in before anything changes: a field can be given another name.
        let filled = self.fills_request.then(|| change.filled(request));
        self.passed_over(request);
        // With them goes what is to go, and what would stand beside what is set.
        request.claim(&self.reserved);
        filled.as_ref().unwrap_or(change).of_request(request);
        Verdict::Continue
    }

    /// The response's part.
    fn passed_over(&self, request: &mut Request<'_>) {
        let change = match &self.response {
            response if response.is_empty() => return,
            response if self.fills_response => Arc::new(response.filled(request)),
            response => response.clone(),
        };
        request.context.edit(change);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::Part;
    use crate::testing::Sent;
    use crate::{BodyKind, Context};

    #[test]
    fn what_goes_or_is_set_a_client_cannot_send_in_another_way() {
        let set = vec![("X-Role".to_owned(), Template::from(&b"guest"[..]))];
        let change = Change { remove: vec!["X-Debug".to_owned()], set, ..Change::default() };
        let policy = Arc::new(HeaderRules { request: change, response: Arc::default() });
        let policy = policy.live("k", &Arc::default());
        let fields = "X_Role: admin\r\nx.debug: 1\r\nX-Roles: a\r\nTransfer-Encoding: chunked\r\n";
        let (mut sent, mut context) = (Sent::with("POST / HTTP/1.1", fields), Context::default());
        assert!(matches!(policy.request(&mut sent.request(&mut context)), Verdict::Continue));
        let names: Vec<_> = sent.head.head.fields().iter().map(|field| sent.head.slice(field.name)).collect();
        assert_eq!(names, [&b"Host"[..], b"X-Roles", b"Transfer-Encoding", b"X-Role"]);
        assert!(context.is_reserved(b"x_role") && context.is_reserved(b"X-Debug"), "behind the body");
    }

    #[test]
    fn what_is_set_twice_is_there_once() {
        let set = [("X-A", "1"), ("X-B", "2"), ("x-a", "3")];
        let set = set.map(|(name, value)| (name.to_owned(), Template::from(value.as_bytes()))).to_vec();
        let rules = HeaderRules { request: Change { set, ..Change::default() }, ..HeaderRules::default() };
        let (mut sent, mut context) = (Sent::new("X-A: 0\r\n"), Context::default());
        Arc::new(rules).live("k", &Arc::default()).request(&mut sent.request(&mut context));
        let fields = sent.head.head.fields().iter();
        let lines: Vec<_> =
            fields.map(|field| (sent.head.slice(field.name), sent.head.slice(field.value))).collect();
        assert_eq!(lines[1..], [(&b"X-B"[..], &b"2"[..]), (b"x-a", b"3")]);
    }

    #[test]
    fn a_field_can_be_given_another_name_and_none_begins_a_line() {
        let old = Template::from(vec![Part::Header("x-old".into())]);
        let change = Change {
            remove: vec!["X-Old".to_owned()],
            set: vec![
                ("X-New".to_owned(), old.clone()),
                ("X-Gone".to_owned(), Template::from(vec![Part::Consumer])),
            ],
            add: vec![("X-More".to_owned(), Template::from(vec![Part::Consumer]))],
        };
        let response = Change { set: vec![("X-Back".to_owned(), old)], ..Change::default() };
        let policy = Arc::new(HeaderRules { request: change, response: Arc::new(response) });
        let policy = policy.live("k", &Arc::default());
        let (mut sent, mut context) =
            (Sent::new("X-Old: a b\r\nX-New: c\r\nX-Gone: d\r\n"), Context::default());
        assert!(matches!(policy.request(&mut sent.request(&mut context)), Verdict::Continue));
        let head = &sent.head.head;
        assert_eq!(head.get_by_text(b"x-new"), Some(&b"a b"[..]));
        for gone in ["x-old", "x-gone", "x-more"] {
            assert_eq!(head.get_by_text(gone.as_bytes()), None, "{gone}");
        }
        let mut bytes = b"HTTP/1.1 200 OK\r\n\r\n".to_vec();
        context.respond(&mut bytes, BodyKind::Fixed, false);
        assert_eq!(bytes, b"HTTP/1.1 200 OK\r\nX-Back: a b\r\n\r\n");
    }
}
