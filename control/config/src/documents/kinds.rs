//! The kinds of documents: a row each.

use serde_json::{Value, json};

use crate::read::{self, Draft};
use crate::reader::Reader;
use crate::schema;
use crate::tree::Node;

/// A kind of resource.
pub struct Kind {
    /// What it is called in paths: `routes`.
    pub name: &'static str,
    /// The key of the file that has them. It differs from the name where the file has another use for that word.
    pub key: &'static str,
    /// What one is called, for messages: `route`.
    pub noun: &'static str,
    /// The definition in the [schema](crate::schema()) that describes one.
    pub schema: fn() -> Value,
    pub(crate) index: usize,
    /// Whether its name is a key of the document too.
    pub(crate) named_inside: bool,
    /// Reads one as it would be read in the file.
    pub(crate) read: fn(&mut Reader, &str, &Node, &mut Draft),
}

pub(crate) const ROUTES: usize = 0;
pub(crate) const UPSTREAMS: usize = 1;
pub(crate) const CONSUMERS: usize = 2;
pub(crate) const CERTIFICATES: usize = 3;
pub(crate) const POLICIES: usize = 4;
pub(crate) const APISIX: usize = 5;

/// Every kind, in the order in which a transaction's changes may name each other.
pub static KINDS: [Kind; 6] = [
    Kind {
        name: "routes",
        key: "routes",
        noun: "route",
        schema: || json!({ "$ref": "#/components/schemas/route" }),
        index: ROUTES,
        named_inside: true,
        read: |reader, _, node, draft| read::route(reader, node, draft),
    },
    Kind {
        name: "upstreams",
        key: "upstreams",
        noun: "upstream",
        schema: schema::upstream_value,
        index: UPSTREAMS,
        named_inside: false,
        read: read::upstream_document,
    },
    Kind {
        name: "consumers",
        key: "consumers",
        noun: "consumer",
        schema: || json!({ "$ref": "#/components/schemas/consumer" }),
        index: CONSUMERS,
        named_inside: false,
        read: read::consumer_document,
    },
    Kind {
        name: "certificates",
        key: "certificates",
        noun: "certificate",
        schema: || json!({ "$ref": "#/components/schemas/named_certificate" }),
        index: CERTIFICATES,
        named_inside: false,
        read: read::certificate_document,
    },
    Kind {
        name: "policies",
        key: "policy_sets",
        noun: "policy set",
        schema: || json!({ "$ref": "#/components/schemas/policies" }),
        index: POLICIES,
        named_inside: false,
        read: read::policy_set_document,
    },
    // What clients of the APISIX front have written. The gateway does nothing by it: the documents that come of it are of the
    // other kinds. A file may have it and does not read it.
    Kind {
        name: "apisix",
        key: "x-apisix",
        noun: "object of the APISIX front",
        schema: || json!({ "type": "object" }),
        index: APISIX,
        named_inside: false,
        read: |_, _, _, _| {},
    },
];

/// The kind of this name.
#[must_use]
pub fn kind(name: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.name == name)
}

impl Kind {
    /// Whether a file has a list of them, each with its name inside; else they are a mapping of names.
    #[must_use]
    pub fn is_list(&self) -> bool {
        self.named_inside
    }
}

impl std::fmt::Debug for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for Kind {
    fn eq(&self, other: &Self) -> bool {
        self.index == other.index
    }
}
