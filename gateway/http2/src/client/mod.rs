//! The client's role: connections to endpoints.

mod connection;
mod overhead;
mod response;
mod role;
mod settings;
mod stream;
#[cfg(test)]
mod tests;

pub use self::connection::{ClientConnection, RequestPseudo};
pub use self::response::MalformedResponse;
pub use self::settings::ClientSettings;
pub use self::stream::{ResponseFailure, ResponseStream};
