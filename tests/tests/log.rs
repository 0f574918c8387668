//! The access log: formats, targets, rotation; and that it never delays traffic.

mod choice;
mod syslog;

use std::fs;

use tollgate_tests::{Gate, Gateway, Origin, Signal, eventually};

fn lines(path: &std::path::Path) -> Vec<String> {
    fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}

#[test]
fn json_tells_everything() {
    let origin = Origin::named("hello");
    let gateway = Gateway::start(&format!(
        "routes: [{{name: main, match: \"/*\", to: web}}]\nupstreams: {{web: \"{}\"}}\n",
        origin.address()
    ));
    let mut client = gateway.client();
    client.ask("POST /a%20b/../x?y=1 HTTP/1.1\r\nHost: h.example:80\r\nUser-Agent: ua \"q\"\r\nReferer: http://r/\r\nContent-Length: 3\r\n\r\nabc");
    client.get("/again");
    let records = gateway.wait_records(2);
    let record = &records[0];
    for (field, value) in [
        ("method", "POST"),
        ("target", "/a%20b/../x?y=1"),
        ("query", "y=1"),
        ("protocol", "HTTP/1.1"),
        ("route", "main"),
        ("upstream", "web"),
        ("user_agent", "ua \"q\""),
        ("referer", "http://r/"),
    ] {
        assert_eq!(record[field], value, "{field}: {record}");
    }
    assert!(record["host"].as_str().is_some_and(|host| host.starts_with("h.example")), "{record}");
    assert_eq!(record["client"], client.address().ip().to_string().as_str());
    assert_eq!(record["client_port"], client.address().port());
    assert_eq!(record["endpoint"], origin.address().to_string().as_str());
    for (field, value) in [("status", 200), ("bytes_in", 3), ("bytes_out", 5), ("attempts", 1)] {
        assert_eq!(record[field], value, "{field}: {record}");
    }
    assert_eq!((&record["reused"], &records[1]["reused"]), (&false.into(), &true.into()));
    for field in ["total_ms", "header_ms", "body_ms", "connect_ms"] {
        assert!(record[field].as_f64().is_some_and(|ms| (0.0..20_000.0).contains(&ms)), "{field}: {record}");
    }
    assert!(record["request_id"].is_null() && record["reason"].is_null(), "{record}");
}

#[test]
fn durations_match_the_phases() {
    let gate = Gate::default();
    let has_head = gate.clone();
    let origin = Origin::play(move |conn| {
        while conn.request().is_some() {
            conn.pause(std::time::Duration::from_millis(150));
            conn.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nha");
            // The client has the head, and so has the worker.
            has_head.wait();
            conn.pause(std::time::Duration::from_millis(150));
            conn.send("lf");
        }
    });
    let gateway = Gateway::to(&origin);
    let mut client = gateway.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut response = client.head();
    gate.open();
    client.try_body(&mut response).expect("a body");
    assert_eq!(response.text(), "half");
    let record = &gateway.wait_records(1)[0];
    let ms = |field: &str| record[field].as_f64().expect("a number");
    assert!(ms("header_ms") >= 149.0 && ms("body_ms") >= 140.0, "{record}");
    assert!(ms("total_ms") >= ms("header_ms") + ms("body_ms") - 1.0, "{record}");
    assert!(ms("connect_ms") < ms("header_ms"), "{record}");
}

#[test]
fn combined_is_nginx_s() {
    let origin = Origin::named("hello");
    let gateway = Gateway::with(&origin, "access_log: $DIR/combined.log");
    let file = gateway.directory().join("combined.log");
    gateway.client().ask("GET /x?y HTTP/1.1\r\nHost: a\r\nUser-Agent: a\"b\\c\r\n\r\n");
    eventually("a line", || lines(&file).len() == 1);
    let line = lines(&file).remove(0);
    let (start, end) = line.split_once(" - - [").expect("client and time");
    assert_eq!(start, "127.0.0.1");
    let (time, end) = end.split_once("] ").expect("time");
    assert!(time.len() == 26 && time.ends_with(" +0000"), "{time}");
    assert_eq!(end, "\"GET /x?y HTTP/1.1\" 200 5 \"-\" \"a\\x22b\\x5Cc\"");
}

#[test]
fn templates_name_fields() {
    let origin = Origin::named("hello");
    let gateway = Gateway::with(
        &origin,
        "access_log: {to: $DIR/own.log, format: '{{x}} {status} {method} {path} {reason} {route} {bytes_out} {request_id}'}",
    );
    let file = gateway.directory().join("own.log");
    gateway.client().get("/x?y");
    eventually("a line", || lines(&file).len() == 1);
    let line = lines(&file).remove(0);
    assert!(line.starts_with("{x} 200 GET /x - ") && line.ends_with(" 5 -"), "{line}");
}

#[test]
fn stdout_is_a_target() {
    let origin = Origin::ok();
    let gateway = Gateway::with(&origin, "access_log: {to: stdout, format: json}");
    gateway.client().get("/to-stdout");
    eventually("a line", || gateway.stdout().contains("\"/to-stdout\""));
}

#[test]
fn clients_cannot_forge_a_line() {
    let origin = Origin::ok();
    for format in ["json", "combined"] {
        let gateway = Gateway::with(&origin, &format!("access_log: {{to: $DIR/f.log, format: {format}}}"));
        let file = gateway.directory().join("f.log");
        let mut client = gateway.client();
        client.ask(b"GET /%0a?\"}{ HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut client = gateway.client();
        client.ask(b"GET /ok?\"\\{}\xc3\xa9' HTTP/1.1\r\nHost: a\r\nUser-Agent: \xff\"\\\t{\"a\":1}\r\nReferer: \" 200 5 \"\r\n\r\n");
        let mut client = gateway.client();
        client.ask(b"\"x\" / HTTP/1.1\r\n\r\n");
        eventually("three lines", || lines(&file).len() >= 3);
        let lines = lines(&file);
        assert_eq!(lines.len(), 3, "{lines:#?}");
        for line in lines {
            if format == "json" {
                serde_json::from_str::<serde_json::Value>(&line).unwrap_or_else(|e| panic!("{e}: {line}"));
            } else {
                assert_eq!(line.matches('"').count(), 6, "{line}");
                assert!(line.is_ascii(), "{line}");
            }
        }
    }
}

#[test]
fn refused_requests_have_their_line() {
    let origin = Origin::ok();
    let gateway = Gateway::to(&origin);
    gateway.client().ask("GARBAGE\r\n\r\n");
    gateway.client().ask("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n");
    let records = gateway.wait_records(2);
    assert_eq!((&records[0]["reason"], &records[0]["status"]), (&"bad_request_line".into(), &400.into()));
    assert_eq!((&records[1]["reason"], &records[1]["status"]), (&"ambiguous_length".into(), &400.into()));
    assert!(
        records.iter().all(|record| record["attempts"] == 0 && record["upstream"].is_null()),
        "{records:#?}"
    );
    gateway.reconcile(&[&origin]);
}

#[test]
fn the_bytes_at_fault_are_in_the_line() {
    let origin = Origin::ok();
    let gateway = Gateway::to(&origin);
    let long = "x".repeat(5_000);
    let mut count = 0;
    for (text, detail) in [
        ("GET  /a HTTP/1.1\r\nHost: a\r\n\r\n", "GET  /a HTTP/1.1"),
        ("\u{16}\u{3}\u{1}\r\n\r\n", "\\x16\\x03\\x01"),
        ("GET / HTTP/9.1\r\n\r\n", "GET / HTTP/9.1"),
        ("GET / HTTP/1.1\r\nHost: a\r\nX : y\r\n\r\n", "X : y"),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: \"y\u{1}\r\n\r\n", "X: \\\"y\\x01"),
        ("GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Basic secret\u{1}\r\n\r\n", "Authorization: \\x01"),
        ("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", "Host: a b"),
        ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n", "Content-Length: +1"),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;a[b\r\nhello", "5;a[b"),
    ] {
        gateway.client().ask(text);
        count += 1;
        let records = gateway.wait_records(count);
        assert_eq!(records[count - 1]["detail"], detail, "{text:?}: {records:#?}");
    }
    // The detail shows only the start of a long line.
    gateway.client().ask(format!("GET /{long} b HTTP/1.1\r\nHost: a\r\n\r\n"));
    let record = &gateway.wait_records(count + 1)[count];
    assert!(record["detail"].as_str().is_some_and(|detail| (20..=64).contains(&detail.len())), "{record}");
    let mut frames = gateway.frames(&[]);
    for (stream, fields, detail) in [
        (
            1,
            vec![(":method", "GET"), (":path", "a b"), (":scheme", "http"), (":authority", "a")],
            ":path: a b",
        ),
        (3, [&tollgate_tests::frames::pseudo("/")[..], &[("Upper", "case")]].concat(), "Upper: case"),
        (
            5,
            [&tollgate_tests::frames::pseudo("/")[..], &[("host", "b")]].concat(),
            ":authority: a.example, host: b",
        ),
    ] {
        frames.ask(stream, &fields);
        frames
            .wait_for(|frame| frame.stream == stream && frame.kind == tollgate_tests::frames::kind::HEADERS);
        count += 1;
        let record = &gateway.wait_records(count + 1)[count];
        assert!(record["detail"].as_str().is_some_and(|found| found.contains(detail)), "{detail}: {record}");
    }
}

#[test]
fn it_is_opened_again_on_a_signal() {
    let origin = Origin::ok();
    let gateway = Gateway::to(&origin);
    let (file, moved) = (gateway.log_file(), gateway.directory().join("moved.log"));
    assert_eq!(gateway.client().get("/before").status, 200);
    eventually("the first line", || lines(&file).len() == 1);
    fs::rename(&file, &moved).expect("moved");
    gateway.signal(Signal::USR1);
    eventually("a new file", || file.exists());
    assert_eq!(gateway.client().get("/after").status, 200);
    eventually("the second line", || lines(&file).len() == 1);
    assert!(lines(&file)[0].contains("/after") && lines(&moved)[0].contains("/before"));
    assert_eq!(lines(&moved).len(), 1);
}

#[test]
fn a_full_disk_stalls_no_request_and_drops_are_counted() {
    let origin = Origin::ok();
    let gateway = Gateway::with(&origin, "access_log: {to: /dev/full, format: json}");
    let mut client = gateway.client();
    // Enough to fill the queue of waiting lines: 4 MiB for each worker.
    let target = format!("/{}", "x".repeat(7000));
    for _ in 0..1500 {
        assert_eq!(client.get(&target).status, 200);
    }
    eventually("drops to be counted", || {
        gateway.metrics().sum("tollgate_access_log_dropped_total", "").is_some_and(|n| n > 0.0)
    });
    assert_eq!(client.get("/").status, 200);
    assert!(gateway.peak_kib() < 48 << 10, "{} KiB", gateway.peak_kib());
}

#[test]
fn an_unread_pipe_stalls_no_request() {
    let origin = Origin::ok();
    let directory = std::env::temp_dir().join(format!("tollgate-e2e-pipe-{}", std::process::id()));
    fs::create_dir_all(&directory).expect("a directory");
    let pipe = directory.join("log.pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs");
    assert!(made.success());
    // The pipe is held open but never read.
    let held = fs::OpenOptions::new().read(true).write(true).open(&pipe).expect("the pipe opens");
    let gateway = Gateway::with(&origin, &format!("access_log: {{to: {}, format: json}}", pipe.display()));
    let mut client = gateway.client();
    let target = format!("/{}", "x".repeat(7000));
    for _ in 0..300 {
        assert_eq!(client.get(&target).status, 200);
    }
    drop(client);
    drop(gateway);
    drop(held);
    let _ = fs::remove_dir_all(&directory);
}

#[test]
fn it_is_whole_at_the_end() {
    let origin = Origin::ok();
    let mut gateway = Gateway::to(&origin);
    let mut client = gateway.client();
    for _ in 0..100 {
        assert_eq!(client.get("/").status, 200);
    }
    drop(client);
    gateway.signal(Signal::TERM);
    assert_eq!(gateway.wait_exit().code(), Some(0));
    assert_eq!(gateway.records().len(), 100);
}
