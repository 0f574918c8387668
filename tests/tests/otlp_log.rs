//! The access log, sent to an OpenTelemetry collector.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;
use tollgate_tests::{
    Authority, Gateway, Origin, Request, Signal, TlsOrigin, binary, eventually, free_address, refused_address,
};

/// Starts a collector that accepts everything.
fn collector() -> Origin {
    Origin::fixed("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
}

/// Returns all records that a collector received.
fn records(collector: &Origin) -> Vec<Value> {
    let documents = collector.whole_requests().into_iter().map(|request| {
        assert_eq!((request.method.as_str(), request.target.as_str()), ("POST", "/v1/logs"));
        assert_eq!(request.headers.get("Content-Type"), Some("application/json"));
        serde_json::from_slice::<Value>(&request.body).expect("JSON")
    });
    let scopes = documents.flat_map(|document| {
        let resource = &document["resourceLogs"][0];
        assert_eq!(resource["resource"]["attributes"][0]["value"]["stringValue"], "door");
        resource["scopeLogs"][0]["logRecords"].as_array().expect("records").clone()
    });
    scopes.collect()
}

fn fact<'a>(record: &'a Value, key: &str) -> &'a Value {
    let attributes = record["attributes"].as_array().expect("attributes");
    let found = attributes.iter().find(|attribute| attribute["key"] == key);
    &found.unwrap_or_else(|| panic!("no {key} in {record}"))["value"]
}

/// Starts a gateway whose log goes only to the collector.
fn gateway(origin: &Origin, url: &str) -> Gateway {
    Gateway::start(&format!(
        "access_log: {{to: \"off\", otlp: {{url: \"{url}\", service: door, headers: {{X-Token: t}}}}}}\n\
         routes: [{{name: r, to: \"{}\"}}]\n",
        origin.address()
    ))
}

#[test]
fn every_line_is_exported() {
    let (origin, collector) = (Origin::ok(), collector());
    let gateway = gateway(&origin, &format!("http://{}/v1/logs", collector.address()));
    let mut client = gateway.client();
    for n in 0..20 {
        assert_eq!(client.get(&format!("/a/{n}?b=c")).status, 200);
    }
    assert_eq!(gateway.http2().get("/two").status, 200);
    assert_eq!(gateway.client().ask("GET /%00 HTTP/1.1\r\nHost: a\r\n\r\n").status, 400);
    eventually("all are told", || records(&collector).len() == 22);
    let reported = records(&collector);
    let one =
        reported.iter().find(|record| record["body"]["stringValue"] == "GET /a/7?b=c 200").expect("the one");
    for (key, value) in [
        ("http.request.method", "GET"),
        ("url.path", "/a/7"),
        ("url.query", "b=c"),
        ("http.route", "r"),
        ("client.address", "127.0.0.1"),
    ] {
        assert_eq!(fact(one, key)["stringValue"], value, "{key}");
    }
    assert_eq!(fact(one, "http.response.status_code")["intValue"], "200");
    assert!(one["timeUnixNano"].as_str().expect("a time").len() == 19, "{one}");
    let bad =
        reported.iter().find(|record| record["body"]["stringValue"] == "GET /%00 400").expect("the bad one");
    assert_eq!(fact(bad, "error.type")["stringValue"], "bad_path");
    // Timing decides whether they arrive in one batch or in several.
    let marked = |request: &Request| request.headers.get("X-Token") == Some("t");
    assert!(collector.requests().iter().all(marked));
    let lines = gateway.metrics().sum("tollgate_access_log_lines_total", "").unwrap_or(0.0);
    assert_eq!(lines, 22.0);
}

#[test]
fn a_collector_that_is_dead_costs_lines_and_no_requests() {
    let origin = Origin::ok();
    let gateway = gateway(&origin, &format!("http://{}/v1/logs", refused_address()));
    let mut client = gateway.client();
    for _ in 0..50 {
        assert_eq!(client.get("/").status, 200);
    }
    eventually("they are counted", || {
        gateway.metrics().sum("tollgate_access_log_dropped_total", "") == Some(50.0)
    });
    // Timing decides how many were lost by then: the gateway reports the loss at once, and not for every
    // batch.
    eventually("it is said", || gateway.stderr().contains(" lines are lost so far"));
    // A reload sets a collector that works.
    let collector = collector();
    gateway.write_config(&format!(
        "listen: $LISTEN\nadmin: $ADMIN\naccess_log: {{to: \"off\", otlp: {{url: \"http://{}/v1/logs\", service: door}}}}\n\
         routes: [{{to: \"{}\"}}]\n",
        collector.address(),
        origin.address()
    ));
    gateway.signal(Signal::HUP);
    eventually("it is told", || client.get("/").status == 200 && !records(&collector).is_empty());
}

/// A receiver with the data model of OpenTelemetry's collector. The drop ends it.
struct Receiver {
    child: Child,
    address: SocketAddr,
    reported: PathBuf,
}

impl Receiver {
    fn start() -> Self {
        let target =
            binary().parent().and_then(|profile| profile.parent()).expect("a target folder").to_owned();
        let program = target.join("tools/otlp-receiver");
        assert!(program.exists(), "{} is not there: run scripts/install-otlp-receiver", program.display());
        let address = free_address();
        let reported = std::env::temp_dir().join(format!("tollgate-otlp-{}.json", std::process::id()));
        let file = fs::File::create(&reported).expect("a temporary file");
        let mut command = Command::new(program);
        command.arg(address.to_string()).stdin(Stdio::null()).stdout(file).stderr(Stdio::null());
        let receiver = Self { child: command.spawn().expect("it starts"), address, reported };
        eventually("the receiver to listen", || TcpStream::connect(address).is_ok());
        receiver
    }

    /// Returns the received documents as the receiver parsed them.
    fn reported(&self) -> Vec<Value> {
        let text = fs::read_to_string(&self.reported).unwrap_or_default();
        text.lines().map_while(|line| serde_json::from_str(line).ok()).collect()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let _ = self.child.kill().and_then(|()| self.child.wait());
        let _ = fs::remove_file(&self.reported);
    }
}

/// Returns the value of an attribute of a record or span by its key.
fn attribute(of: &Value, key: &str) -> Option<Value> {
    let all = of["attributes"].as_array()?;
    all.iter().find(|attribute| attribute["key"] == key).map(|attribute| attribute["value"].clone())
}

#[test]
fn opentelemetrys_data_model_understands_lines_and_spans() {
    let (origin, collector) = (Origin::ok(), Receiver::start());
    let (to, url) = (origin.address(), format!("http://{}/v1", collector.address));
    let gateway = Gateway::start(&format!(
        "access_log: {{to: \"$DIR/access.log\", otlp: {{url: \"{url}/logs\", service: door, \
         resource: {{deployment.environment.name: test}}}}}}\n\
         policies: {{trace: {{otlp: \"{url}/traces\", resource: {{deployment.environment.name: test}}}}}}\n\
         routes: [{{name: r, to: \"{to}\"}}]\n",
    ));
    gateway.client().get("/a?b=\"%C3%BC\"");
    let find =
        |key: &str| collector.reported().into_iter().find_map(|document| Some(document.get(key)?[0].clone()));
    eventually("lines and spans", || find("resourceLogs").is_some() && find("resourceSpans").is_some());
    let (logs, spans) = (find("resourceLogs").expect("logs"), find("resourceSpans").expect("spans"));
    for (document, service) in [(&logs, "door"), (&spans, "tollgate")] {
        let resource = &document["resource"];
        assert_eq!(attribute(resource, "service.name").expect("one")["stringValue"], service);
        let environment = attribute(resource, "deployment.environment.name");
        assert_eq!(environment.expect("one")["stringValue"], "test");
    }
    let record = &logs["scopeLogs"][0]["logRecords"][0];
    assert_eq!(record["severityText"], "INFO");
    assert_eq!(attribute(record, "url.path").expect("a path")["stringValue"], "/a");
    assert_eq!(attribute(record, "http.response.status_code").expect("a status")["intValue"], "200");
    assert!(attribute(record, "tollgate.total_ms").expect("a time")["doubleValue"].is_number(), "{record}");
    let span = &spans["scopeSpans"][0]["spans"][0];
    assert_eq!(attribute(span, "http.route").expect("a route")["stringValue"], "r");
    assert!(!fs::read_to_string(gateway.log_file()).expect("the file is there, too").is_empty());
}

#[test]
fn a_collector_that_is_busy_is_asked_again() {
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    let busy = Origin::play(|conn| {
        while conn.request().is_some() {
            match ASKED.fetch_add(1, Ordering::SeqCst) {
                0 => conn.send("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"),
                _ => conn.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"),
            };
        }
    });
    let origin = Origin::ok();
    let gateway = gateway(&origin, &format!("http://{}/v1/logs", busy.address()));
    gateway.client().get("/once");
    eventually("it is told again", || busy.count() == 2);
    let (first, second) = (&busy.requests()[0], &busy.requests()[1]);
    assert_eq!(first.body, second.body);
    assert_eq!(gateway.metrics().sum("tollgate_access_log_dropped_total", ""), Some(0.0));
    // A batch that the collector rejects permanently is not sent again.
    let refuses = Origin::fixed("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    let refused = self::gateway(&origin, &format!("http://{}/v1/logs", refuses.address()));
    refused.client().get("/once");
    eventually("it is lost", || refused.metrics().sum("tollgate_access_log_dropped_total", "") == Some(1.0));
    assert_eq!(refuses.count(), 1);
}

#[test]
fn the_last_lines_are_exported_before_exit() {
    let (origin, collector) = (Origin::ok(), collector());
    let mut gateway = gateway(&origin, &format!("http://{}/v1/logs", collector.address()));
    let mut client = gateway.client();
    for _ in 0..5 {
        client.get("/");
    }
    drop(client);
    gateway.signal(Signal::TERM);
    assert!(gateway.wait_exit().success());
    assert_eq!(records(&collector).len(), 5);
}

#[test]
fn a_collector_proves_who_it_is() {
    const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
    let (origin, authority) = (Origin::ok(), Authority::new());
    let own = authority.issue(&["127.0.0.1"]);
    let collector = TlsOrigin::start(&own, None, OK, None);
    let directory = std::env::temp_dir().join(format!("tollgate-otlp-tls-{}", std::process::id()));
    fs::create_dir_all(&directory).expect("a temporary directory");
    for (authority, trusted) in [(&authority, true), (&Authority::new(), false)] {
        let ca = directory.join(format!("{trusted}.pem"));
        fs::write(&ca, authority.pem()).expect("written");
        let gateway = Gateway::start(&format!(
            "access_log: {{to: \"off\", otlp: {{url: \"https://{}/v1/logs\", ca: \"{}\"}}}}\nroutes: [{{to: \"{}\"}}]\n",
            collector.address(),
            ca.display(),
            origin.address()
        ));
        gateway.client().get("/");
        match trusted {
            true => eventually("it is told", || collector.heads().len() == 1),
            false => eventually("it is lost", || {
                gateway.metrics().sum("tollgate_access_log_dropped_total", "") == Some(1.0)
            }),
        }
    }
    assert_eq!(collector.heads().len(), 1, "a stranger is told nothing");
    assert!(collector.heads()[0].starts_with("POST /v1/logs "), "{:?}", collector.heads());
    fs::remove_dir_all(directory).expect("the directory is ours");
}
