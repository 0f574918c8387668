//! The messages of etcd's JSON gateway. Bytes are base64, 64-bit numbers are strings, and zero values are
//! omitted.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};

/// Bytes, which are base64 on the wire.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Base64Bytes(pub Vec<u8>);

impl<'de> Deserialize<'de> for Base64Bytes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(from)?;
        STANDARD.decode(text.as_bytes()).map(Self).map_err(serde::de::Error::custom)
    }
}

impl Serialize for Base64Bytes {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&STANDARD.encode(&self.0))
    }
}

/// Parses a 64-bit number: a string or a number.
fn parse_u64<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let value = Value::deserialize(from)?;
    let number = value.as_str().map_or_else(|| value.as_u64(), |text| text.parse().ok());
    number.ok_or_else(|| serde::de::Error::custom("no number"))
}

/// Encodes bytes for the wire.
pub(crate) fn encode_base64(bytes: &[u8]) -> Value {
    Value::from(STANDARD.encode(bytes))
}

/// Returns the first key after all keys with this prefix.
pub(crate) fn prefix_end(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < 0xFF {
            end.push(last + 1);
            return end;
        }
    }
    // All keys.
    vec![0]
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct ResponseHeader {
    #[serde(default, deserialize_with = "parse_u64")]
    pub cluster_id: u64,
    #[serde(default, deserialize_with = "parse_u64")]
    pub revision: u64,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct KeyValue {
    #[serde(default)]
    pub key: Base64Bytes,
    #[serde(default)]
    pub value: Base64Bytes,
    #[serde(default, deserialize_with = "parse_u64")]
    pub mod_revision: u64,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct RangeResponse {
    #[serde(default)]
    pub header: ResponseHeader,
    #[serde(default)]
    pub kvs: Vec<KeyValue>,
    #[serde(default)]
    pub more: bool,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct TxnResponse {
    #[serde(default)]
    pub header: ResponseHeader,
    #[serde(default)]
    pub succeeded: bool,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct PutResponse {
    #[serde(default)]
    pub header: ResponseHeader,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct LeaseResponse {
    #[serde(default, rename = "ID", deserialize_with = "parse_u64")]
    pub id: u64,
    #[serde(default, rename = "TTL", deserialize_with = "parse_u64")]
    pub ttl: u64,
}

#[derive(Debug, Deserialize)]
pub(crate) struct TokenResponse {
    pub token: String,
}

/// A message of a stream: its result, or the error that ends it.
#[derive(Debug, Deserialize)]
pub(crate) struct StreamMessage<T> {
    pub result: Option<T>,
    pub error: Option<ErrorResponse>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct WatchResponse {
    #[serde(default)]
    pub header: ResponseHeader,
    /// Whether it is the first message, which only confirms the watch.
    #[serde(default)]
    pub created: bool,
    #[serde(default)]
    pub canceled: bool,
    #[serde(default, deserialize_with = "parse_u64")]
    pub compact_revision: u64,
    #[serde(default)]
    pub cancel_reason: String,
    #[serde(default)]
    pub events: Vec<WatchEvent>,
}

impl WatchResponse {
    /// Returns the revision up to which all events were delivered, if this is a progress message: without
    /// events, and not the first. The first message carries the store's revision, but earlier events may
    /// still follow it.
    pub fn progress_revision(&self) -> Option<u64> {
        (!self.created && self.events.is_empty()).then_some(self.header.revision)
    }
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct WatchEvent {
    /// `DELETE`; empty for a put.
    #[serde(default, rename = "type")]
    pub kind: String,
    #[serde(default)]
    pub kv: KeyValue,
}

/// An error as the gateway reports it, for a request or a stream.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct ErrorResponse {
    #[serde(default, alias = "grpc_code")]
    pub code: u32,
    #[serde(default)]
    pub message: String,
}

/// The order of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SortOrder {
    /// By key, ascending.
    Key,
    /// By the revision that last changed the key, the newest first.
    Newest,
}

/// A range of keys, and the revision at which to read it.
#[derive(Clone, Debug)]
pub struct RangeRequest {
    /// The first key.
    pub key: Vec<u8>,
    /// The key after the last one; empty: only `key`.
    pub end: Vec<u8>,
    /// The revision to read at; 0: the current one.
    pub revision: u64,
    /// Bound of the entries; 0: all.
    pub limit: usize,
    /// Order of the entries.
    pub order: SortOrder,
    /// Only keys whose last change has at most this revision; 0: all.
    pub max_revision: u64,
}

impl RangeRequest {
    /// Returns the request for all keys with this prefix, at the current revision.
    #[must_use]
    pub fn with_prefix(prefix: &str) -> Self {
        let key = prefix.as_bytes().to_vec();
        let end = prefix_end(&key);
        Self { key, end, revision: 0, limit: 0, order: SortOrder::Key, max_revision: 0 }
    }

    /// Returns the request for one key.
    #[must_use]
    pub fn single_key(key: &str) -> Self {
        Self { end: Vec::new(), ..Self::with_prefix(key) }
    }

    pub(crate) fn body(&self) -> Value {
        let mut body = json!({
            "key": encode_base64(&self.key),
            "range_end": encode_base64(&self.end),
            "revision": self.revision.to_string(),
            "limit": self.limit.to_string(),
            "max_mod_revision": self.max_revision.to_string(),
        });
        if self.order == SortOrder::Newest {
            body["sort_order"] = "DESCEND".into();
            body["sort_target"] = "MOD".into();
        }
        body
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_etcd_omits_are_zero() {
        let text = r#"{"result":{"header":{"revision":"7"},"events":[{"kv":{"key":"YQ==","value":"Yg==","mod_revision":"7"}},
            {"type":"DELETE","kv":{"key":"YQ==","mod_revision":8}}]}}"#;
        let message: StreamMessage<WatchResponse> = serde_json::from_str(text).expect("a message");
        let response = message.result.expect("a result");
        assert_eq!((response.header.revision, response.canceled, response.compact_revision), (7, false, 0));
        assert_eq!(response.events[0].kv.value.0, b"b");
        assert_eq!((response.events[1].kind.as_str(), response.events[1].kv.mod_revision), ("DELETE", 8));
        let empty: RangeResponse = serde_json::from_str("{}").expect("a message");
        assert!(empty.kvs.is_empty() && !empty.more);
        assert!(serde_json::from_str::<RangeResponse>(r#"{"kvs":[{"key":"*"}]}"#).is_err());
    }

    #[test]
    fn only_a_message_of_progress_tells_of_it() {
        for (text, progress) in [
            (r#"{"header": {"revision": "15"}}"#, Some(15)),
            (r#"{"header": {"revision": "15"}, "created": true}"#, None),
            (r#"{"header": {"revision": "15"}, "events": [{"kv": {"key": "YQ=="}}]}"#, None),
        ] {
            let message: WatchResponse = serde_json::from_str(text).expect("a message");
            assert_eq!(message.progress_revision(), progress, "{text}");
        }
    }

    #[test]
    fn the_end_of_a_prefix() {
        assert_eq!(prefix_end(b"/t/"), b"/t0");
        assert_eq!(prefix_end(&[b'a', 0xFF]), b"b");
        assert_eq!(prefix_end(&[0xFF]), [0]);
    }

    #[test]
    fn numbers_of_64_bits() {
        let revision = |value: &str| {
            let header = serde_json::from_str::<ResponseHeader>(&format!(r#"{{"revision":{value}}}"#));
            header.map(|header| header.revision).ok()
        };
        let digits = format!(r#""{}""#, "9".repeat(10_000));
        for (value, expected) in [
            ("0", Some(0)),
            (r#""0""#, Some(0)),
            (r#""0007""#, Some(7)),
            ("18446744073709551615", Some(u64::MAX)),
            (r#""18446744073709551615""#, Some(u64::MAX)),
            ("18446744073709551616", None),
            (r#""18446744073709551616""#, None),
            ("-1", None),
            (r#""-1""#, None),
            ("1.5", None),
            (r#""""#, None),
            ("null", None),
            (&digits, None),
        ] {
            assert_eq!(revision(value), expected, "{value}");
        }
    }
}
