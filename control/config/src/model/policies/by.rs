//! What requests are told apart by.

/// What requests are told apart by where something is counted for each (`by`). All that lack it count as one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// They are not (`all`).
    #[default]
    All,
    /// Who was told apart by an authentication policy (`consumer`).
    Consumer,
    /// The client's address, of IPv6 its first 64 bits (`address`).
    Address,
    /// The route's name (`route`).
    Route,
    /// A header's value; the name in lower case (`header NAME`).
    Header(String),
    /// A claim of the token that was shown (`claim NAME`).
    Claim(String),
    /// A cookie's value (`cookie NAME`).
    Cookie(String),
    /// A query parameter's value (`query NAME`).
    Query(String),
    /// The host that the request names, without its port (`host`).
    Host,
    /// The path in normal form (`path`).
    Path,
    /// The method (`method`).
    Method,
    /// All of these together (a list of two and more, none of them `all`).
    Many(Vec<By>),
}
