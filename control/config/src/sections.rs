//! The sections of the configuration. Each file declares its keys, and has the rules between them.

mod buffer;
mod forwarded;
mod limits;
mod paths;
mod process;
pub(crate) mod texts;
mod timeouts;
pub(crate) mod upstream;

pub use buffer::*;
pub use forwarded::*;
pub use limits::*;
pub use paths::*;
pub use process::*;
pub use timeouts::*;
pub use upstream::*;
