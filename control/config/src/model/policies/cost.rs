//! What a request counts for in a limit, and which ones are not counted.

use crate::model::Cidr;

/// What a request counts for (`cost`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cost {
    /// What says it.
    pub by: CostBy,
    /// What it is where that says nothing. Default 1.
    pub default: u64,
    /// The most that a header can say; nothing: what the limit lets through at once.
    pub max: Option<u64>,
}

impl Default for Cost {
    /// Each counts for 1.
    fn default() -> Self {
        Self { by: CostBy::Constant, default: 1, max: None }
    }
}

/// What says the cost of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CostBy {
    /// Nothing: all cost the same (a number).
    Constant,
    /// Its method (`methods`).
    Methods(Vec<(String, u64)>),
    /// A field of the request, by its name in lower case (`header`).
    Header(String),
    /// A field of the response, by its name in lower case (`response_header`).
    ResponseHeader(String),
}

/// Requests that a limit does not count (`exempt`): those of which any of this is true.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exempt {
    /// The client's address is in one of these blocks.
    pub addresses: Vec<Cidr>,
    /// It is one of these consumers.
    pub consumers: Vec<String>,
    /// It is in one of these groups.
    pub groups: Vec<String>,
    /// The method is one of these.
    pub methods: Vec<String>,
    /// One of these fields, by its name in lower case, has this value.
    pub headers: Vec<(String, String)>,
}
