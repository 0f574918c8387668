//! `headers`: fields that requests and responses gain and lose.

use std::sync::Arc;

use crate::{Planned, Policy, Request, Reserved, Response, Shared, Template, Verdict};

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
        out
    }

    fn of_request(&self, request: &mut Request<'_>) {
        self.remove.iter().for_each(|name| request.remove(name));
        self.set.iter().for_each(|(name, value)| request.set(name, value.fixed().unwrap_or_default()));
        self.add.iter().for_each(|(name, value)| request.append(name, value.fixed().unwrap_or_default()));
    }

    fn of_response(&self, response: &mut Response<'_>) {
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
        let (fills_request, fills_response) = (!self.request.is_fixed(), !self.response.is_fixed());
        let set = self.request.set.iter().map(|(name, _)| name);
        let reserved = Reserved::new(self.request.remove.iter().chain(set).cloned());
        Arc::new(Headers { rules: self, reserved, fills_request, fills_response })
    }
}

#[derive(Debug)]
struct Headers {
    rules: Arc<HeaderRules>,
    /// What a client cannot send: neither under a name that endpoints may take for one of these, nor behind the body.
    reserved: Reserved,
    /// Whether parts of a request are filled in.
    fills_request: bool,
    fills_response: bool,
}

impl Policy for Headers {
    fn request(&self, request: &mut Request<'_>) -> Verdict {
        let change = &self.rules.request;
        // All of it is filled in before anything changes: a field can be given another name.
        let filled = self.fills_request.then(|| change.filled(request));
        self.passed_over(request);
        request.claim(&self.reserved);
        filled.as_ref().unwrap_or(change).of_request(request);
        Verdict::Continue
    }

    /// The response's part.
    fn passed_over(&self, request: &mut Request<'_>) {
        let change = match &self.rules.response {
            response if response.is_empty() => return,
            response if self.fills_response => Arc::new(response.filled(request)),
            response => response.clone(),
        };
        request.context.on_response(move |response| change.of_response(response));
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
        context.respond(&mut Response::new(&mut bytes, BodyKind::Fixed));
        assert_eq!(bytes, b"HTTP/1.1 200 OK\r\nX-Back: a b\r\n\r\n");
    }
}
