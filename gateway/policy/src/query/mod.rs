//! `query`: adds, replaces and removes query parameters of requests on their way upstream.
//!
//! Values are percent-encoded, so that none can start another parameter. The route was selected by the
//! original query.

mod config;

use std::sync::Arc;

use crate::percent::encode;
use crate::query_pairs::{QueryPair, without};
use crate::{Planned, Policy, PolicyStates, Request, Verdict};

pub(crate) use config::QueryRules;

impl Planned for QueryRules {
    fn kind(&self) -> &'static str {
        "query"
    }

    fn summary(&self) -> String {
        format!("{} removed, {} set, {} added", self.remove.len(), self.set.len(), self.add.len())
    }

    fn activate(self: Arc<Self>, _: &str, _: &Arc<PolicyStates>) -> Arc<dyn Policy> {
        self
    }
}

impl Policy for QueryRules {
    fn request(&self, request: &mut Request<'_>) -> Verdict {
        let goes = |pair: QueryPair<'_>| {
            let is = |own: &String| pair.is(own.as_bytes());
            let goes = |own: &String| match own.strip_suffix('*') {
                Some(begin) => pair.begins(begin.as_bytes()),
                None => is(own),
            };
            self.remove.iter().any(goes) || self.set.iter().any(|(own, _)| is(own))
        };
        let mut query = without(request.query().unwrap_or_default(), goes);
        for (name, value) in self.set.iter().chain(&self.add) {
            let query = next(&mut query);
            encode(name.as_bytes(), query);
            query.push(b'=');
            match value.fixed() {
                Some(fixed) => encode(fixed, query),
                None => encode(&value.fill(request), query),
            }
        }
        request.head.set_query(Some(query.as_slice()).filter(|query| !query.is_empty()));
        Verdict::Continue
    }
}

/// Appends a separator if the query is not empty.
fn next(query: &mut Vec<u8>) -> &mut Vec<u8> {
    if !query.is_empty() {
        query.push(b'&');
    }
    query
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Context;
    use crate::template::{Template, TemplatePart};
    use crate::testing::Sent;

    fn changed(query: &str, rules: QueryRules) -> String {
        let mut sent = Sent::with(&format!("GET /a{query} HTTP/1.1"), "X-A: 1&b=2#?\r\n");
        let mut context = Context::default();
        assert!(matches!(rules.request(&mut sent.request(&mut context)), Verdict::Continue));
        let head = &sent.head;
        assert_eq!((head.slice(head.path), head.slice(head.host)), (&b"/a"[..], &b"a.example"[..]));
        String::from_utf8_lossy(head.slice(head.target)).into_owned()
    }

    #[test]
    fn parameters_come_and_go() {
        let value = |text: &str| Template::from(text.as_bytes());
        let rules = || QueryRules {
            remove: vec!["x".to_owned(), "a b".to_owned()],
            set: vec![("s".to_owned(), value("1"))],
            add: vec![("t".to_owned(), value("ü="))],
        };
        for (query, becomes) in [
            ("", "/a?s=1&t=%C3%BC%3D"),
            ("?", "/a?s=1&t=%C3%BC%3D"),
            ("?y=1&x=2&%78=3&x&a+b=4&a%20b", "/a?y=1&s=1&t=%C3%BC%3D"),
            ("?s=7&t=8&s", "/a?t=8&s=1&t=%C3%BC%3D"),
        ] {
            assert_eq!(changed(query, rules()), becomes, "{query}");
        }
        let remove = QueryRules { remove: vec!["x".to_owned()], ..QueryRules::default() };
        assert_eq!(changed("?x=1&x=2", remove.clone()), "/a");
        assert_eq!(changed("?a=1;x=2&b", remove.clone()), "/a?a=1&b", "some endpoints part at `;` too");
        assert_eq!(changed("?xx=1&%", remove), "/a?xx=1&%");
        let remove = QueryRules { remove: vec!["utm_*".to_owned()], ..QueryRules::default() };
        assert_eq!(changed("?utm_a=1&b=2&%75tm_=3&utm&xutm_a&utm+a", remove), "/a?b=2&utm&xutm_a&utm+a");
    }

    #[test]
    fn a_value_of_the_clients_cannot_begin_another_parameter() {
        let set = vec![("s".to_owned(), Template::from(vec![TemplatePart::Header("x-a".into())]))];
        assert_eq!(changed("", QueryRules { set, ..QueryRules::default() }), "/a?s=1%26b%3D2%23%3F");
    }
}
