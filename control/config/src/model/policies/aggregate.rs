//! `aggregate`.

use std::time::Duration;

use crate::model::Spanned;

/// One JSON document of what several upstreams say.
#[derive(Clone, Debug, PartialEq)]
pub struct Aggregate {
    /// What it is made of.
    pub parts: Vec<AggregatePart>,
    /// How it looks.
    pub shape: Vec<AggregatePiece>,
    /// Bytes of all parts together.
    pub limit: usize,
}

/// A part of the document.
#[derive(Clone, Debug, PartialEq)]
pub struct AggregatePart {
    /// Its name.
    pub name: String,
    /// The upstream's name.
    pub to: Spanned<String>,
    /// A template of the path.
    pub path: Spanned<String>,
    /// A template of the query; empty: none.
    pub query: String,
    /// The host that it is asked with.
    pub host: Option<String>,
    /// How long it may take.
    pub timeout: Duration,
    /// Its bytes.
    pub limit: usize,
    /// The JSON that stands in its place when it fails; `None`: it is required.
    pub fallback: Option<String>,
}

/// A piece of the document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AggregatePiece {
    /// JSON as it stands.
    Text(String),
    /// The part of this number.
    Part(usize),
    /// The list of those that failed.
    Failed,
}
