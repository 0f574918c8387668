//! Ties requests to endpoints: computes the hash that an upstream balances by, and reads and sets sticky
//! cookies and headers.

use std::net::{IpAddr, SocketAddr};

use tollgate_http::RequestHead;
use tollgate_plan::{HashBy, Policy};
use tollgate_route::query_parameter;
use tollgate_upstream::{PickHints, Pool, StickyField, Upstream, hash};

use crate::state::request_path::normal_path;
use crate::state::request_state::RequestState;

/// A request, as far as the choice of an endpoint depends on it.
#[derive(Clone, Copy)]
pub(crate) struct RequestAffinity<'a> {
    state: &'a RequestState,
    peer: &'a SocketAddr,
}

impl<'a> RequestAffinity<'a> {
    /// Wraps the request in `state`, which came from `peer`.
    pub fn new(state: &'a RequestState, peer: &'a SocketAddr) -> Self {
        Self { state, peer }
    }

    /// Returns the wishes of the request for an upstream. This costs two reads of the configuration if the
    /// upstream has no affinity.
    #[inline]
    pub fn pick_hints(&self, upstream: &Upstream) -> PickHints<'a> {
        PickHints { hash: self.hash(upstream), sticky: self.sticky(upstream), avoid: &[] }
    }

    /// Returns the hash of the property that the upstream balances by. `None` if the upstream does not
    /// balance by hash, or if the request lacks the property.
    #[inline]
    pub fn hash(&self, upstream: &Upstream) -> Option<u64> {
        match &upstream.balance().policy {
            Policy::Hash(by) => self.hash_by(by),
            _ => None,
        }
    }

    /// Returns the value of the upstream's sticky cookie, or header, in the request.
    #[inline]
    pub fn sticky(&self, upstream: &Upstream) -> Option<&'a [u8]> {
        upstream.sticky_field().and_then(|field| sent(&self.state.request, field))
    }

    fn hash_by(&self, by: &HashBy) -> Option<u64> {
        let RequestState { request, path, record, .. } = self.state;
        // An empty value counts as missing. Otherwise all clients that send an empty value would share one
        // endpoint.
        let some = |value: &[u8]| (!value.is_empty()).then(|| hash(value));
        match by {
            HashBy::Header(name) => request.head.get_by_text(name.as_bytes()).and_then(some),
            HashBy::Cookie(name) => request.head.cookie(name.as_bytes()).and_then(some),
            HashBy::Query(name) => {
                let query = request.query.map(|query| request.slice(query))?;
                query_parameter(query, name.as_bytes(), some).flatten()
            }
            HashBy::ClientAddress => Some(address_hash(record.announced.client(*self.peer).ip())),
            HashBy::Path => Some(hash(normal_path(request, path))),
        }
    }
}

/// Returns the hash of a client's address.
pub(crate) fn address_hash(client: IpAddr) -> u64 {
    match client {
        IpAddr::V4(address) => hash(&address.octets()),
        IpAddr::V6(address) => hash(&address.octets()),
    }
}

fn sent<'a>(request: &'a RequestHead, field: &StickyField) -> Option<&'a [u8]> {
    match field {
        StickyField::Cookie(name) => request.head.cookie(name.as_bytes()),
        StickyField::Header(name) => request.head.get_by_text(name.as_bytes()),
    }
}

/// Writes the line of the response that ties the client to the picked endpoint, if the upstream is sticky and the
/// client has not sent that value: `Set-Cookie`, or the upstream's header. If a request picks several endpoints, the
/// last one counts.
pub(crate) fn keep(state: &mut RequestState, upstream: &Upstream, pool: &Pool) {
    let RequestState { request, set_cookie, .. } = state;
    set_cookie.clear();
    let (Some(field), Some(sticky)) = (upstream.sticky_field(), &upstream.balance().sticky) else { return };
    let Some(value) = upstream.sticky_value(pool) else { return };
    if sent(request, field) == Some(&value) {
        return;
    }
    let mut add = |pieces: &[&[u8]]| pieces.iter().for_each(|piece| set_cookie.extend_from_slice(piece));
    let name = match field {
        StickyField::Cookie(name) => name,
        StickyField::Header(name) => return add(&[name.as_bytes(), b": ", &value, b"\r\n"]),
    };
    // `HttpOnly`: no script of a page needs it.
    add(&[b"Set-Cookie: ", name.as_bytes(), b"=", &value, b"; Path=", sticky.path.as_bytes(), b"; HttpOnly"]);
    if let Some(ttl) = sticky.ttl {
        add(&[b"; Max-Age=", ttl.as_secs().to_string().as_bytes()]);
    }
    if let Some(domain) = &sticky.domain {
        add(&[b"; Domain=", domain.as_bytes()]);
    }
    if let Some(site) = sticky.same_site {
        add(&[b"; SameSite=", site.value().as_bytes()]);
    }
    if sticky.secure {
        add(&[b"; Secure"]);
    }
    add(&[b"\r\n"]);
}

#[cfg(test)]
mod tests {
    use tollgate_http::h1::RequestParser;

    use super::*;

    fn request(lines: &str) -> RequestHead {
        let mut request = RequestHead::default();
        let head = format!("GET /a/b?x=1&user=a%20b&empty= HTTP/1.1\r\nHost: h\r\n{lines}\r\n");
        let limits = tollgate_http::HeadLimits { line: 1024, head: 4096, fields: 16 };
        RequestParser::default().advance(head.as_bytes(), &mut request, &limits).expect("a good head");
        request
    }

    #[test]
    fn cookies() {
        let request = request("Cookie: a=1; session=x; session=y\r\nCookie: b= 2 ;c;d=\r\n");
        let find = |name: &str| request.head.cookie(name.as_bytes()).map(String::from_utf8_lossy);
        for (name, value) in [("a", "1"), ("session", "x"), ("b", " 2"), ("d", "")] {
            assert_eq!(find(name).as_deref(), Some(value), "{name}");
        }
        for name in ["c", "sess", "A", "e", "1", ""] {
            assert_eq!(find(name), None, "{name}");
        }
    }

    #[test]
    fn sources_of_the_hash() {
        let request = request("X-User: u\r\nX-Empty:\r\nCookie: session=s\r\n");
        let state = RequestState { request, ..RequestState::default() };
        let peer = "192.0.2.1:1024".parse().expect("an address");
        let by = |by: HashBy| RequestAffinity { state: &state, peer: &peer }.hash_by(&by);
        assert_eq!(by(HashBy::Header("x-user".to_owned())), Some(hash(b"u")));
        assert_eq!(by(HashBy::Header("x-empty".to_owned())), None);
        assert_eq!(by(HashBy::Header("x-other".to_owned())), None);
        assert_eq!(by(HashBy::Cookie("session".to_owned())), Some(hash(b"s")));
        assert_eq!(by(HashBy::Cookie("other".to_owned())), None);
        assert_eq!(by(HashBy::Query("user".to_owned())), Some(hash(b"a b")));
        assert_eq!(by(HashBy::Query("empty".to_owned())), None);
        assert_eq!(by(HashBy::Query("other".to_owned())), None);
        assert_eq!(by(HashBy::Path), Some(hash(b"/a/b")));
        assert_eq!(by(HashBy::ClientAddress), Some(hash(&[192, 0, 2, 1])));
    }
}
