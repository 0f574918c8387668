//! External load tools: each is called in its own way, and the results are converted to one form.
//!
//! A [`Request`] describes the load. [`Tool::command`] turns it into a command line, or refuses what the tool
//! cannot do. [`Tool::parse`] converts the tool's output to a [`tollgate_lab_record::LoadResult`]. A figure
//! that a tool does not report stays `None`: it is not filled in from the request, unless the tool is known
//! to comply with it. [`Tool::find`] finds a tool, or says how to get it.
//!
//! [`Invocation::start`] runs a command in its own directory, and ends it with all its children within a time
//! limit.

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
pub use find::{Found, Program, ToolPaths};
pub use invocation::{Invocation, RunError, Running};
pub use output::{Misunderstood, Output};
pub use request::{Header, HttpVersion, Length, Request};
pub use tool::Tool;
