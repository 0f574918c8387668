//! Sockets, time and spawning: the only crate through which the data path touches the outside. It also gives
//! [turns](BulkTurn) to flows of many bytes, and names the [components](component) of the diagnostic log.
//!
//! Everything that the data path does to the world goes through this crate, so the world can be replaced as a
//! whole: by a simulated network (the feature `simulate`, which no release has), or by a leaner driver than
//! tokio's. Its interface is small on purpose.

mod address;
mod bulk_turn;
mod clock;
pub mod component;
mod datagrams;
mod deadline;
mod detached;
mod listener;
mod look_up;
mod proxy_protocol;
mod receive_queue;
mod runtime;
mod self_connection;
mod shortage;
#[cfg(feature = "simulate")]
pub mod simulated;
mod stream;
mod tick_timer;
mod tls;
mod wheel;

pub use address::Address;
pub use bulk_turn::{BulkQueue, BulkTurn};
pub use clock::{now, random_key, wall_clock};
pub use datagrams::Datagrams;
pub use deadline::{Deadline, Timers};
pub use detached::DetachedStream;
pub use listener::{BoundListener, Listener, RegisteredListener};
pub use proxy_protocol::{
    PROXY_HEADER_MAX_BYTES, ProxyHeader, ProxyHeaderError, ProxyVersion, parse_proxy_header,
};
pub use receive_queue::Peek;
pub use runtime::{Runtime, spawn, yield_now};
pub use rustls::pki_types::ServerName;
pub use self_connection::{instance_name, leads_to, set_own_addresses};
pub use shortage::is_shortage;
pub use stream::Stream;
pub use tls::{
    Certificates, HandshakeError, Negotiated, TlsFault, TlsFaultClass, TlsFaultKind, record_sni,
    record_unverified_certificate,
};
