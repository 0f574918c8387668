//! References to upstreams. They can be checked only after all files have been read.

use super::Reader;
use crate::position::At;
use crate::tree::Node;

/// A reference to an upstream by name, in a `to`.
#[derive(Clone, Debug)]
pub(crate) struct UpstreamReference {
    pub name: String,
    /// The original text, if it contained an environment variable: messages must then not show `name`.
    pub written: Option<String>,
    pub at: At,
}

impl Reader {
    /// Notes that a value refers to an upstream.
    pub(crate) fn refer_to_upstream(&mut self, name: &str, node: &Node) {
        let written = node.scalar().and_then(|scalar| scalar.written.clone());
        self.references.push(UpstreamReference { name: name.to_owned(), written, at: node.at });
    }
}
