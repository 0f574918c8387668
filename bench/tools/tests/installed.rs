//! Runs every installed tool against a server that counts.

mod server;

use server::{BODY, Server};
use std::io::Write;
use std::time::Duration;
use tollgate_lab_record::{Failures, LoadModel, LoadResult};
use tollgate_lab_tools::{
    Choice, Found, Header, HttpVersion, Length, Program, RateSupport, Request, Tool, ToolPaths,
};

const CONNECTIONS: u32 = 4;

/// Returns the tool, or reports past the test runner that it is not installed.
fn installed(tool: Tool) -> Option<Program> {
    match tool.find(&ToolPaths::of_user()) {
        Found::Here(program) => Some(program),
        Found::Missing { how_to_get } => {
            let _ =
                writeln!(std::io::stderr(), "not tested, since it is not installed: {tool} ({how_to_get})");
            None
        }
    }
}

fn request(tool: Tool, server: &Server, path: &str) -> Request {
    let able = tool.abilities();
    let length = if able.count { Length::Count(2000) } else { Length::Time(Duration::from_secs(1)) };
    let threads = if able.threads == Choice::Connections { CONNECTIONS } else { 1 };
    Request { threads, version: able.version, ..Request::new(server.url(path), CONNECTIONS, length) }
}

/// Runs the tool. A tool that cannot limit the number of requests in a closed loop runs for a second instead.
fn run(tool: Tool, program: &Program, request: &mut Request) -> LoadResult {
    let invocation = tool.command(request).unwrap_or_else(|_| {
        request.length = Length::Time(Duration::from_secs(1));
        tool.command(request).unwrap()
    });
    let dir = tempfile::tempdir().unwrap();
    let output = invocation.start(program, &[], dir.path()).unwrap().wait(Duration::from_secs(120)).unwrap();
    let result = tool.parse(request, &output).unwrap_or_else(|error| panic!("{error}\n{output:?}"));
    assert_eq!((result.tool.as_str(), &result.command), (tool.name(), &invocation.line()));
    result
}

/// Returns how many more requests the server may have seen than the tool counted: the ones in flight at the
/// end, and fortio's first round.
fn slack(request: &Request) -> u64 {
    2 * u64::from(request.connections)
}

fn close_to(server: &Server, result: &LoadResult, request: &Request) {
    let (reported, seen) = (result.ok + result.failures.total(), server.requests());
    assert!(
        reported <= seen && seen <= reported + slack(request),
        "{} told {reported}, the server saw {seen}",
        result.tool
    );
    if let Length::Count(count) = request.length {
        assert_eq!(reported, count, "{result:?}");
    }
}

fn kept(tool: Tool, program: &Program) {
    let server = Server::start();
    let mut request = request(tool, &server, "/");
    let result = run(tool, program, &mut request);
    close_to(&server, &result, &request);
    assert_eq!(result.failures.total(), 0, "{result:?}");
    assert!(result.ok > 0 && result.seconds > 0.0 && result.keep_alive, "{result:?}");
    assert!(
        server.connections() <= u64::from(2 * CONNECTIONS),
        "{} connections of {tool} for {} requests",
        server.connections(),
        server.requests()
    );
    if !result.statuses.is_empty() {
        assert_eq!(result.statuses.get(&200), Some(&result.ok));
    }
    if let Some(bytes) = result.body_bytes.filter(|_| matches!(request.length, Length::Count(_))) {
        assert_eq!(bytes, result.ok * BODY.len() as u64);
    }
    if let Some(times) = result.latency() {
        assert!(times.mean_us > 0.0 && times.mean_us < 1e8, "{times:?}");
        assert!(times.percentiles.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1), "{times:?}");
    }
}

fn closed(tool: Tool, program: &Program) {
    let server = Server::start();
    let mut request = Request { keep_alive: false, ..request(tool, &server, "/") };
    let result = run(tool, program, &mut request);
    close_to(&server, &result, &request);
    assert!(!result.keep_alive && result.failures.total() == 0, "{result:?}");
    assert!(server.connections() >= server.requests(), "{tool} kept connections");
}

fn statuses(tool: Tool, program: &Program) {
    let server = Server::start();
    let mut wrong = request(tool, &server, "/404");
    let result = run(tool, program, &mut wrong);
    assert!(result.ok == 0 && result.failures.status > 0, "{result:?}");
    close_to(&server, &result, &wrong);

    let server = Server::start();
    let mut right = Request { status: Some(404), ..request(tool, &server, "/404") };
    let result = run(tool, program, &mut right);
    assert!(result.ok > 0 && result.failures.total() == 0, "{result:?}");
}

fn posted(tool: Tool, program: &Program) {
    let server = Server::start();
    let mut request = Request {
        method: "POST".into(),
        body: b"a \"quoted\"\nline".to_vec(),
        headers: vec![
            Header::new("Content-Type", "text/x-lab"),
            Header::new("X-Lab", "one two"),
            Header::new("Host", "lab.example"),
        ],
        ..request(tool, &server, "/")
    };
    let result = run(tool, program, &mut request);
    let (head, body) = server.last();
    assert!(result.ok > 0 && result.failures.total() == 0, "{result:?}");
    assert_eq!(body, request.body, "{tool} sent {head}");
    let head = head.to_ascii_lowercase();
    for line in ["content-type: text/x-lab\r\n", "x-lab: one two\r\n", "host: lab.example\r\n"] {
        assert_eq!(head.matches(line).count(), 1, "{tool} sent {head}");
    }
    assert_eq!(head.matches("\nhost:").count(), 1, "{tool} sent {head}");
    let version = if request.version == HttpVersion::Http10 { "http/1.0" } else { "http/1.1" };
    assert!(head.starts_with(&format!("post / {version}\r\n")), "{tool} sent {head}");
}

fn at_a_rate(tool: Tool, program: &Program) {
    let server = Server::start();
    let mut request = Request {
        model: LoadModel::Constant { rps: 40.0 },
        length: Length::Time(Duration::from_secs(1)),
        ..request(tool, &server, "/")
    };
    if tool.abilities().rate == RateSupport::None {
        assert!(tool.command(&request).unwrap_err().reason.contains("has no rate"));
        return;
    }
    let result = run(tool, program, &mut request);
    assert_eq!(result.failures.total(), 0, "{result:?}");
    close_to(&server, &result, &request);
    assert!(result.ok <= 40 + slack(&request), "{} requests in a second at 40 a second", result.ok);
    assert_eq!(result.response_time.is_some(), tool.abilities().rate == RateSupport::Corrected, "{result:?}");
}

fn in_turn(tool: Tool, program: &Program) {
    let server = Server::start();
    let mut request = request(tool, &server, "/");
    request.urls.push(server.url("/404"));
    if !tool.abilities().several_urls {
        assert!(tool.command(&request).unwrap_err().reason.contains("takes one URL, not 2"));
        return;
    }
    let result = run(tool, program, &mut request);
    let (ok, failed) = (result.ok, result.failures.status);
    assert!(
        ok.abs_diff(failed) <= u64::from(2 * CONNECTIONS) && result.failures.total() == failed,
        "{result:?}"
    );
    close_to(&server, &result, &request);
}

fn connection_refused(tool: Tool, program: &Program) {
    // The port was just closed: no server answers there.
    let url = Server::start().url("/");
    let request = Request { urls: vec![url], ..request(tool, &Server::start(), "/") };
    let invocation = tool.command(&request).or_else(|_| {
        tool.command(&Request { length: Length::Time(Duration::from_secs(1)), ..request.clone() })
    });
    let dir = tempfile::tempdir().unwrap();
    let output =
        invocation.unwrap().start(program, &[], dir.path()).unwrap().wait(Duration::from_secs(120)).unwrap();
    match tool.parse(&request, &output) {
        Ok(result) => {
            assert_eq!(result.ok, 0, "{result:?}");
            let Failures { connect, read, .. } = result.failures;
            // ab reports a refused connection only as broken.
            let named = if tool == Tool::Ab { read } else { connect };
            assert!(named > 0 && result.failures.total() == named, "{result:?}");
        }
        Err(error) => {
            let text = error.to_string();
            assert!(text.starts_with(&format!("{tool}: expected ")), "{text}");
            assert!(text.to_lowercase().contains("refused"), "{text}");
        }
    }
}

macro_rules! installed {
    ($($name:ident $tool:ident,)*) => {$(
        #[test]
        fn $name() {
            let Some(program) = installed(Tool::$tool) else { return };
            for check in [kept, closed, statuses, posted, at_a_rate, in_turn, connection_refused] {
                check(Tool::$tool, &program);
            }
        }
    )*};
}

installed! {
    ab Ab,
    bombardier Bombardier,
    fortio Fortio,
    gatling Gatling,
    h2load H2load,
    hey Hey,
    k6 K6,
    oha Oha,
    siege Siege,
    vegeta Vegeta,
    wrk Wrk,
}

#[test]
fn wrk2_runs_at_a_rate() {
    if let Some(program) = installed(Tool::Wrk2) {
        at_a_rate(Tool::Wrk2, &program);
    }
}

#[test]
fn wrk_does_not_send_a_header_without_its_space() {
    let Some(program) = installed(Tool::Wrk) else { return };
    let server = Server::start();
    let mut request = Request {
        headers: vec![Header::Verbatim("Connection:Close".into())],
        ..request(Tool::Wrk, &server, "/")
    };
    run(Tool::Wrk, &program, &mut request);
    let (head, _) = server.last();
    assert!(!head.to_ascii_lowercase().contains("connection:"), "{head}");
    assert!(server.connections() < server.requests());
}

#[test]
fn h2load_tells_its_phases_and_counts_none_of_its_warm_up() {
    let Some(program) = installed(Tool::H2load) else { return };
    let server = Server::start();
    let mut request = Request {
        model: LoadModel::Constant { rps: 200.0 },
        length: Length::Time(Duration::from_millis(500)),
        warm_up: Duration::from_millis(500),
        ..request(Tool::H2load, &server, "/")
    };
    let dir = tempfile::tempdir().unwrap();
    let call = Tool::H2load.command(&request).unwrap();
    let output = call.start(&program, &[], dir.path()).unwrap().wait(Duration::from_secs(120)).unwrap();
    let (measuring, measured) = Tool::H2load.phases().unwrap();
    let at = |words: &str| output.stdout.lines().position(|line| line.starts_with(words));
    assert!(at(measuring).is_some() && at(measuring) < at(measured), "{}", output.stdout);
    let result = Tool::H2load.parse(&request, &output).unwrap();
    assert!(result.ok > 0 && result.ok + u64::from(CONNECTIONS) < server.requests(), "{result:?}");
    let whole = {
        request.warm_up = Duration::ZERO;
        Tool::H2load.parse(&request, &output).unwrap().seconds
    };
    assert!((whole - result.seconds - 0.5).abs() < 1e-6, "{} s of {whole} s", result.seconds);
}
