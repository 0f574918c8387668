//! The messages of Envoy's authorization service, version 3 (`envoy/service/auth/v3/external_auth.proto` and
//! its imports), limited to the fields that this crate uses. Other fields are ignored when they are received.

use std::collections::HashMap;

use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct CheckRequest {
    #[prost(message, optional, tag = "1")]
    pub attributes: Option<AttributeContext>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct AttributeContext {
    #[prost(message, optional, tag = "1")]
    pub source: Option<Peer>,
    #[prost(message, optional, tag = "4")]
    pub request: Option<Attributes>,
    #[prost(map = "string, string", tag = "10")]
    pub context_extensions: HashMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Peer {
    #[prost(message, optional, tag = "1")]
    pub address: Option<Address>,
    #[prost(string, tag = "4")]
    pub principal: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Address {
    #[prost(message, optional, tag = "1")]
    pub socket_address: Option<SocketAddress>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SocketAddress {
    #[prost(string, tag = "2")]
    pub address: String,
    #[prost(uint32, optional, tag = "3")]
    pub port_value: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Attributes {
    #[prost(message, optional, tag = "2")]
    pub http: Option<HttpRequest>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct HttpRequest {
    #[prost(string, tag = "2")]
    pub method: String,
    #[prost(map = "string, string", tag = "3")]
    pub headers: HashMap<String, String>,
    #[prost(string, tag = "4")]
    pub path: String,
    #[prost(string, tag = "5")]
    pub host: String,
    #[prost(string, tag = "6")]
    pub scheme: String,
    #[prost(int64, tag = "9")]
    pub size: i64,
    #[prost(string, tag = "10")]
    pub protocol: String,
    #[prost(string, tag = "11")]
    pub body: String,
    #[prost(bytes = "vec", tag = "12")]
    pub raw_body: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct CheckResponse {
    #[prost(message, optional, tag = "1")]
    pub status: Option<RpcStatus>,
    #[prost(message, optional, tag = "2")]
    pub denied: Option<Denied>,
    #[prost(message, optional, tag = "3")]
    pub ok: Option<Allowed>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RpcStatus {
    #[prost(int32, tag = "1")]
    pub code: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Denied {
    #[prost(message, optional, tag = "1")]
    pub status: Option<HttpStatus>,
    #[prost(message, repeated, tag = "2")]
    pub headers: Vec<HeaderOption>,
    #[prost(string, tag = "3")]
    pub body: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct HttpStatus {
    #[prost(int32, tag = "1")]
    pub code: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Allowed {
    #[prost(message, repeated, tag = "2")]
    pub headers: Vec<HeaderOption>,
    #[prost(string, repeated, tag = "5")]
    pub headers_to_remove: Vec<String>,
    #[prost(message, repeated, tag = "6")]
    pub response_headers_to_add: Vec<HeaderOption>,
    #[prost(bytes = "vec", repeated, tag = "7")]
    pub query_parameters_to_set: Vec<Vec<u8>>,
    #[prost(string, repeated, tag = "8")]
    pub query_parameters_to_remove: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct HeaderOption {
    #[prost(message, optional, tag = "1")]
    pub header: Option<HeaderValue>,
    #[prost(message, optional, tag = "2")]
    pub append: Option<BoolValue>,
    #[prost(int32, tag = "3")]
    pub append_action: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct HeaderValue {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(string, tag = "2")]
    pub value: String,
    #[prost(bytes = "vec", tag = "3")]
    pub raw_value: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct BoolValue {
    #[prost(bool, tag = "1")]
    pub value: bool,
}

impl HeaderValue {
    /// Returns the value from whichever of the two fields is set.
    pub fn bytes(&self) -> &[u8] {
        if self.raw_value.is_empty() { self.value.as_bytes() } else { &self.raw_value }
    }
}
