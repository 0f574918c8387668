//! One reader a section.

mod access_log;
mod buffer;
mod condition;
mod listen;
mod matching;
mod redirect;
mod references;
mod respond;
mod rewrite;
mod root;
mod route;
mod settings;
mod upstream;

pub(crate) use references::{Reference, unknown};
#[cfg(test)]
pub(crate) use respond::json as json_of;
pub(crate) use root::{Draft, Include, root};

#[cfg(test)]
mod tests;
