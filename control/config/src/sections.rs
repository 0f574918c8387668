//! The sections of the configuration. Each file declares its keys, and has the rules between them.

mod upstream;

pub(crate) use upstream::above;
pub use upstream::*;
