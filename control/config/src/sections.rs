//! The sections of the configuration. Each file declares its keys, and has the rules between them.

pub(crate) mod texts;
mod timeouts;
pub(crate) mod upstream;

pub use timeouts::*;
pub use upstream::*;
