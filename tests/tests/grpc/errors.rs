//! The gateway's own errors in gRPC form.

use tollgate_tests::http2::request;
use tollgate_tests::{Gateway, Response, refused_address};

const GRPC: (&str, &str) = ("content-type", "application/grpc+proto");

/// Returns what a gRPC client reads from an answer without a body: code, message and reason.
fn reported(response: &Response) -> (&str, &str, &str) {
    assert_eq!(response.status, 200, "{response:?}");
    assert!(response.body.is_empty() && response.trailers.0.is_empty(), "{response:?}");
    assert_eq!(response.header("content-type"), Some("application/grpc"));
    assert!(!response.headers.has("content-length"), "{response:?}");
    let field = |name: &str| response.header(name).unwrap_or("-");
    (field("grpc-status"), field("grpc-message"), field("tollgate-reason"))
}

#[test]
fn an_error_is_a_head_alone() {
    let nobody = refused_address();
    let gateway = Gateway::start(&format!(
        "request_id: {{header: x-request-id}}\nroutes:\n\
         - {{name: gone, match: {{grpc: shop.Orders}}, to: \"h2c://{nobody}\", limits: {{body: 10B}}}}\n\
         - {{match: {{grpc: shop.Stock/Count}}, to: \"h2c://{nobody}\"}}\n"
    ));
    let mut client = gateway.http2();
    let mut call = |path: &str, fields: &[(&str, &str)]| {
        let fields = [&[GRPC, ("te", "trailers"), ("x-request-id", "7")], fields].concat();
        let mut stream = client.begin(request("POST", path, &fields), false).expect("begun");
        // The gateway may have answered already.
        let _ = stream.send(&b"\0\0\0\0\0"[..], true);
        stream.response().expect("an answer")
    };
    let refused = call("/shop.Orders/Place", &[]);
    assert_eq!(reported(&refused), ("14", "502 Bad Gateway: connection_refused", "connection_refused"));
    assert_eq!(reported(&call("/shop.Stock/Count", &[])).0, "14");
    let unknown = call("/shop.Stock/Other", &[]);
    assert_eq!(reported(&unknown), ("12", "404 Not Found: no_route", "no_route"));
    assert_eq!(reported(&call("/shop.Orders/a%00b", &[])), ("13", "400 Bad Request: bad_path", "bad_path"));
    let fields = [GRPC, ("content-length", "5000")];
    let large = client.begin(request("POST", "/shop.Orders/Place", &fields), false).expect("begun");
    let large = large.response().expect("an answer");
    assert_eq!(reported(&large), ("2", "413 Content Too Large: body_too_large", "body_too_large"));

    // A client that does not speak gRPC gets an HTTP error.
    let plain = client.ask(request("POST", "/shop.Orders/Place", &[]));
    assert_eq!((plain.status, plain.header("grpc-status")), (502, None));
    // So does a client of HTTP/1: gRPC needs the trailers of HTTP/2.
    let mut http1 = gateway.client();
    let head = "POST /shop.Orders/Place HTTP/1.1\r\nHost: a\r\nContent-Type: application/grpc";
    let http1 = http1.ask(format!("{head}\r\nContent-Length: 0\r\n\r\n"));
    assert_eq!((http1.status, http1.header("grpc-status")), (502, None));

    let records = gateway.wait_records(7);
    let logged: Vec<_> =
        records.iter().map(|record| format!("{} {}", record["status"], record["grpc_status"])).collect();
    assert_eq!(logged, ["200 14", "200 14", "200 12", "200 13", "200 2", "502 null", "502 null"]);
    let metrics = gateway.metrics();
    let count = |route, code| {
        let labels = format!("route=\"{route}\",grpc_status=\"{code}\"");
        metrics.sum("tollgate_grpc_requests_total", &labels).unwrap_or_default()
    };
    assert_eq!(
        (count("gone", "14"), count("gone", "2"), count("-", "12"), count("-", "13")),
        (1.0, 1.0, 1.0, 1.0)
    );
    gateway.reconcile(&[]);
}

/// Returns the table of `docs/grpc.md`, as written there: the gRPC code for each HTTP status of a reason.
fn documented() -> Vec<(String, String)> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/grpc.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let table = page.split("| Reason's status | `grpc-status` |\n|---|---|\n").nth(1).expect("the table");
    let rows = table.lines().map_while(|line| line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | "));
    rows.map(|(status, code)| (status.to_owned(), code.to_owned())).collect()
}

#[test]
fn the_documented_table_matches_the_statuses() {
    let nobody = refused_address();
    let gateway = Gateway::start(&format!(
        "limits: {{headers: 4KiB}}\nroutes:\n\
         - {{match: {{grpc: a.Denied}}, to: \"h2c://{nobody}\", policies: {{ip: {{allow: 10.0.0.0/8}}}}}}\n\
         - {{match: {{grpc: a.Keyed}}, to: \"h2c://{nobody}\", policies: {{api_key: on}}}}\n\
         - {{match: {{grpc: a.Rated}}, to: \"h2c://{nobody}\", policies: {{rate_limit: {{rate: 1/h}}}}}}\n\
         - {{match: {{grpc: a.Plain}}, to: \"{nobody}\"}}\n\
         - {{match: {{grpc: a.Dead}}, to: \"h2c://{nobody}\", retry: off}}\n\
         consumers: {{c: {{api_keys: \"sha256:{}\"}}}}\n",
        "0".repeat(64)
    ));
    let mut client = gateway.http2();
    let long = "x".repeat(4_096);
    let mut code = |path: &str, fields: &[(&str, &str)]| {
        let response = client.ask(request("POST", path, &[&[GRPC], fields].concat()));
        reported(&response).0.to_owned()
    };
    code("/a.Rated/B", &[]);
    let reported = [
        ("400", code("/a.Dead/b%00", &[])),
        ("401", code("/a.Keyed/B", &[])),
        ("403", code("/a.Denied/B", &[])),
        ("404", code("/a.Nobody/B", &[])),
        ("429", code("/a.Rated/B", &[])),
        ("502, 503, 504", code("/a.Dead/B", &[])),
        ("502 for `grpc_needs_http2`", code("/a.Plain/B", &[])),
        ("any other", code("/a.Dead/B", &[("x-long", &long)])),
    ];
    let documented = documented();
    for (status, code) in reported {
        let row = documented.iter().find(|(row, _)| row == status);
        let (_, says) = row.unwrap_or_else(|| panic!("no row for {status}: {documented:?}"));
        assert!(says.starts_with(&format!("{code}, ")), "{status}: {code}, and the page says {says}");
    }
    assert_eq!(
        documented.len(),
        10,
        "every row was looked at; those of `request_timeout` and trailers are other tests'"
    );
}

#[test]
fn a_body_of_ones_own_is_the_message() {
    let gateway =
        Gateway::start("errors: {text: \"100 %\\n{reason}\\n\"}\nroutes: [{match: /x, respond: 204}]\n");
    let response = gateway.http2().ask(request("POST", "/a.B/C", &[GRPC]));
    assert_eq!(reported(&response), ("12", "100 %25%0Ano_route", "no_route"));
    gateway.reconcile(&[]);
}
