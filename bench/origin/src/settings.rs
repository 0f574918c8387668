//! The settings of an origin. They are JSON for `tollgate bench origin`. [`Settings::check`] refuses values
//! that cannot work.

use crate::failure::Failure;
use crate::stall::Stalls;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// The settings of an origin. In JSON, every field except `listen` and `control` may be omitted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The address for requests. With port 0 the kernel chooses; see [`crate::Origin::address`].
    pub listen: SocketAddr,
    /// The address of the control port.
    pub control: SocketAddr,
    /// Threads, each an event loop with its own listening socket. The kernel spreads connections over them by
    /// hash, not evenly.
    #[serde(default = "one")]
    pub threads: u32,
    /// Length of each response's body, which is [`crate::body`].
    #[serde(default = "two")]
    pub response_bytes: usize,
    /// Status of each response.
    #[serde(default = "ok")]
    pub status: u16,
    /// Milliseconds from the last byte of a request to its response. Each response is delayed separately.
    #[serde(default)]
    pub delay_ms: u64,
    /// A `GET` of this path gets status 200 and `ready_body` at once, whatever the other settings.
    #[serde(default = "ready_path")]
    pub ready_path: String,
    /// The body of the response to `ready_path`.
    #[serde(default = "ready_body")]
    pub ready_body: String,
    /// Whether the origin speaks HTTP/2 in plain text instead of HTTP/1. It then answers each gRPC call with
    /// one [`crate::message`] of `response_bytes` bytes and the status OK. Nothing is recorded, delayed or
    /// stalled in this mode.
    #[serde(default)]
    pub grpc: bool,
    /// The bytes of that message; if empty, [`crate::body`] is used.
    #[serde(default)]
    pub message: Vec<u8>,
    /// Whether each message of a gRPC call is sent back as soon as it is complete, instead of one message at the end.
    /// A message then counts as a request. Needs `grpc`.
    #[serde(default)]
    pub echo: bool,
    /// How many of the last requests' heads are kept, for `GET /recorded` on the control port.
    #[serde(default)]
    pub record: usize,
    /// When no responses are sent.
    #[serde(default)]
    pub stalls: Stalls,
}

/// Nanoseconds in a millisecond.
pub(crate) const NS_PER_MS: u64 = 1_000_000;

fn one() -> u32 {
    1
}

fn two() -> usize {
    2
}

fn ok() -> u16 {
    200
}

fn ready_path() -> String {
    "/tollgate-lab-ready".into()
}

fn ready_body() -> String {
    "ready".into()
}

/// Longest body, in bytes; each thread has one in memory.
const BODY_MAX_BYTES: usize = 1 << 30;

/// Longest delay, an hour.
const LONGEST_DELAY_MS: u64 = 3_600_000;

/// Most recorded heads; at a few hundred bytes each, some 30 MB.
const RECORDED_HEADS_MAX: usize = 100_000;

impl Settings {
    /// Returns the defaults: one thread, two bytes, status 200, no delay, no recording.
    pub fn new(listen: SocketAddr, control: SocketAddr) -> Self {
        Self {
            listen,
            control,
            threads: one(),
            response_bytes: two(),
            status: ok(),
            delay_ms: 0,
            ready_path: ready_path(),
            ready_body: ready_body(),
            grpc: false,
            message: Vec::new(),
            echo: false,
            record: 0,
            stalls: Stalls::default(),
        }
    }

    /// Returns the settings of an authorizer that allows every request. Its answer is a `CheckResponse` of
    /// Envoy's protocol (envoy.service.auth.v3) whose first field, the status, is an empty message, which
    /// means OK.
    pub fn authorizer(listen: SocketAddr, control: SocketAddr) -> Self {
        Self { grpc: true, message: vec![0x0a, 0], ..Self::new(listen, control) }
    }

    /// Checks the values.
    ///
    /// # Errors
    /// [`Failure::Settings`] with the field and what it should be.
    pub fn check(&self) -> Result<(), Failure> {
        let wrong = |what: String| Err(Failure::Settings(what));
        if !(1..=1024).contains(&self.threads) {
            return wrong(format!("`threads` is {}: expected 1 to 1024", self.threads));
        }
        if !(200..=599).contains(&self.status) {
            return wrong(format!("`status` is {}: expected 200 to 599", self.status));
        }
        if matches!(self.status, 204 | 304) && self.response_bytes != 0 {
            return wrong(format!(
                "`response_bytes` is {}, but an answer with status {} has no body: expected 0",
                self.response_bytes, self.status
            ));
        }
        if self.response_bytes > BODY_MAX_BYTES {
            return wrong(format!(
                "`response_bytes` is {}: expected at most {BODY_MAX_BYTES}",
                self.response_bytes
            ));
        }
        if self.echo && !self.grpc {
            return wrong(
                "`echo` is set without `grpc`: expected both, since messages are those of gRPC".into(),
            );
        }
        if self.delay_ms > LONGEST_DELAY_MS {
            return wrong(format!("`delay_ms` is {}: expected at most {LONGEST_DELAY_MS}", self.delay_ms));
        }
        if self.record > RECORDED_HEADS_MAX {
            return wrong(format!("`record` is {}: expected at most {RECORDED_HEADS_MAX}", self.record));
        }
        if !self.ready_path.starts_with('/') || !self.ready_path.bytes().all(|byte| byte.is_ascii_graphic()) {
            return wrong(format!("`ready_path` is {:?}: expected a path such as /ready", self.ready_path));
        }
        self.stalls.check().map_err(Failure::Settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stall::Every;

    fn settings() -> Settings {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        Settings::new(any, any)
    }

    #[test]
    fn two_addresses_are_enough_and_unknown_fields_are_told() {
        let text = r#"{"listen":"127.0.0.1:0","control":"127.0.0.1:0"}"#;
        assert_eq!(serde_json::from_str::<Settings>(text).unwrap(), settings());
        let text = r#"{"listen":"127.0.0.1:0","control":"127.0.0.1:0","weather":1}"#;
        assert!(serde_json::from_str::<Settings>(text).unwrap_err().to_string().contains("weather"));
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        let refused = |change: fn(&mut Settings), field: &str| {
            let mut changed = settings();
            change(&mut changed);
            let text = changed.check().unwrap_err().to_string();
            assert!(text.contains(field) && text.contains("expected"), "{text}");
        };
        assert!(settings().check().is_ok());
        refused(|s| s.threads = 0, "`threads`");
        refused(|s| s.status = 101, "`status`");
        refused(|s| s.status = 304, "`response_bytes`");
        refused(|s| s.response_bytes = usize::MAX, "`response_bytes`");
        refused(|s| s.delay_ms = u64::MAX, "`delay_ms`");
        refused(|s| s.echo = true, "`echo`");
        refused(|s| s.record = usize::MAX, "`record`");
        refused(|s| s.stalls = Stalls::Every(Every { every_ms: 5, for_ms: 5 }), "`stalls`");
        refused(|s| s.ready_path = "ready\r\n".into(), "`ready_path`");
    }
}
