//! Reads configuration files: parses them to a tree with source positions, validates it, and describes the
//! format in a JSON Schema.
//!
//! [`load`] reads a file and its includes; [`from_text`] reads a string. Both report every problem at once,
//! each with its source position. They return a [`Config`] only if no problem is an error. The stages are:
//!
//! text -> `parse` (YAML, aliases, duplicates) -> `env` (variables) -> `read` (the sections) ->
//! [`Config`]
//!
//! One table of keys, `spec`, drives the readers' messages, [`schema`] and [`reference()`].

// The derives name items of this crate by their full paths.
extern crate self as tollgate_config;

mod credentials;
mod documents;
mod endpoint_list;
mod env;
pub mod file_access;
mod foreign;
mod hints;
mod include;
mod load;
mod model;
mod parse;
mod password_hash;
mod pem_files;
mod policy_kinds;
mod position;
mod problem;
mod problems;
mod read;
mod reader;
mod reference;
mod render;
mod scalar;
mod schema;
mod secrets;
pub mod section;
mod sections;
mod source;
mod source_files;
mod spec;
mod structural;
mod suggest;
mod syntax;
mod tree;

pub use credentials::{MASK, register_plugin_secrets};
pub use documents::{
    CombinedResources, Document, DocumentProblem, Documents, FileResource, KINDS, ResourceKind, Undo,
    file_documents, file_resources, from_yaml, kind, masked, to_yaml, unmasked,
};
pub use endpoint_list::{EndpointListError, endpoints_from_text, load_endpoints};
pub use hints::{exact_path_hints, open_listener_hints};
pub use load::{Loaded, PartialConfig, from_text, load, load_with};
pub use model::*;
pub use password_hash::{PasswordScheme, unverifiable_hash, weak_hashes};
pub use policy_kinds::{PolicyKind, PolicySettings, is_guard, register_policies};
pub use problem::{Problem, Severity};
pub use problems::Problems;
pub use read::files_in;
pub use reference::reference;
pub use scalar::cidr::block;
pub use scalar::replacement::{
    LocationReplacement, ReplacementPiece, location_replacement, path_replacement, text_replacement,
};
pub use scalar::template::{ACCESS_LOG_FIELDS, Piece, access_log_template};
pub use scalar::value_template::{REQUEST_FIELDS, ValuePiece, value_template};
pub use schema::schema;
pub use sections::consumers::shared_credentials;
pub use source::{ConfigRef, ConfigSource, Reading};
pub use structural::{Substitutes, structural_schema};
pub use suggest::nearest;
