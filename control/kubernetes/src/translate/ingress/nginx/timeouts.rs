//! Timeouts. Their unit is the second.

use serde_json::Value;

use super::reader::Reader;
use super::wanted::Wanted;

pub fn read(reader: &mut Reader<'_>, wanted: &mut Wanted) {
    if let Some(time) = seconds(reader, "proxy-connect-timeout") {
        wanted.set_route("timeouts", "connect", time);
    }
    if let Some(time) = seconds(reader, "proxy-send-timeout") {
        wanted.set_route("timeouts", "send", time);
    }
    if let Some(time) = seconds(reader, "proxy-read-timeout") {
        // It is the time between two reads, of the head, of the body, and of an upgraded connection.
        for key in ["response_header", "response_body", "upgraded"] {
            wanted.set_route("timeouts", key, time.clone());
        }
    }
}

/// The longest time that the gateway takes, in seconds: a year.
const SECONDS_MAX: u64 = 31_536_000;

/// Returns a time in the gateway's form, a year at most. Zero is refused, since it would be no timeout at all or none to meet.
pub fn seconds(reader: &mut Reader<'_>, annotation: &str) -> Option<Value> {
    match reader.number(annotation)? {
        0 => {
            reader.invalid(annotation, "a timeout of 0 seconds cannot be met");
            None
        }
        seconds => Some(format!("{}s", seconds.min(SECONDS_MAX)).into()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::translate::ingress::nginx::tests::read_all;

    #[test]
    fn timeouts_are_seconds() {
        let reading = read_all(&[
            ("proxy-connect-timeout", "7"),
            ("proxy-read-timeout", "3600"),
            ("proxy-send-timeout", "5"),
        ]);
        let expected = json!({
            "connect": "7s", "send": "5s", "response_header": "3600s", "response_body": "3600s", "upgraded": "3600s",
        });
        assert_eq!(reading.wanted.route.get("timeouts"), Some(&expected));
        for wrong in ["0", "5s", "-1", "1.5"] {
            let reading = read_all(&[("proxy-read-timeout", wrong)]);
            assert!(reading.wanted.route.is_empty() && !reading.findings[0].is_same(), "{wrong}");
        }
    }
}
