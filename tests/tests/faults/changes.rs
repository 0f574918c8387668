//! Routes that are added through the admin API under constant load.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tollgate_tests::{Client, Gateway, Response};

use super::is_optimised;
use super::load::Load;

fn request(method: &str, path: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "{method} /api/v1{path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\
         \r\n{body}"
    )
}

fn put(client: &mut Client, name: &str, value: &Value) -> Response {
    client.ask(request("PUT", &format!("/routes/{name}"), &value.to_string()))
}

fn median(times: &mut [Duration]) -> (Duration, Duration) {
    times.sort_unstable();
    (times[times.len() / 2], times[times.len() - 1])
}

/// Starts about 5,000 requests a second, from clients that send in turn.
fn load(address: SocketAddr) -> Load {
    Load::start(address, 10, Duration::from_micros(1750))
}

#[test]
#[ignore = "a fault test: `make faults`"]
fn a_route_is_added_under_load() {
    const ADDED: usize = 100;
    for routes in [1, 10_000] {
        let gateway = Gateway::start(
            "workers: 2\naccess_log: off\nstore: $DIR/store\nroutes: [{match: /, respond: here}]",
        );
        let mut admin = Client::connect(gateway.admin_address(), Arc::default());
        let changes: Vec<Value> = (1..routes)
            .map(|route| {
                let host = format!("service-{}.example.com/v{route}/*", route % 100);
                json!({"op": "put", "kind": "routes", "name": format!("r{route}"), "value": {"match": host, "respond": "x"}})
            })
            .collect();
        if !changes.is_empty() {
            let body = json!({ "changes": changes }).to_string();
            assert_eq!(admin.ask(request("POST", "/transactions", &body)).status, 200);
        }
        let quiet = load(gateway.address());
        std::thread::sleep(Duration::from_secs(5));
        let quiet = quiet.end();
        let (mut acknowledged, mut served) = (Vec::new(), Vec::new());
        let started = Instant::now();
        let meanwhile = load(gateway.address());
        let mut clients: Vec<Client> = (0..4).map(|_| gateway.client()).collect();
        for number in 0..ADDED {
            let path = format!("/new-{number}");
            let asked = Instant::now();
            let answer = put(&mut admin, &format!("new-{number}"), &json!({"match": path, "respond": "new"}));
            acknowledged.push(asked.elapsed());
            assert_eq!(answer.status, 201, "{answer:?}");
            let answered = Instant::now();
            // The first request after the answer, and then one on each of the other connections, so that
            // every worker is checked.
            for (turn, client) in clients.iter_mut().enumerate() {
                assert_eq!(client.get(&path).text(), "new", "{path} is not served after the answer");
                if turn == 0 {
                    served.push(answered.elapsed());
                }
            }
            std::thread::sleep(Duration::from_millis(30));
        }
        let seconds = started.elapsed().as_secs_f64();
        let meanwhile = meanwhile.end();
        let (usual, longest) = median(&mut acknowledged);
        let (first, slowest) = median(&mut served);
        eprintln!(
            "{ADDED} routes added to {routes} under {:.0} requests a second: acknowledged after {usual:?} (longest {longest:?}), \
             first served {first:?} after that (longest {slowest:?}); requests {}, failed {}; p99 {:?}, before that {:?}",
            meanwhile.count() as f64 / seconds,
            meanwhile.count(),
            meanwhile.failures.len(),
            meanwhile.percentile(0.99),
            quiet.percentile(0.99),
        );
        assert_eq!((quiet.failures, meanwhile.failures), (Vec::new(), Vec::new()));
        assert!(!is_optimised() || slowest < Duration::from_millis(30), "{slowest:?} to the first request");
    }
}

#[test]
#[ignore = "a fault test: `make faults`"]
fn a_hundred_changes_a_second_for_a_minute() {
    const SECONDS: usize = 60;
    const RATE: usize = 100;
    const WRITERS: usize = 4;
    let gateway =
        Gateway::start("workers: 2\naccess_log: off\nstore: $DIR/store\nroutes: [{match: /, respond: here}]");
    let load = Load::start(gateway.address(), 4, Duration::from_millis(4));
    let started = Instant::now();
    let address = gateway.admin_address();
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            std::thread::spawn(move || {
                let mut admin = Client::connect(address, Arc::default());
                let mut times = Vec::new();
                for number in (writer..SECONDS * RATE).step_by(WRITERS) {
                    // Each change has its own due time, however long the previous ones took.
                    let due = started + Duration::from_micros(number as u64 * 1_000_000 / RATE as u64);
                    std::thread::sleep(due.saturating_duration_since(Instant::now()));
                    let name = format!("r{}", number % 500);
                    let value = json!({"match": format!("/{name}"), "respond": number.to_string()});
                    let answer = put(&mut admin, &name, &value);
                    assert!(matches!(answer.status, 200 | 201), "{answer:?}");
                    times.push(due.elapsed());
                }
                times
            })
        })
        .collect();
    let mut times: Vec<Duration> =
        writers.into_iter().flat_map(|writer| writer.join().expect("no panic")).collect();
    let seconds = started.elapsed().as_secs_f64();
    let answers = load.end();
    let (usual, longest) = median(&mut times);
    let p99 = times[times.len() * 99 / 100];
    eprintln!(
        "{} changes in {seconds:.1} s, {:.1} a second: in force after {usual:?}, p99 {p99:?}, longest {longest:?} from when \
         each was due; meanwhile requests {}, failed {}, p99 {:?}",
        times.len(),
        times.len() as f64 / seconds,
        answers.count(),
        answers.failures.len(),
        answers.percentile(0.99),
    );
    assert_eq!(answers.failures, Vec::<String>::new());
    for number in 0..4 {
        assert_eq!(gateway.client().get(&format!("/r{number}")).text(), (5500 + number).to_string());
    }
    assert!(!is_optimised() || seconds < SECONDS as f64 + 2.0, "the rate does not hold: {seconds:.1} s");
}
