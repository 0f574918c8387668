//! The cost of a request in a limit, and the requests that a limit does not count.

use crate::model::Cidr;

/// The cost of a request (`cost`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Source of the cost.
    pub by: CostBy,
    /// The cost if the source gives none. Default 1.
    pub default: u64,
    /// The highest cost that a header can set; `None`: the most that the limit admits at once.
    pub max: Option<u64>,
}

impl Default for Cost {
    /// Every request costs 1.
    fn default() -> Self {
        Self { by: CostBy::Constant, default: 1, max: None }
    }
}

/// Source of a request's cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CostBy {
    /// A constant: every request costs the same (a number).
    Constant,
    /// Its method (`methods`).
    Methods(Vec<(String, u64)>),
    /// A field of the request, by its name in lower case (`header`).
    Header(String),
    /// A field of the response, by its name in lower case (`response_header`).
    ResponseHeader(String),
}

/// Requests that a limit does not count (`exempt`): any one of these conditions is enough.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exempt {
    /// The client's address is in one of these blocks.
    pub addresses: Vec<Cidr>,
    /// The consumer is one of these.
    pub consumers: Vec<String>,
    /// The consumer is in one of these groups.
    pub groups: Vec<String>,
    /// The method is one of these.
    pub methods: Vec<String>,
    /// One of these fields has this value. The names are in lower case.
    pub headers: Vec<(String, String)>,
}
