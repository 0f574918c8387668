//! External load tools, each called in its own way and read into one form.
//!
//! A [`Request`] says what is to be sent; [`Tool::command`] turns it into a command line, or says what the tool
//! cannot do; [`Tool::parse`] reads what the tool printed into a [`tollgate_lab_record::LoadResult`]. What a tool
//! does not tell stays `None`: nothing is filled in from what was asked for, except where the tool is known to keep
//! it. [`Tool::find`] says where a tool is, or how to get it.
//!
//! [`Invocation::start`] runs a command in a directory of its own and ends it, with all it started, in time.

mod abilities;
mod find;
mod invocation;
mod output;
mod request;
mod text;
mod times;
mod tool;
mod tools;

pub use abilities::{Abilities, Choice, RateSupport, Refused};
pub use find::{Found, Places, Program};
pub use invocation::{Invocation, RunError, Running};
pub use output::{Misunderstood, Output};
pub use request::{Header, HttpVersion, Length, Request};
pub use tool::Tool;
