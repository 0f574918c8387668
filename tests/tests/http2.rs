//! HTTP/2 clients by prior knowledge (RFC 9113), with HTTP/1 origins.

mod crowd;
mod events;
mod exchange;
mod flow;
mod goodbye;
mod h2spec;
mod hostile;
mod lively;
mod refused;
