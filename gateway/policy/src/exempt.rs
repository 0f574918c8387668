//! Requests that a limit does not count. `rate_limit`, `quota` and `concurrency` check them before they
//! charge anything.

use aws_lc_rs::constant_time::verify_slices_are_equal;

use crate::{Block, Request};

/// Requests that a limit does not count. A request is exempt if any of these conditions holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exempt {
    /// The client's address is in one of these blocks.
    pub addresses: Vec<Block>,
    /// The consumer is one of these.
    pub consumers: Vec<String>,
    /// The consumer is a member of one of these groups.
    pub groups: Vec<String>,
    /// The method is one of these.
    pub methods: Vec<String>,
    /// A field, by its name in lower case, has this value.
    pub headers: Vec<(String, String)>,
}

impl Exempt {
    /// Whether a request is exempt.
    pub(crate) fn has(&self, request: &Request<'_>) -> bool {
        let Self { addresses, consumers, groups, methods, headers } = self;
        // Skips the conversion of the address if no block is configured.
        if !addresses.is_empty() {
            let client = request.origin.client.to_canonical();
            if addresses.iter().any(|block| block.contains(client)) {
                return true;
            }
        }
        if let Some(consumer) =
            request.context.consumer.as_deref().filter(|consumer| !consumer.name.is_empty())
            && (consumers.contains(&consumer.name)
                || groups.iter().any(|group| consumer.groups.contains(group)))
        {
            return true;
        }
        methods.iter().any(|method| method.as_bytes() == request.method())
            || headers.iter().any(|(name, value)| {
                // Compares in constant time: the value may be a secret that a health probe sends.
                request
                    .header(name)
                    .is_some_and(|sent| verify_slices_are_equal(sent, value.as_bytes()).is_ok())
            })
    }

    /// Returns the part of a summary that mentions exemptions; empty if there are none.
    pub(crate) fn summary(&self) -> &'static str {
        if *self == Self::default() { "" } else { ", some exempt" }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::testing::Sent;
    use crate::{Consumer, Context};

    #[test]
    fn any_of_it_is_enough() {
        let exempt = Exempt {
            addresses: vec![Block { address: "10.0.0.0".parse().expect("an address"), prefix: 8 }],
            consumers: vec!["ann".to_owned()],
            groups: vec!["staff".to_owned()],
            methods: vec!["OPTIONS".to_owned()],
            headers: vec![("x-probe".to_owned(), "s3cret".to_owned())],
        };
        let has = |line: &str, fields: &str, address: &str, consumer: Option<(&str, &str)>| {
            let (mut sent, mut context) = (Sent::with(line, fields), Context::default());
            sent.origin.client = address.parse().expect("an address");
            context.consumer = consumer.map(|(name, group)| {
                Arc::new(Consumer {
                    name: name.to_owned(),
                    groups: vec![group.to_owned()],
                    ..Consumer::default()
                })
            });
            exempt.has(&sent.request(&mut context))
        };
        let get = "GET / HTTP/1.1";
        assert!(!has(get, "X-Probe: s3cre\r\n", "192.0.2.1", Some(("bob", "guests"))));
        assert!(!has(get, "", "192.0.2.1", None));
        assert!(has(get, "", "10.1.2.3", None) && has(get, "", "::ffff:10.1.2.3", None));
        assert!(
            has(get, "", "192.0.2.1", Some(("ann", ""))) && has(get, "", "192.0.2.1", Some(("bob", "staff")))
        );
        assert!(has("OPTIONS / HTTP/1.1", "", "192.0.2.1", None));
        assert!(has(get, "X-Probe: s3cret\r\n", "192.0.2.1", None));
        let nobody = Exempt::default();
        let (mut sent, mut context) = (Sent::new(""), Context::default());
        assert!(!nobody.has(&sent.request(&mut context)));
    }
}
