//! References to upstreams. They can be checked only after all files have been read.

use super::Reader;
use crate::position::{At, Spanned};
use crate::tree::{Node, NodeKind, Scalar};

/// A reference to an upstream by name, in a `to` or a policy.
#[derive(Clone, Debug)]
pub(crate) struct UpstreamReference {
    pub name: String,
    /// The original text, if it contained an environment variable: messages must then not show `name`.
    pub written: Option<String>,
    pub at: At,
    /// Whether an endpoint is valid in its place too.
    pub may_be_endpoint: bool,
}

impl Reader {
    /// Notes that a value, which may also be an endpoint, refers to an upstream.
    pub(crate) fn refer_to_upstream(&mut self, name: &str, node: &Node) {
        let written = node.scalar().and_then(|scalar| scalar.written.clone());
        let name = name.to_owned();
        self.references.push(UpstreamReference { name, written, at: node.at, may_be_endpoint: true });
    }

    /// Notes that a policy refers to an upstream. `policy` is the value of the policy's key.
    pub(crate) fn refer_by_policy(&mut self, name: &Spanned<String>, policy: &Node) {
        let written = written_at(policy, name.at).and_then(|scalar| scalar.written.clone());
        let Spanned { value, at } = name.clone();
        self.references.push(UpstreamReference { name: value, written, at, may_be_endpoint: false });
    }
}

/// Returns the single value at a position.
fn written_at(node: &Node, at: At) -> Option<&Scalar> {
    match &node.kind {
        NodeKind::Invalid => None,
        NodeKind::Scalar(scalar) => (node.at == at).then_some(scalar),
        NodeKind::List(items) => items.iter().find_map(|item| written_at(item, at)),
        NodeKind::Map(entries) => entries.iter().find_map(|entry| written_at(&entry.value, at)),
    }
}
