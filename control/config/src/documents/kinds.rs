//! The kinds of documents, one row each.

use serde_json::{Value, json};

use crate::read::{self, Draft, upstreams};
use crate::reader::Reader;
use crate::schema;
use crate::sections::{certificates, consumers, listener_document};
use crate::tree::Node;

/// A kind of resource.
pub struct ResourceKind {
    /// Its name in paths: `routes`.
    pub name: &'static str,
    /// Its key in the configuration file. It differs from the name if the file uses that word for something
    /// else.
    pub key: &'static str,
    /// The singular, for messages: `route`.
    pub noun: &'static str,
    /// Returns the schema of one resource, usually a reference into the [schema](crate::schema()).
    pub schema: fn() -> Value,
    pub(crate) index: usize,
    /// Whether the document also contains its name as a key.
    pub(crate) named_inside: bool,
    /// Reads one resource, as in the file.
    pub(crate) read: fn(&mut Reader, &str, &Node, &mut Draft),
}

pub(crate) const ROUTES: usize = 0;
pub(crate) const UPSTREAMS: usize = 1;
pub(crate) const CONSUMERS: usize = 2;
pub(crate) const CERTIFICATES: usize = 3;
pub(crate) const POLICIES: usize = 4;
pub(crate) const APISIX: usize = 5;
pub(crate) const LISTENERS: usize = 6;
pub(crate) const STREAMS: usize = 7;

/// Every kind, in the order of the `index` constants above.
pub static KINDS: [ResourceKind; 8] = [
    ResourceKind {
        name: "routes",
        key: "routes",
        noun: "route",
        schema: || json!({ "$ref": "#/components/schemas/route" }),
        index: ROUTES,
        named_inside: true,
        read: |reader, _, node, draft| read::route(reader, node, draft),
    },
    ResourceKind {
        name: "upstreams",
        key: "upstreams",
        noun: "upstream",
        schema: schema::upstream_value,
        index: UPSTREAMS,
        named_inside: false,
        read: upstreams::document,
    },
    ResourceKind {
        name: "consumers",
        key: "consumers",
        noun: "consumer",
        schema: || json!({ "$ref": "#/components/schemas/consumer" }),
        index: CONSUMERS,
        named_inside: false,
        read: |reader, name, node, draft| {
            let consumer = consumers::consumer(reader, name, node.at, node);
            reader.problems.extend(consumers::weak_passwords(consumer.as_slice()));
            draft.config.consumers.extend(consumer);
        },
    },
    ResourceKind {
        name: "certificates",
        key: "certificates",
        noun: "certificate",
        schema: || json!({ "$ref": "#/components/schemas/named_certificate" }),
        index: CERTIFICATES,
        named_inside: false,
        read: |reader, name, node, draft| {
            draft.config.certificates.extend(certificates::certificate(reader, name, node.at, node));
        },
    },
    ResourceKind {
        name: "policies",
        key: "policy_sets",
        noun: "policy set",
        schema: || json!({ "$ref": "#/components/schemas/policies" }),
        index: POLICIES,
        named_inside: false,
        read: read::policy_set_document,
    },
    // Objects as clients of the APISIX front wrote them. The gateway only stores them; it acts on the
    // documents of other kinds that are derived from them. A file may contain this key, but it is not read.
    ResourceKind {
        name: "apisix",
        key: "x-apisix",
        noun: "object of the APISIX front",
        schema: || json!({ "type": "object" }),
        index: APISIX,
        named_inside: false,
        read: |_, _, _, _| {},
    },
    // An entry of `listen` without a name is a setting of the file, not a resource.
    ResourceKind {
        name: "listeners",
        key: "listen",
        noun: "listener",
        schema: || json!({ "$ref": "#/components/schemas/listener" }),
        index: LISTENERS,
        named_inside: true,
        read: |reader, _, node, draft| {
            draft.config.listen.extend(listener_document(reader, node));
            draft.references.append(&mut reader.references);
        },
    },
    ResourceKind {
        name: "streams",
        key: "streams",
        noun: "stream",
        schema: || json!({ "$ref": "#/components/schemas/stream" }),
        index: STREAMS,
        named_inside: true,
        read: |reader, _, node, draft| read::stream(reader, node, draft),
    },
];

/// Returns the kind with this name.
#[must_use]
pub fn kind(name: &str) -> Option<&'static ResourceKind> {
    KINDS.iter().find(|kind| kind.name == name)
}

impl ResourceKind {
    /// Returns whether the file has a list of them, each with its name inside; otherwise it has a mapping by
    /// name.
    #[must_use]
    pub fn is_list(&self) -> bool {
        self.named_inside
    }
}

impl std::fmt::Debug for ResourceKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for ResourceKind {
    fn eq(&self, other: &Self) -> bool {
        self.index == other.index
    }
}
