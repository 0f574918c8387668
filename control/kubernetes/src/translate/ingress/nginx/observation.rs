//! Logs and traces.

use super::reader::Reader;
use super::wanted::Wanted;

pub fn read(reader: &mut Reader<'_>, wanted: &mut Wanted) {
    if reader.flag("enable-access-log") == Some(false) {
        wanted.route.insert("access_log".to_owned(), "off".into());
    }
    if reader.flag("enable-opentelemetry") == Some(false) {
        reader.same("enable-opentelemetry");
        wanted.policies.insert("trace".to_owned(), "off".into());
    }
    if reader.is_on("enable-opentelemetry") {
        let instead = "`policies.trace` in the gateway's file switches traces on for all routes";
        reader.unsupported("enable-opentelemetry", instead);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::translate::ingress::nginx::tests::read_all;

    #[test]
    fn switches() {
        let reading = read_all(&[("enable-access-log", "false"), ("enable-opentelemetry", "false")]);
        assert_eq!(reading.wanted.route["access_log"], json!("off"));
        assert_eq!(reading.wanted.policies["trace"], json!("off"));
        let reading = read_all(&[("enable-access-log", "true"), ("enable-opentelemetry", "true")]);
        assert!(reading.wanted.route.is_empty() && reading.wanted.policies.is_empty());
        let trace = reading.findings.iter().find(|one| one.annotation == "enable-opentelemetry");
        assert!(trace.is_some_and(|one| !one.is_same()));
    }
}
