//! The sections of the configuration. Each file declares its keys, and has the rules between them.

pub(crate) mod access_log;
pub(crate) mod admin;
mod buffer;
pub(crate) mod certificates;
mod collector;
pub(crate) mod consumers;
mod etcd;
mod forwarded;
mod limits;
pub(crate) mod listen;
pub(crate) mod listen_address;
mod log;
mod paths;
mod process;
pub(crate) mod root;
pub(crate) mod texts;
mod timeouts;
pub(crate) mod tls;
pub(crate) mod upstream;

pub use access_log::*;
pub use admin::*;
pub use buffer::*;
pub use certificates::*;
pub use collector::*;
pub use consumers::*;
pub use etcd::*;
pub use forwarded::*;
pub use limits::*;
pub use listen::*;
pub use listen_address::*;
pub use log::*;
pub use paths::*;
pub use process::*;
pub use timeouts::*;
pub use tls::*;
pub use upstream::*;
