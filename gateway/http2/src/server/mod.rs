//! The server's role: connections of clients.

mod check;
mod connection;
mod role;
mod settings;
mod stream;
#[cfg(test)]
mod tests;

pub use self::check::MalformedRequest;
pub use self::connection::{IncomingRequest, ServerConnection};
pub use self::settings::LocalSettings;
pub use self::stream::RequestStream;
