//! A request in parts, and its form in HTTP/1.1.

/// The parts of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Parts {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) host: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Option<Vec<u8>>,
}

impl Parts {
    /// Appends the request as HTTP/1.1.
    pub(crate) fn write(&self, keep_alive: bool, bytes: &mut Vec<u8>) {
        let Self { method, path, host, headers, body } = self;
        bytes.extend_from_slice(format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n").as_bytes());
        for (name, value) in headers {
            bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        }
        if !keep_alive {
            bytes.extend_from_slice(b"Connection: close\r\n");
        }
        if let Some(body) = body {
            bytes.extend_from_slice(format!("Content-Length: {}\r\n", body.len()).as_bytes());
        }
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(body.as_deref().unwrap_or_default());
    }
}
