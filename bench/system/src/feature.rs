//! What a cell can ask of any system.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Something that can be switched on for a run. Named in `system.yaml`, studies and results alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Feature {
    /// One line a request into a file.
    AccessLog,
    /// A request id is made and sent to the origin.
    RequestId,
    /// The system's own metrics are counted.
    Statistics,
    /// Clients come over TLS.
    Tls,
    /// Clients may come over HTTP/2.
    Http2,
    /// Origins are spoken to over HTTP/2 in plain text, and trailers go through: gRPC.
    Http2Origin,
    /// X-Forwarded-For, -Proto and -Host are set on the way to the origin.
    ForwardedHeaders,
    /// A failed connection to an origin is tried once more.
    Retries,
    /// Many routes, 10,000 included.
    Routes,
    /// Virtual hosts.
    Hosts,
    /// An upstream of several origins, which take turns.
    Balancing,
    /// Bodies flow through as they come.
    Streaming,
    /// Buffers as an expert sets them for bodies of 64 KiB and more.
    LargeBuffers,
}

impl Feature {
    /// Every feature, in the order of reports.
    pub const ALL: [Self; 13] = [
        Self::AccessLog,
        Self::RequestId,
        Self::Statistics,
        Self::Tls,
        Self::Http2,
        Self::Http2Origin,
        Self::ForwardedHeaders,
        Self::Retries,
        Self::Routes,
        Self::Hosts,
        Self::Balancing,
        Self::Streaming,
        Self::LargeBuffers,
    ];

    /// The name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::AccessLog => "access_log",
            Self::RequestId => "request_id",
            Self::Statistics => "statistics",
            Self::Tls => "tls",
            Self::Http2 => "http2",
            Self::Http2Origin => "http2_origin",
            Self::ForwardedHeaders => "forwarded_headers",
            Self::Retries => "retries",
            Self::Routes => "routes",
            Self::Hosts => "hosts",
            Self::Balancing => "balancing",
            Self::Streaming => "streaming",
            Self::LargeBuffers => "large_buffers",
        }
    }
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a system can do about a feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Support {
    /// Its template switches it on and off.
    Switched,
    /// It does so in any case.
    Always,
    /// It cannot, or its template does not.
    No,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_in_files_is_the_one_that_serde_reads() {
        for feature in Feature::ALL {
            let read: Feature = serde_saphyr::from_str(feature.name()).expect("a feature");
            assert_eq!(read, feature);
        }
    }
}
