//! What policies know of one request, over its whole time.

use std::any::Any;
use std::fmt::{self, Debug};
use std::sync::Arc;
use std::time::Instant;

use tollgate_observe::Reason;

use crate::response::then;
use crate::{BodyKind, Reserved, Response, Shadow, Transform};

/// Somebody who was told apart from everybody else by an authentication policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Consumer {
    /// The name, as in the configuration or as an issuer of tokens says it.
    pub name: String,
    /// The groups that it is in.
    pub groups: Vec<String>,
    /// What else was said of it, by whom it is trusted: the claims of a token.
    pub claims: Vec<(String, String)>,
}

impl Consumer {
    /// Whom a service names, with its groups as a list with commas; one without a name is nobody.
    pub(crate) fn told(name: Option<String>, groups: Option<String>) -> Option<Arc<Self>> {
        let name = name.filter(|name| !name.is_empty())?;
        let groups = groups.unwrap_or_default();
        let groups = groups.split(',').map(str::trim).filter(|group| !group.is_empty());
        Some(Arc::new(Self { name, groups: groups.map(str::to_owned).collect(), claims: Vec::new() }))
    }

    /// Whether a claim has one of these values. The words of `scope` are values of it (RFC 8693, 4.2).
    pub(crate) fn says(&self, claim: &str, values: &[String]) -> bool {
        let words = matches!(claim, "scope" | "scp");
        self.claims.iter().filter(|(name, _)| name == claim).any(|(_, value)| {
            values.contains(value)
                || words && value.split(' ').any(|word| values.iter().any(|own| own == word))
        })
    }
}

type OnResponse = Box<dyn FnOnce(&mut Response<'_>)>;
type OnEnd = Box<dyn FnOnce(&Ended)>;

/// What is the same for the heads of all responses.
pub trait Edit: Send + Sync {
    /// Does it with one of them.
    fn edit(&self, response: &mut Response<'_>);
}

/// What is done with a response.
enum Act {
    /// With its head and its body.
    Whole(OnResponse),
    /// With its head.
    Head(OnResponse),
    /// The same with all heads.
    Edit(Arc<dyn Edit>),
}

/// What policies know of one request, and what they want to be done later.
#[derive(Default)]
pub struct Context {
    /// Who sent it; `None`: nobody has asked, or it is not known.
    pub consumer: Option<Arc<Consumer>>,
    /// The trace that it belongs to, and its span in it, if it is in one.
    pub span: Option<(u128, u64)>,
    /// The upstream that it is to go to, by name, of those that its route names; `None`: by their weights.
    pub upstream: Option<Arc<str>>,
    /// Fields that are not the client's to send: not in its trailers either.
    reserved: Vec<Reserved>,
    /// Something about the request that the log is to tell (`detail`) though it goes on; never a secret.
    pub note: Option<&'static str>,
    /// What is done with the response, the last policy's first.
    acts: Vec<Act>,
    /// What is done when the exchange has ended.
    ends: Vec<OnEnd>,
    /// Copies that are to be sent elsewhere.
    shadows: Vec<Shadow>,
    /// What makes another body of its body.
    transform: Option<Box<dyn Transform>>,
    /// What is kept until the exchange has ended, whatever way it ends.
    held: Vec<Box<dyn Any>>,
}

/// What a context had at some time, so that what came later can be taken back.
#[derive(Debug)]
pub(crate) struct Mark {
    consumer: Option<Arc<Consumer>>,
    upstream: Option<Arc<str>>,
    note: Option<&'static str>,
    acts: usize,
    ends: usize,
    shadows: usize,
    held: usize,
}

/// How an exchange has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The status that the client got; 0: none.
    pub status: u16,
    /// Why the gateway answered itself, or broke it off.
    pub reason: Reason,
    /// Bytes of the response's body.
    pub bytes_out: u64,
    /// When that was.
    pub now: Instant,
}

impl Context {
    /// Has this done with the final response before it goes to the client, whoever answers: an endpoint, or the gateway. Who
    /// comes first sees it last. It may have another body made of the response's; who leaves that alone calls
    /// [`on_head`](Self::on_head) or [`edit`](Self::edit): then nobody has to stand between the exchange and the client.
    pub fn on_response(&mut self, act: impl FnOnce(&mut Response<'_>) + 'static) {
        self.acts.push(Act::Whole(Box::new(act)));
    }

    /// The same for who wants nothing but the head: the body is [fixed](BodyKind::Fixed) for it.
    pub fn on_head(&mut self, act: impl FnOnce(&mut Response<'_>) + 'static) {
        self.acts.push(Act::Head(Box::new(act)));
    }

    /// The same for who does with this head what it does with all: nothing is made for this request.
    pub fn edit(&mut self, edit: Arc<dyn Edit>) {
        self.acts.push(Act::Edit(edit));
    }

    /// What it has now.
    pub(crate) fn mark(&self) -> Mark {
        let Self { consumer, upstream, note, acts, ends, shadows, held, .. } = self;
        Mark {
            consumer: consumer.clone(),
            upstream: upstream.clone(),
            note: *note,
            acts: acts.len(),
            ends: ends.len(),
            shadows: shadows.len(),
            held: held.len(),
        }
    }

    /// Takes back what came since. Names that were reserved stay so.
    pub(crate) fn undo(&mut self, mark: Mark) {
        let Mark { consumer, upstream, note, acts, ends, shadows, held } = mark;
        (self.consumer, self.upstream, self.note) = (consumer, upstream, note);
        self.acts.truncate(acts);
        self.ends.truncate(ends);
        self.shadows.truncate(shadows);
        self.held.truncate(held);
    }

    /// Keeps fields of these names out of what the client sends behind its body.
    pub fn reserve(&mut self, names: &Reserved) {
        self.reserved.push(names.clone());
    }

    /// Whether any names were reserved.
    #[must_use]
    pub fn reserves(&self) -> bool {
        !self.reserved.is_empty()
    }

    /// Whether a field of this name is not the client's to send.
    #[must_use]
    pub fn is_reserved(&self, name: &[u8]) -> bool {
        self.reserved.iter().any(|names| names.has(name))
    }

    /// Has this done when the exchange has ended in an orderly way, well or not. What must be done whatever happens goes into
    /// the `Drop` of something that is [held](Self::hold).
    pub fn on_end(&mut self, act: impl FnOnce(&Ended) + 'static) {
        self.ends.push(Box::new(act));
    }

    /// Whether nobody has to stand between the request and who sends it: its body stays what it is, so does the response's,
    /// and no copy is made of either.
    #[must_use]
    pub fn leaves_bodies(&self) -> bool {
        self.shadows.is_empty()
            && self.transform.is_none()
            && !self.acts.iter().any(|act| matches!(act, Act::Whole(_)))
    }

    /// Whether anything is to be done with the response.
    #[must_use]
    pub fn responds(&self) -> bool {
        !self.acts.is_empty()
    }

    /// The exchange has ended.
    pub fn end(&mut self, ended: &Ended) {
        if !self.ends.is_empty() {
            self.ends.drain(..).for_each(|act| act(ended));
        }
    }

    /// Keeps this until the exchange has ended: a permit that is given back when it is dropped.
    pub fn hold(&mut self, guard: impl Any) {
        self.held.push(Box::new(guard));
    }

    /// Has a copy of the request sent elsewhere, as it is when it has met all of its policies.
    pub fn shadow(&mut self, shadow: Shadow) {
        self.shadows.push(shadow);
    }

    /// Has the request's body become another one on its way upstream. Of several, who calls this last gets it as the client
    /// sends it: `decompression` comes behind all that may want it decoded. Whoever calls this changes `Content-Encoding` and
    /// the like; the length is seen to.
    pub fn transform(&mut self, transform: Box<dyn Transform>) {
        self.transform = Some(match self.transform.take() {
            Some(second) => then(transform, second),
            None => transform,
        });
    }

    /// What is to make another body of its body.
    pub fn take_transform(&mut self) -> Option<Box<dyn Transform>> {
        self.transform.take()
    }

    /// The copies that are to be sent.
    pub fn take_shadows(&mut self) -> Vec<Shadow> {
        std::mem::take(&mut self.shadows)
    }

    /// Does with a response what is to be done, and says what makes another body of its body. `chunked`: chunks are what such a
    /// body comes in.
    pub fn respond(
        &mut self,
        head: &mut Vec<u8>,
        body: BodyKind,
        chunked: bool,
    ) -> Option<Box<dyn Transform>> {
        let mut response = Response::new(head, body);
        while let Some(act) = self.acts.pop() {
            response.body = match (&act, body) {
                (Act::Whole(_), body) => body,
                (_, BodyKind::Absent) => BodyKind::Absent,
                _ => BodyKind::Fixed,
            };
            match act {
                Act::Whole(act) | Act::Head(act) => act(&mut response),
                Act::Edit(edit) => edit.edit(&mut response),
            }
        }
        response.into_transform(chunked)
    }

    /// Makes it that of a request of which nothing is known, and keeps its memory. What was held is let go.
    pub fn clear(&mut self) {
        let Self { consumer, span, upstream, reserved, note, acts, ends, shadows, transform, held } = self;
        (*consumer, *span, *upstream, *note, *transform) = (None, None, None, None, None);
        reserved.clear();
        acts.clear();
        ends.clear();
        shadows.clear();
        held.clear();
    }
}

impl Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("consumer", &self.consumer)
            .field("upstream", &self.upstream)
            .field("acts", &self.acts.len())
            .field("held", &self.held.len())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ends a body with a letter.
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
    fn who_transforms_a_body_last_gets_it_as_it_was_sent() {
        let mut context = Context::default();
        context.transform(Box::new(Ends(b'2')));
        context.transform(Box::new(Ends(b'1')));
        let (mut both, mut out) = (context.take_transform().expect("both"), Vec::new());
        assert_eq!((both.push(b"a", &mut out), both.finish(&mut out)), (Ok(()), Ok(())));
        assert_eq!(out, b"a12");
    }

    #[test]
    fn who_wants_the_head_alone_gets_no_other_body() {
        let mut context = Context::default();
        context.on_response(|response| response.transform(Box::new(Ends(b'1'))));
        assert!(!context.leaves_bodies());
        context.on_head(|response| response.transform(Box::new(Ends(b'2'))));
        let mut head = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n".to_vec();
        let (transform, mut out) = (context.respond(&mut head, BodyKind::Free, true), Vec::new());
        assert_eq!(head, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        assert_eq!(transform.expect("one").finish(&mut out), Ok(()));
        assert_eq!(out, b"1");
        assert!(context.leaves_bodies() && !context.responds());
    }

    #[test]
    fn nothing_of_a_request_is_there_for_the_next() {
        struct Nothing;
        impl Edit for Nothing {
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
        context.clear();
        assert_eq!(std::rc::Rc::strong_count(&held), 1, "it is let go");
        let Context { consumer, span, upstream, note, .. } = &context;
        assert!(consumer.is_none() && span.is_none() && upstream.is_none() && note.is_none());
        assert!(context.leaves_bodies() && !context.responds() && !context.reserves());
        assert!(!context.is_reserved(b"X-Role") && context.ends.is_empty());
    }
}
