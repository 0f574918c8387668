//! Names of the resources that the objects of this front become.

/// The prefix of the names.
pub const PREFIX: &str = "apisix-";

/// Returns the name of the resource that an object becomes.
pub fn resource_name(id: &str) -> String {
    format!("{PREFIX}{id}")
}
