//! `cookies`: changes the cookies that responses set (RFC 6265, 4.1).
//!
//! The change is the same for all responses, so it allocates nothing for a request.

mod config;

use std::sync::Arc;

use crate::{HeadEdit, Planned, Policy, PolicyStates, Request, Response, Verdict};

pub(crate) use config::CookieSettings;

/// Changes to the cookies that responses set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CookieRules {
    /// The cookies to change, by name; empty: all.
    pub names: Vec<String>,
    /// Cookies that are removed.
    pub remove: Vec<String>,
    /// Flags, and whether each cookie gets or loses them.
    pub flags: Vec<(&'static str, bool)>,
    /// Attributes with the value that each cookie gets; `None`: the attribute is removed.
    pub attributes: Vec<(&'static str, Option<String>)>,
}

impl Planned for CookieRules {
    fn kind(&self) -> &'static str {
        "cookies"
    }

    fn summary(&self) -> String {
        let flags = self.flags.iter().map(|(name, on)| format!("{name} {}", if *on { "on" } else { "off" }));
        let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "off".to_owned());
        let attributes = self.attributes.iter().map(|(name, own)| format!("{name} {}", value(own)));
        flags.chain(attributes).collect::<Vec<_>>().join(", ")
    }

    fn activate(self: Arc<Self>, _: &str, _: &Arc<PolicyStates>) -> Arc<dyn Policy> {
        Arc::new(Cookies(self))
    }
}

#[derive(Debug)]
struct Cookies(Arc<CookieRules>);

impl Policy for Cookies {
    fn request(&self, request: &mut Request<'_>) -> Verdict {
        self.skipped(request);
        Verdict::Continue
    }

    fn skipped(&self, request: &mut Request<'_>) {
        request.context.edit(self.0.clone());
    }
}

impl HeadEdit for CookieRules {
    fn edit(&self, response: &mut Response<'_>) {
        let cookies: Vec<Vec<u8>> = response.all("set-cookie").map(<[u8]>::to_vec).collect();
        if cookies.is_empty() {
            return;
        }
        response.remove("set-cookie");
        for cookie in cookies.iter().filter_map(|cookie| self.changed(cookie)) {
            response.append("Set-Cookie", &cookie);
        }
    }
}

impl CookieRules {
    /// Returns the changed cookie; `None`: it is removed.
    fn changed(&self, cookie: &[u8]) -> Option<Vec<u8>> {
        let mut parts = cookie.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        let pair = parts.next().unwrap_or_default();
        let name = pair.split(|byte| *byte == b'=').next().unwrap_or_default().trim_ascii();
        let is = |own: &String| own.as_bytes() == name;
        if self.remove.iter().any(is) {
            return None;
        }
        if !self.names.is_empty() && !self.names.iter().any(is) {
            return Some(cookie.to_vec());
        }
        let spoken_of = |part: &[u8]| {
            let name = part.split(|byte| *byte == b'=').next().unwrap_or_default().trim_ascii();
            let named = |own: &str| name.eq_ignore_ascii_case(own.as_bytes());
            self.flags.iter().any(|(own, _)| named(own)) || self.attributes.iter().any(|(own, _)| named(own))
        };
        let mut out = pair.to_vec();
        let mut add = |pieces: &[&[u8]]| {
            out.extend_from_slice(b"; ");
            pieces.iter().for_each(|piece| out.extend_from_slice(piece));
        };
        parts.filter(|part| !part.is_empty() && !spoken_of(part)).for_each(|part| add(&[part]));
        for (name, value) in &self.attributes {
            if let Some(value) = value {
                add(&[name.as_bytes(), b"=", value.as_bytes()]);
            }
        }
        self.flags.iter().filter(|(_, on)| *on).for_each(|(name, _)| add(&[name.as_bytes()]));
        Some(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BodyKind;

    #[test]
    fn attributes_come_and_go() {
        let rules = CookieRules {
            names: Vec::new(),
            remove: vec!["track".to_owned()],
            flags: vec![("Secure", true), ("HttpOnly", false)],
            attributes: vec![("SameSite", Some("Lax".to_owned())), ("Domain", None)],
        };
        for (cookie, becomes) in [
            ("a=b", Some("a=b; SameSite=Lax; Secure")),
            (
                "a=\"x=y\"; Path=/p;secure; HTTPONLY; samesite=None;domain=.example",
                Some("a=\"x=y\"; Path=/p; SameSite=Lax; Secure"),
            ),
            ("track=1; Path=/", None),
            ("tracker=1", Some("tracker=1; SameSite=Lax; Secure")),
        ] {
            let changed = rules.changed(cookie.as_bytes());
            assert_eq!(changed.as_deref().map(String::from_utf8_lossy).as_deref(), becomes, "{cookie}");
        }
        let only = CookieRules { names: vec!["a".to_owned()], ..rules };
        assert_eq!(only.changed(b"b=1; HttpOnly").as_deref(), Some(&b"b=1; HttpOnly"[..]));
    }

    #[test]
    fn every_line_is_changed_and_no_other_field() {
        let rules = CookieRules { flags: vec![("Secure", true)], ..CookieRules::default() };
        let mut head = b"HTTP/1.1 200 OK\r\nSet-Cookie: a=1\r\nX: y\r\nset-cookie: b=2\r\n\r\n".to_vec();
        rules.edit(&mut Response::new(&mut head, BodyKind::Fixed));
        assert_eq!(
            head,
            b"HTTP/1.1 200 OK\r\nX: y\r\nSet-Cookie: a=1; Secure\r\nSet-Cookie: b=2; Secure\r\n\r\n"
        );
    }
}
