//! Settings of the policy `aggregate`.

use std::time::Duration;

use crate::model::Spanned;

/// Combines responses of several upstreams in one JSON document.
#[derive(Clone, Debug, PartialEq)]
pub struct Aggregate {
    /// The responses that the document is made of.
    pub parts: Vec<AggregatePart>,
    /// The document's layout.
    pub shape: Vec<AggregatePiece>,
    /// Maximum bytes of all parts together.
    pub limit: usize,
}

/// A part of the document.
#[derive(Clone, Debug, PartialEq)]
pub struct AggregatePart {
    /// Its name, which the layout refers to.
    pub name: String,
    /// Name of the upstream.
    pub to: Spanned<String>,
    /// A template of the path.
    pub path: Spanned<String>,
    /// A template of the query; empty: none.
    pub query: String,
    /// The `Host` of its request; `None`: the host of the original request.
    pub host: Option<String>,
    /// Maximum time for its response.
    pub timeout: Duration,
    /// Maximum bytes of its response.
    pub limit: usize,
    /// JSON that replaces the part if it fails; `None`: the part is required.
    pub fallback: Option<String>,
}

/// A piece of the document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AggregatePiece {
    /// Literal JSON.
    Text(String),
    /// The part with this index.
    Part(usize),
    /// The list of the parts that failed.
    Failed,
}
