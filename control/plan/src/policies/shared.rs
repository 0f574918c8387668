//! What several policies are made of.

use tollgate_config as config;
use tollgate_policy::Identity;

/// The fields that tell who somebody is.
pub(super) fn identity(headers: &config::IdentityHeaders) -> Identity {
    Identity::new(headers.consumer.clone(), headers.groups.clone())
}

/// A name that is not taken. What cannot stand in the field that tells it is left out.
pub(super) fn unused(name: &str, taken: impl Fn(&str) -> bool) -> String {
    let fits = |c: &char| c.is_ascii_graphic() && !"\"\\".contains(*c) || *c == ' ';
    let name: String = name.chars().filter(fits).collect();
    let numbered = (2..).map(|number| format!("{name} {number}"));
    std::iter::once(name.clone()).chain(numbered).find(|name| !taken(name)).unwrap_or(name)
}
