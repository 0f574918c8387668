//! The keys by which limits count requests.

/// The key by which a limit counts requests (`by`). All requests without the key share one counter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CountKeyPart {
    /// One counter for all requests (`all`).
    #[default]
    All,
    /// The consumer that an authentication policy identified (`consumer`).
    Consumer,
    /// The client's address; for IPv6, its first 64 bits (`address`).
    Address,
    /// The route's name (`route`).
    Route,
    /// A header's value; the name in lower case (`header NAME`).
    Header(String),
    /// A claim of the request's token (`claim NAME`).
    Claim(String),
    /// A cookie's value (`cookie NAME`).
    Cookie(String),
    /// A query parameter's value (`query NAME`).
    Query(String),
    /// The request's host, without its port (`host`).
    Host,
    /// The path in normal form (`path`).
    Path,
    /// The method (`method`).
    Method,
    /// The combination of these (a list of at least two, none of them `all`).
    Many(Vec<CountKeyPart>),
}
