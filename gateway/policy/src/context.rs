//! The per-request state of policies: what they found out, and what they registered for later.
//!
//! The proxy owns a [`Context`] per exchange and reuses its memory for the next one. It runs the registered
//! actions on the final response and at the end of the exchange, the last registered action on a response
//! first.

use std::any::Any;
use std::fmt::{self, Debug};
use std::sync::Arc;
use std::time::Instant;

use tollgate_http::ContentCoding;
use tollgate_observe::Reason;

use crate::bandwidth::limits::Bandwidth;
use crate::cache::active::CacheUse;
use crate::response::{StoredBody, then};
use crate::{BodyKind, RequestCopy, Reserved, Response, Transform};

/// A client that an authentication policy has identified.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Consumer {
    /// The name from the configuration, or as the token issuer states it.
    pub name: String,
    /// The groups of which the consumer is a member.
    pub groups: Vec<String>,
    /// Further statements of a trusted issuer: the claims of a token.
    pub claims: Vec<(String, String)>,
}

impl Consumer {
    /// Returns the consumer that an external service names, with its groups from a comma-separated list.
    /// Returns `None` if the name is missing or empty.
    pub(crate) fn from_service(name: Option<String>, groups: Option<String>) -> Option<Arc<Self>> {
        let name = name.filter(|name| !name.is_empty())?;
        let groups = groups.unwrap_or_default();
        let groups = groups.split(',').map(str::trim).filter(|group| !group.is_empty());
        Some(Arc::new(Self { name, groups: groups.map(str::to_owned).collect(), claims: Vec::new() }))
    }

    /// Whether a claim has one of these values. Each word of `scope` or `scp` counts as a value (RFC 8693,
    /// 4.2).
    pub(crate) fn has_claim(&self, claim: &str, values: &[String]) -> bool {
        let words = matches!(claim, "scope" | "scp");
        self.claims.iter().filter(|(name, _)| name == claim).any(|(_, value)| {
            values.contains(value)
                || words && value.split(' ').any(|word| values.iter().any(|own| own == word))
        })
    }
}

type OnResponse = Box<dyn FnOnce(&mut Response<'_>)>;
type OnEnd = Box<dyn FnOnce(&ExchangeOutcome)>;

/// A change that is the same for the heads of all responses.
pub trait HeadEdit: Send + Sync {
    /// Applies the change to a response.
    fn edit(&self, response: &mut Response<'_>);
}

/// Encodes the bodies of responses in one coding, in the same way for every request.
pub(crate) trait Encode: Send + Sync {
    /// The coding.
    fn coding(&self) -> ContentCoding;

    /// Encodes a response, if it may be encoded.
    fn encode(&self, response: &mut Response<'_>);
}

/// A registered action on the response.
enum ResponseAction {
    /// May change the head and the body.
    Whole(OnResponse),
    /// Encodes the body, in the same way for every request.
    Encode(Arc<dyn Encode>),
    /// Changes the head only.
    Head(OnResponse),
    /// Changes the head, in the same way for every request.
    HeadEdit(Arc<dyn HeadEdit>),
}

/// The per-request state of policies, and the actions that they registered for later.
#[derive(Default)]
pub struct Context {
    /// The consumer that sent the request; `None`: not authenticated, or unknown.
    pub consumer: Option<Arc<Consumer>>,
    /// The trace id and the id of this request's span, if the request is traced.
    pub span: Option<(u128, u64)>,
    /// The upstream to use, by name, among the upstreams of the route; `None`: chosen by weight.
    pub upstream: Option<Arc<str>>,
    /// Whether a service admitted the client by credentials that the gateway does not know, such as a cookie.
    pub is_personal: bool,
    /// The permitted use of the cache for the request; `None`: there is no cache.
    pub cache: Option<CacheUse>,
    /// The key of the request in the cache.
    pub cache_key: Vec<u8>,
    /// Names that the client may not send, not even in trailers.
    reserved: Vec<Reserved>,
    /// A note on a request that continues, for the `detail` of the log; never a secret.
    pub note: Option<&'static str>,
    /// Actions on the response; the last one registered runs first.
    response_actions: Vec<ResponseAction>,
    /// Actions at the end of the exchange.
    end_actions: Vec<OnEnd>,
    /// Copies to send to other upstreams.
    copies: Vec<RequestCopy>,
    /// The transform of the request's body.
    transform: Option<Box<dyn Transform>>,
    /// The largest rates of the bodies.
    bandwidth: Bandwidth,
    /// Guards that are dropped when the exchange ends, however it ends.
    held: Vec<Box<dyn Any>>,
}

/// A snapshot of a context, to undo later changes.
#[derive(Debug)]
pub(crate) struct ContextSnapshot {
    consumer: Option<Arc<Consumer>>,
    upstream: Option<Arc<str>>,
    note: Option<&'static str>,
    response_actions: usize,
    end_actions: usize,
    copies: usize,
    held: usize,
}

/// The outcome of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangeOutcome {
    /// The status that the client received; 0 if none.
    pub status: u16,
    /// The reason for which the gateway answered itself or aborted the exchange.
    pub reason: Reason,
    /// The bytes of the response body.
    pub bytes_out: u64,
    /// The end of the exchange.
    pub now: Instant,
}

impl Context {
    /// Registers an action on the final response before it goes to the client, whether an endpoint or the
    /// gateway answers. The last action registered runs first. The action may transform the body. An action
    /// that leaves the body alone uses [`on_head`](Self::on_head) or [`edit`](Self::edit), which let the
    /// exchange relay the body directly.
    pub fn on_response(&mut self, act: impl FnOnce(&mut Response<'_>) + 'static) {
        self.response_actions.push(ResponseAction::Whole(Box::new(act)));
    }

    /// Like [`on_response`](Self::on_response), for an action that needs only the head: it sees a
    /// [fixed](BodyKind::Fixed) body.
    pub fn on_head(&mut self, act: impl FnOnce(&mut Response<'_>) + 'static) {
        self.response_actions.push(ResponseAction::Head(Box::new(act)));
    }

    /// Like [`on_head`](Self::on_head), for a change that is the same for all requests; this allocates
    /// nothing per request.
    pub fn edit(&mut self, edit: Arc<dyn HeadEdit>) {
        self.response_actions.push(ResponseAction::HeadEdit(edit));
    }

    /// Like [`on_response`](Self::on_response), for an encoding that is the same for all requests; this allocates nothing per
    /// request. If the body is stored in this coding already, no body needs to be changed.
    pub(crate) fn encode(&mut self, encode: Arc<dyn Encode>) {
        self.response_actions.push(ResponseAction::Encode(encode));
    }

    /// Takes a snapshot for [`undo`](Self::undo).
    pub(crate) fn mark(&self) -> ContextSnapshot {
        let Self { consumer, upstream, note, response_actions, end_actions, copies, held, .. } = self;
        ContextSnapshot {
            consumer: consumer.clone(),
            upstream: upstream.clone(),
            note: *note,
            response_actions: response_actions.len(),
            end_actions: end_actions.len(),
            copies: copies.len(),
            held: held.len(),
        }
    }

    /// Undoes the changes since the snapshot. Reserved names stay reserved.
    pub(crate) fn undo(&mut self, mark: ContextSnapshot) {
        let ContextSnapshot { consumer, upstream, note, response_actions, end_actions, copies, held } = mark;
        (self.consumer, self.upstream, self.note) = (consumer, upstream, note);
        self.response_actions.truncate(response_actions);
        self.end_actions.truncate(end_actions);
        self.copies.truncate(copies);
        self.held.truncate(held);
    }

    /// Drops fields of these names from the client's trailers.
    pub fn reserve(&mut self, names: &Reserved) {
        self.reserved.push(names.clone());
    }

    /// Whether any names are reserved.
    #[must_use]
    pub fn reserves(&self) -> bool {
        !self.reserved.is_empty()
    }

    /// Whether the client may not send a field of this name.
    #[must_use]
    pub fn is_reserved(&self, name: &[u8]) -> bool {
        self.reserved.iter().any(|names| names.has(name))
    }

    /// Registers an action for an orderly end of the exchange, successful or not. Cleanup that must happen in
    /// all cases belongs in the `Drop` of a guard that is [held](Self::hold).
    pub fn on_end(&mut self, act: impl FnOnce(&ExchangeOutcome) + 'static) {
        self.end_actions.push(Box::new(act));
    }

    /// Whether the exchange may relay both bodies directly: no policy transforms or copies the request's
    /// body, none may transform the response's, and none delays either.
    #[must_use]
    pub fn leaves_bodies(&self) -> bool {
        self.copies.is_empty()
            && self.transform.is_none()
            && !self.bandwidth.is_limited()
            && !self
                .response_actions
                .iter()
                .any(|act| matches!(act, ResponseAction::Whole(_) | ResponseAction::Encode(_)))
    }

    /// Returns the coding that the response's body gets, if nothing else may change a body. `None` also if bodies stay as
    /// they are.
    #[must_use]
    pub fn only_coding(&self) -> Option<ContentCoding> {
        if !self.copies.is_empty() || self.transform.is_some() || self.bandwidth.is_limited() {
            return None;
        }
        let mut only = None;
        for act in &self.response_actions {
            match act {
                ResponseAction::Encode(encode) if only.is_none() => only = Some(encode.coding()),
                ResponseAction::Whole(_) | ResponseAction::Encode(_) => return None,
                ResponseAction::Head(_) | ResponseAction::HeadEdit(_) => {}
            }
        }
        only
    }

    /// Whether any action on the response is registered.
    #[must_use]
    pub fn responds(&self) -> bool {
        !self.response_actions.is_empty()
    }

    /// Runs the actions that were registered with [`on_end`](Self::on_end).
    pub fn end(&mut self, ended: &ExchangeOutcome) {
        if !self.end_actions.is_empty() {
            self.end_actions.drain(..).for_each(|act| act(ended));
        }
    }

    /// Keeps a guard until the exchange ends, such as a permit that its `Drop` returns.
    pub fn hold(&mut self, guard: impl Any) {
        self.held.push(Box::new(guard));
    }

    /// Registers a copy of the request, which is sent as the request is after all of its policies.
    pub fn add_copy(&mut self, shadow: RequestCopy) {
        self.copies.push(shadow);
    }

    /// Transforms the request's body on its way upstream. The last of several callers receives the body as
    /// the client sent it: `decompression` comes after all policies that may want decoded data. The caller
    /// changes `Content-Encoding` and related fields; the gateway adjusts the length.
    pub fn transform(&mut self, transform: Box<dyn Transform>) {
        self.transform = Some(match self.transform.take() {
            Some(second) => then(transform, second),
            None => transform,
        });
    }

    /// Limits the rates of the bodies. Of several limits of one body, the lowest applies.
    pub fn limit_bandwidth(&mut self, limits: Bandwidth) {
        self.bandwidth = self.take_bandwidth().and(limits);
    }

    /// Takes the limits of the bodies' rates.
    pub fn take_bandwidth(&mut self) -> Bandwidth {
        std::mem::take(&mut self.bandwidth)
    }

    /// Takes the transform of the request's body.
    pub fn take_transform(&mut self) -> Option<Box<dyn Transform>> {
        self.transform.take()
    }

    /// Takes the registered copies.
    pub fn take_copies(&mut self) -> Vec<RequestCopy> {
        std::mem::take(&mut self.copies)
    }

    /// Runs the actions on a response and returns the transform of its body. `chunked`: a transformed body is
    /// sent with chunked transfer coding.
    pub fn respond(
        &mut self,
        head: &mut Vec<u8>,
        body: BodyKind,
        chunked: bool,
    ) -> Option<Box<dyn Transform>> {
        self.respond_stored(head, body, chunked, None).0
    }

    /// The same for a response from a store. Also returns the coding of the form of the stored body that is sent in place of
    /// the plain one.
    pub fn respond_stored(
        &mut self,
        head: &mut Vec<u8>,
        body: BodyKind,
        chunked: bool,
        stored: Option<StoredBody<'_>>,
    ) -> (Option<Box<dyn Transform>>, Option<ContentCoding>) {
        let mut response = Response::new(head, body).of_stored(stored);
        while let Some(act) = self.response_actions.pop() {
            response.body = match (&act, body) {
                (ResponseAction::Whole(_) | ResponseAction::Encode(_), body) => body,
                (_, BodyKind::Absent) => BodyKind::Absent,
                _ => BodyKind::Fixed,
            };
            match act {
                ResponseAction::Whole(act) | ResponseAction::Head(act) => act(&mut response),
                ResponseAction::Encode(encode) => encode.encode(&mut response),
                ResponseAction::HeadEdit(edit) => edit.edit(&mut response),
            }
        }
        let form = response.form();
        (response.into_transform(chunked), form)
    }

    /// Resets the context for a new request and keeps its allocations. Held guards are dropped.
    pub fn clear(&mut self) {
        let Self {
            consumer,
            span,
            upstream,
            is_personal,
            cache,
            cache_key,
            reserved,
            note,
            response_actions,
            end_actions,
            copies,
            transform,
            bandwidth,
            held,
        } = self;
        (*consumer, *span, *upstream, *note, *transform) = (None, None, None, None, None);
        (*is_personal, *cache, *bandwidth) = (false, None, Bandwidth::default());
        cache_key.clear();
        reserved.clear();
        response_actions.clear();
        end_actions.clear();
        copies.clear();
        held.clear();
    }
}

impl Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("consumer", &self.consumer)
            .field("upstream", &self.upstream)
            .field("acts", &self.response_actions.len())
            .field("held", &self.held.len())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use super::*;
    use crate::{BodyLimit, TransferRate};

    /// Appends one byte at the end of a body.
    struct Ends(u8);

    impl Transform for Ends {
        fn push(&mut self, data: &[u8], out: &mut Vec<u8>) -> Result<(), Reason> {
            out.extend_from_slice(data);
            Ok(())
        }

        fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Reason> {
            out.push(self.0);
            Ok(())
        }
    }

    #[test]
    fn the_last_transform_gets_the_body_as_sent() {
        let mut context = Context::default();
        context.transform(Box::new(Ends(b'2')));
        context.transform(Box::new(Ends(b'1')));
        let (mut both, mut out) = (context.take_transform().expect("both"), Vec::new());
        assert_eq!((both.push(b"a", &mut out), both.finish(&mut out)), (Ok(()), Ok(())));
        assert_eq!(out, b"a12");
    }

    #[test]
    fn a_policy_of_the_head_gets_no_body() {
        let mut context = Context::default();
        context.on_response(|response| response.transform(Box::new(Ends(b'1'))));
        assert!(!context.leaves_bodies());
        context.on_head(|response| response.transform(Box::new(Ends(b'2'))));
        let mut head = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n".to_vec();
        let (transform, mut out) = (context.respond(&mut head, BodyKind::Transformable, true), Vec::new());
        assert_eq!(head, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        assert_eq!(transform.expect("one").finish(&mut out), Ok(()));
        assert_eq!(out, b"1");
        assert!(context.leaves_bodies() && !context.responds());
    }

    #[test]
    fn a_reused_context_keeps_nothing() {
        struct Nothing;
        impl HeadEdit for Nothing {
            fn edit(&self, _: &mut Response<'_>) {}
        }
        let held = std::rc::Rc::new(());
        let mut context = Context {
            consumer: Some(Arc::default()),
            span: Some((1, 2)),
            upstream: Some("next".into()),
            note: Some("note"),
            ..Context::default()
        };
        context.reserve(&Reserved::new(["X-Role"]));
        context.on_head(|_| ());
        context.edit(Arc::new(Nothing));
        context.on_end(|_| ());
        context.hold(held.clone());
        context.transform(Box::new(Ends(b'1')));
        let rate = TransferRate { bytes_per_second: NonZeroU64::MIN, free_bytes: 0 };
        let limit = BodyLimit { rate, share: None };
        context.limit_bandwidth(Bandwidth { response: Some(limit), request: None });
        context.clear();
        assert_eq!(std::rc::Rc::strong_count(&held), 1, "it is let go");
        let Context { consumer, span, upstream, note, .. } = &context;
        assert!(consumer.is_none() && span.is_none() && upstream.is_none() && note.is_none());
        assert!(context.leaves_bodies() && !context.responds() && !context.reserves());
        assert!(!context.is_reserved(b"X-Role") && context.end_actions.is_empty());
    }
}
