//! Request fields that name the consumer to the upstream, and the rules that keep clients from writing them.
//!
//! Authentication policies write the fields through [`Identity`]. [`Reserved`] also covers names that
//! endpoints may confuse with the reserved ones.

use std::sync::Arc;

use tollgate_http::Name;

use crate::{Consumer, Request, request};

/// Names of fields that clients may not send.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reserved(Arc<[String]>);

impl Reserved {
    /// Reserves these names. A name that ends in `*` covers every name with this prefix, except for fields that no
    /// policy may remove: framing and hop-by-hop fields, `Host`, and the fields that identify loops and clients.
    pub fn new<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Self {
        Self(names.into_iter().map(Into::into).collect())
    }

    /// Returns the set without these names.
    pub(crate) fn without(&self, names: &[&str]) -> Self {
        let other = |own: &&String| !names.iter().any(|name| name.eq_ignore_ascii_case(own));
        Self::new(self.0.iter().filter(other).cloned())
    }

    /// Whether a name is in the set, or [looks like](looks_like) a name of it.
    #[must_use]
    pub fn has(&self, name: &[u8]) -> bool {
        self.0.iter().any(|own| match own.strip_suffix('*') {
            None => looks_like(own.as_bytes(), name),
            Some(begin) => {
                name.get(..begin.len()).is_some_and(|start| looks_like(begin.as_bytes(), start))
                    && !is_spared_by_prefix(name)
            }
        })
    }
}

/// Whether a prefix does not cover this name: only codecs write the field, it identifies the client, or it
/// detects loops.
fn is_spared_by_prefix(name: &[u8]) -> bool {
    let names_client = matches!(
        Name::of(name),
        Name::Forwarded | Name::XForwardedFor | Name::XForwardedProto | Name::XForwardedHost
    );
    names_client || !request::may_be_changed(name) || name.eq_ignore_ascii_case(b"cdn-loop")
}

/// Whether a field's name equals this one, or differs only in case and punctuation. Endpoints that do not
/// distinguish `-` from other punctuation (CGI, WSGI, Rack) would confuse the two.
#[must_use]
pub fn looks_like(own: &[u8], name: &[u8]) -> bool {
    own.len() == name.len()
        && own.iter().zip(name).all(|(own, byte)| {
            own.eq_ignore_ascii_case(byte) || !own.is_ascii_alphanumeric() && !byte.is_ascii_alphanumeric()
        })
}

/// The fields that name the consumer to the upstream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The field for the consumer's name.
    consumer: Option<String>,
    /// The field for the groups, separated by commas.
    groups: Option<String>,
    reserved: Reserved,
}

impl Identity {
    /// Creates it from the field names; `None`: the field is not sent.
    #[must_use]
    pub fn new(consumer: Option<String>, groups: Option<String>) -> Self {
        let reserved = Reserved::new(consumer.iter().chain(&groups).cloned());
        Self { consumer, groups, reserved }
    }

    /// Removes these fields from the client's request.
    pub fn remove(&self, request: &mut Request<'_>) {
        request.reserve(&self.reserved);
    }

    /// Removes these fields from the client's request, and writes them again if the consumer is already
    /// known.
    pub fn rewrite(&self, request: &mut Request<'_>) {
        self.remove(request);
        if let Some(consumer) = request.context.consumer.clone() {
            self.set_consumer(request, &consumer);
        }
    }

    /// Sets the consumer of the request, for the upstream and for later policies. The client's own fields
    /// must be removed first. A consumer with an empty name is ignored, because all of them would share one
    /// identity.
    pub fn set_consumer(&self, request: &mut Request<'_>, consumer: &Arc<Consumer>) {
        if consumer.name.is_empty() {
            return;
        }
        if let Some(name) = &self.consumer {
            request.append(name, consumer.name.as_bytes());
        }
        if let Some(name) = self.groups.as_ref().filter(|_| !consumer.groups.is_empty()) {
            request.append(name, consumer.groups.join(",").as_bytes());
        }
        request.context.consumer = Some(consumer.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_needs_a_name() {
        let identity = Identity::new(Some("X-Who".to_owned()), Some("X-Groups".to_owned()));
        let (mut sent, mut context) = (crate::testing::Sent::new(""), crate::Context::default());
        let consumer = Consumer { groups: vec!["admin".to_owned()], ..Consumer::default() };
        identity.set_consumer(&mut sent.request(&mut context), &Arc::new(consumer));
        assert!(context.consumer.is_none());
        assert_eq!(sent.head.head.fields().len(), 1, "the host alone");
    }

    #[test]
    fn look_alike_names_are_reserved() {
        let names = Reserved::new(["X-Consumer-Name"]);
        for name in ["X-Consumer-Name", "x-consumer-name", "X_Consumer_Name", "x.consumer~NAME"] {
            assert!(names.has(name.as_bytes()), "{name}");
        }
        let begins = Reserved::new(["X-*", "Con*"]);
        for name in ["X-A", "x-", "x_debug", "Content-Type", "X-Forwarded-Prefix"] {
            assert!(begins.has(name.as_bytes()), "{name}");
        }
        for name in ["X", "Y-A", "Content-Length", "connection", "x-forwarded-for"] {
            assert!(!begins.has(name.as_bytes()), "{name}");
        }
        for name in ["X-Consumer-Nam", "X-Consumer-Names", "XaConsumer-Name", ""] {
            assert!(!names.has(name.as_bytes()), "{name}");
        }
    }
}
