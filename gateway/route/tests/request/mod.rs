//! A request as plain data.

use tollgate_route::Request;

/// A request as plain data, with its headers in the order of their lines.
#[derive(Clone, Debug, Default)]
pub struct Sent {
    pub method: String,
    pub host: String,
    pub path: String,
    pub query: Option<String>,
    pub headers: Vec<(String, String)>,
}

impl Request for Sent {
    fn method(&self) -> &[u8] {
        self.method.as_bytes()
    }

    fn host(&self) -> &[u8] {
        self.host.as_bytes()
    }

    fn path(&self) -> &[u8] {
        self.path.as_bytes()
    }

    fn query(&self) -> Option<&[u8]> {
        self.query.as_deref().map(str::as_bytes)
    }

    fn header(&self, lower_case_name: &str) -> Option<&[u8]> {
        let first = self.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(lower_case_name));
        first.map(|(_, value)| value.as_bytes())
    }
}

impl Sent {
    /// A GET request.
    pub fn get(host: &str, path: &str) -> Self {
        Self { method: "GET".into(), host: host.into(), path: path.into(), ..Self::default() }
    }
}
