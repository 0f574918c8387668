//! Writes one line in each format.

use super::clock::WallClock;
use super::escape;
use super::field::{Field, Value};
use super::template::{Template, TemplatePart};
use crate::Record;

/// A compiled format.
#[derive(Debug)]
pub(super) enum Format {
    Combined,
    /// Every field, and additional ones: the quoted key with its colon, and its value.
    Json(Vec<(Box<[u8]>, TemplatePart)>),
    Template(Template),
}

impl Format {
    /// Returns the JSON format with additional fields: each key, and the name of its value. Unknown names are
    /// ignored.
    pub(super) fn json(further: &[(String, String)]) -> Self {
        let field = |(key, name): &(String, String)| {
            let mut text = b"\"".to_vec();
            escape::json(&mut text, key.as_bytes());
            text.extend_from_slice(b"\":");
            Some((text.into(), TemplatePart::named(name)?))
        };
        Self::Json(further.iter().filter_map(field).collect())
    }

    /// Returns whether the format reads the response head.
    pub(super) fn reads_response_head(&self) -> bool {
        match self {
            Self::Combined => false,
            Self::Json(further) => further.iter().any(|(_, part)| part.reads_response_head()),
            Self::Template(template) => template.0.iter().any(TemplatePart::reads_response_head),
        }
    }

    /// Appends the record's line with its line feed. Allocates only if `line` lacks room.
    #[inline]
    pub(super) fn write(&self, line: &mut Vec<u8>, record: &Record<'_>, clock: &mut WallClock) {
        let millis = clock.advance(record.ended());
        match self {
            Format::Combined => combined(line, record, clock),
            Format::Json(further) => json(line, record, clock, millis, further),
            Format::Template(template) => {
                for part in &template.0 {
                    match part {
                        TemplatePart::Literal(bytes) => line.extend_from_slice(bytes),
                        TemplatePart::Field(field) => field.write_text(line, record, clock, millis),
                        TemplatePart::NamedField(named) => named.write_text(line, record.details),
                    }
                }
            }
        }
        line.push(b'\n');
    }
}

/// Appends nginx's `combined` line. `$remote_user` is the consumer that a policy identified, by a password or
/// otherwise.
fn combined(line: &mut Vec<u8>, record: &Record<'_>, clock: &WallClock) {
    Value::Address(record.client).write_text(line, clock);
    line.extend_from_slice(b" - ");
    Field::Consumer.value(record, 0).write_text(line, clock);
    line.extend_from_slice(b" [");
    line.extend_from_slice(clock.local());
    line.extend_from_slice(b"] \"");
    request(line, record);
    line.extend_from_slice(b"\" ");
    Value::Status(record.status).write_text(line, clock);
    line.push(b' ');
    Value::Number(record.bytes_out).write_text(line, clock);
    line.extend_from_slice(b" \"");
    Field::Referer.value(record, 0).write_text(line, clock);
    line.extend_from_slice(b"\" \"");
    Field::UserAgent.value(record, 0).write_text(line, clock);
    line.push(b'"');
}

/// Appends the request line, as far as it was parsed.
fn request(line: &mut Vec<u8>, record: &Record<'_>) {
    let parts = [record.method, record.target, record.version];
    if parts.iter().all(|part| part.is_empty()) {
        line.push(b'-');
        return;
    }
    let mut separate = false;
    for part in parts.into_iter().filter(|part| !part.is_empty()) {
        if std::mem::replace(&mut separate, true) {
            line.push(b' ');
        }
        escape::text(line, part);
    }
}

fn json(
    line: &mut Vec<u8>,
    record: &Record<'_>,
    clock: &WallClock,
    millis: u32,
    further: &[(Box<[u8]>, TemplatePart)],
) {
    let mut opening: &[u8] = b"{\"";
    let fields = if record.is_stream { Field::OF_STREAMS } else { Field::ALL };
    for &field in fields {
        if field.omit_in_json(record) {
            continue;
        }
        line.extend_from_slice(opening);
        line.extend_from_slice(field.name().as_bytes());
        line.extend_from_slice(b"\":");
        field.write_json(line, record, clock, millis);
        opening = b",\"";
    }
    for (key, part) in further {
        line.push(b',');
        line.extend_from_slice(key);
        match part {
            TemplatePart::Field(field) => field.write_json(line, record, clock, millis),
            TemplatePart::NamedField(named) => named.write_json(line, record.details),
            TemplatePart::Literal(_) => line.extend_from_slice(b"null"),
        }
    }
    line.push(b'}');
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::time::Duration;

    use proptest::prelude::*;
    use serde_json::Value as Json;

    use super::*;
    use crate::log::headers::tests::Known;
    use crate::record::sample;
    use crate::{Reason, TlsRecord};

    fn line(format: &Format, record: &Record<'_>) -> String {
        let mut line = Vec::new();
        format.write(&mut line, record, &mut WallClock::new());
        String::from_utf8(line).unwrap()
    }

    /// Returns the line with its time of day blanked.
    fn combined_line(record: &Record<'_>) -> String {
        let line = line(&Format::Combined, record);
        let (open, close) = (line.find('[').unwrap(), line.find(']').unwrap());
        assert_eq!(close - open - 1, "31/Jan/2026:23:59:59 +0000".len());
        format!("{}[T]{}", &line[..open], &line[close + 1..])
    }

    #[test]
    fn combined_is_nginxs() {
        let record = sample::record();
        let plain = "192.0.2.7 - - [T] \"GET /v1/items?page=2 HTTP/1.1\" 200 1234 \"-\" \"curl/8.5.0\"\n";
        assert_eq!(combined_line(&record), plain);
        let odd = Record {
            client: SocketAddr::from(([0, 0, 0, 0], 0)),
            referer: Some(b"http://x/\"\r\n"),
            user_agent: Some(b""),
            status: 0,
            ..record
        };
        let shown =
            "unix: - - [T] \"GET /v1/items?page=2 HTTP/1.1\" 000 1234 \"http://x/\\x22\\x0D\\x0A\" \"\"\n";
        assert_eq!(combined_line(&odd), shown);
        let unread = Record { method: b"", target: b"", version: b"", status: 400, ..record };
        assert!(combined_line(&unread).contains("[T] \"-\" 400 "));
        let known = Record { consumer: Some("alice b"), ..record };
        assert!(combined_line(&known).starts_with("192.0.2.7 - alice b [T] \"GET"));
        let short = Record { version: b"", ..record };
        assert!(combined_line(&short).contains("\"GET /v1/items?page=2\""));
    }

    #[test]
    fn a_template_shows_each_field() {
        let source: Vec<String> = Field::ALL.iter().map(|field| format!("{{{}}}", field.name())).collect();
        let format = Format::Template(Template::compile(&source.join(" ")).unwrap());
        let record = Record {
            reason: Reason::HttpResponseTimeout,
            status: 504,
            detail: Some("no head"),
            connect: Some(Duration::from_micros(70)),
            earlier: 1,
            details: &Known,
            cache: Some("expired"),
            consumer: Some("alice"),
            span: Some((0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736, 0x00f0_67aa_0ba9_02b7)),
            ..sample::record()
        };
        let shown = line(&format, &record);
        let (time, rest) = shown.split_once(' ').unwrap();
        assert!(time.len() == "2026-01-31T23:59:59.123Z".len() && time.ends_with('Z'), "{time}");
        let (_, rest) = rest.split_once("+0000 ").unwrap();
        let expected = "192.0.2.7 40312 192.0.2.7 40312 https GET /v1/items?page=2 /v1/items page=2 HTTP/1.1 api.example.com 1.3 \
                        TLS_AES_128_GCM_SHA256 api.example.com - - - - - 504 - \
                        http_response_timeout no head items shop 10.0.0.1:8080 10.0.0.2:80, 10.0.0.1:8080 -, 504 \
                        connection_refused, http_response_timeout 1.500, 2.500 expired 0 1234 \
                        0123456789abcdef0123456789abcdef alice 4bf92f3577b34da6a3ce929d0e0e4736 00f067aa0ba902b7 \
                        - curl/8.5.0 1 true 2.500 0.070 1.250 1.250\n";
        assert_eq!(rest, expected);
    }

    #[test]
    fn a_stream_has_the_fields_that_need_no_request() {
        let stream = Record {
            is_stream: true,
            method: b"",
            target: b"",
            version: b"TCP",
            tls: None,
            sni: Some("db.example.com"),
            alpn: Some(b"h2"),
            ja4: Some("t13d1516h2_8daaf6152771_e5627efa2ab1"),
            host: None,
            status: 0,
            reused: false,
            header: None,
            ..sample::record()
        };
        let value: Json = serde_json::from_str(&line(&Format::json(&[]), &stream)).unwrap();
        let keys: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
        let wanted = [
            "time",
            "client",
            "client_port",
            "scheme",
            "protocol",
            "sni",
            "alpn",
            "ja4",
            "reason",
            "route",
            "upstream",
            "endpoint",
            "bytes_in",
            "bytes_out",
            "attempts",
            "total_ms",
            "connect_ms",
        ];
        assert_eq!(keys, wanted);
        assert_eq!((&value["scheme"], &value["sni"]), (&Json::from("tls"), &Json::from("db.example.com")));
        let plain = Record { secure: false, sni: None, alpn: None, ja4: None, version: b"UDP", ..stream };
        let value: Json = serde_json::from_str(&line(&Format::json(&[]), &plain)).unwrap();
        assert_eq!((&value["scheme"], value.get("sni")), (&Json::from("udp"), None));
        assert!(combined_line(&plain).contains("[T] \"UDP\" 000 1234 "));
    }

    #[test]
    fn json_has_every_field_with_null_for_none() {
        let known = Record {
            cache: Some("hit"),
            consumer: Some("alice"),
            span: Some((0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736, 0x00f0_67aa_0ba9_02b7)),
            peer: SocketAddr::from(([10, 0, 0, 1], 5)),
            earlier: 1,
            details: &Known,
            tls: sample::record().tls.map(|tls| TlsRecord {
                client_fingerprint: Some("ab"),
                client_unverified: true,
                ..tls
            }),
            ..sample::record()
        };
        let value: Json = serde_json::from_str(&line(&Format::json(&[]), &known)).unwrap();
        assert_eq!(value["endpoints"], serde_json::json!(["10.0.0.2:80", "10.0.0.1:8080"]));
        assert_eq!(value["endpoint_statuses"], serde_json::json!([null, 200]));
        let further = [("x".to_owned(), "header.x-a".to_owned()), ("y\"".to_owned(), "cookie.no".to_owned())];
        let more: Json = serde_json::from_str(&line(&Format::json(&further), &known)).unwrap();
        assert_eq!((&more["x"], &more["y\""]), (&Json::from("1, \"2"), &Json::Null));
        let keys: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
        // Only streams have the last two.
        let without = [Field::TimeLocal, Field::Alpn, Field::Ja4];
        let wanted: Vec<&str> =
            Field::ALL.iter().filter(|field| !without.contains(field)).map(|field| field.name()).collect();
        assert_eq!(keys, wanted);
        assert_eq!((&value["status"], &value["total_ms"]), (&Json::from(200), &Json::from(2.5)));
        assert_eq!(
            (&value["client"], &value["client_port"]),
            (&Json::from("192.0.2.7"), &Json::from(40_312))
        );
        assert_eq!(value["reused"], true);
        assert!(value["connect_ms"].is_null() && value["reason"].is_null() && value["referer"].is_null());
        assert_eq!(
            (&value["consumer"], &value["span_id"]),
            (&Json::from("alice"), &Json::from("00f067aa0ba902b7"))
        );
        let plain: Json = serde_json::from_str(&line(&Format::json(&[]), &sample::record())).unwrap();
        let fields = plain.as_object().unwrap();
        assert!(
            ["cache_status", "consumer", "trace_id", "span_id", "peer", "peer_port"]
                .iter()
                .all(|name| !fields.contains_key(*name))
        );
    }

    proptest! {
        #[test]
        fn one_line_each_whatever_peers_send(
            target: Vec<u8>, agent: Vec<u8>, host: Option<Vec<u8>>, method: Vec<u8>, id: Option<Vec<u8>>,
            status: u16, micros: u64, bytes: u64,
        ) {
            let record = Record {
                target: &target,
                user_agent: Some(&agent),
                host: host.as_deref(),
                method: &method,
                request_id: id.as_deref(),
                status,
                bytes_out: bytes,
                total: Duration::from_micros(micros % 1_000_000_000),
                ..sample::record()
            };
            let shown = line(&Format::json(&[]), &record);
            let value: Json = serde_json::from_str(&shown).unwrap();
            prop_assert_eq!(&value["status"], &Json::from(status));
            prop_assert_eq!(&value["bytes_out"], &Json::from(bytes));
            if let Ok(agent) = std::str::from_utf8(&agent) {
                prop_assert_eq!(value["user_agent"].as_str(), Some(agent));
            }
            prop_assert_eq!(shown.matches('\n').count(), 1);

            let shown = line(&Format::Combined, &record);
            prop_assert_eq!(shown.matches('\n').count(), 1);
            prop_assert_eq!(shown.matches('"').count(), 6);

            let template = Format::Template(Template::compile("{target} {host} {path} {query}").unwrap());
            let shown = line(&template, &record);
            prop_assert!(shown.trim_end_matches('\n').bytes().all(|byte| (0x20..0x7f).contains(&byte)));
        }
    }
}
