//! The gateway is killed a thousand times while the store is written: every change that was confirmed is
//! there.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tollgate_tests::{Client, Gateway};

const KILLS: usize = 1000;
const WRITERS: usize = 3;
/// Routes that each writer changes in turn.
const ROUTES: usize = 20;

/// The permitted contents of each route: the last confirmed change, or a later one without an answer.
type Known = BTreeMap<String, Vec<Option<String>>>;

fn status(admin: SocketAddr, method: &str, name: &str, body: &str) -> Option<u16> {
    let mut client = Client::try_connect(admin)?;
    let length = body.len();
    client.send(format!(
        "{method} /api/v1/routes/{name} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    ));
    client.try_response(method).ok().map(|response| response.status)
}

/// Changes its routes in turn until the gateway is gone. Returns the permitted contents, and how many changes
/// were confirmed.
fn write(
    admin: SocketAddr,
    writer: usize,
    mut known: Known,
    turn: usize,
    stop: Arc<AtomicBool>,
) -> JoinHandle<(Known, usize)> {
    std::thread::spawn(move || {
        let mut acknowledged = 0;
        for number in 0.. {
            if stop.load(Ordering::SeqCst) {
                break;
            }
            let name = format!("w{writer}-r{}", number % ROUTES);
            let there = known.get(&name).and_then(|may| may.last()).is_some_and(Option::is_some);
            let (method, text) = match there && number % 7 == 3 {
                true => ("DELETE", None),
                false => ("PUT", Some(format!("{turn}-{number}"))),
            };
            let body =
                text.as_ref().map(|text| json!({"match": format!("/{name}"), "respond": text}).to_string());
            let may = known.entry(name.clone()).or_insert_with(|| vec![None]);
            may.push(text.clone());
            match status(admin, method, &name, &body.unwrap_or_default()) {
                Some(200 | 201) => {
                    acknowledged += 1;
                    *may = vec![text];
                }
                // An earlier deletion, whose answer was lost, has removed it.
                Some(404) if method == "DELETE" => *may = vec![None],
                Some(other) => panic!("{method} {name}: {other}"),
                None => break,
            }
        }
        (known, acknowledged)
    })
}

#[test]
#[ignore = "a fault test: `make faults`"]
fn killed_a_thousand_times_while_it_writes() {
    let started = Instant::now();
    let mut gateway = Gateway::start("access_log: off\nstore: $DIR/store\nroutes: []");
    let admin = gateway.admin_address();
    let mut known: Vec<Known> = vec![Known::new(); WRITERS];
    let (mut acknowledged, mut lost, mut half) = (0, Vec::new(), 0);
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    for turn in 0..KILLS {
        let stop = Arc::new(AtomicBool::new(false));
        let writers: Vec<_> = known
            .drain(..)
            .enumerate()
            .map(|(writer, known)| write(admin, writer, known, turn, stop.clone()))
            .collect();
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        std::thread::sleep(Duration::from_micros((random >> 33) % 40_000));
        // The restart panics if the gateway does not start with the files that the kill has left.
        gateway.kill();
        stop.store(true, Ordering::SeqCst);
        for writer in writers {
            let (more, count) = writer.join().expect("no panic");
            known.push(more);
            acknowledged += count;
        }
        gateway.restart();
        let all = gateway.admin("/api/v1/routes?source=store").text();
        let all: Value = serde_json::from_str(&all).expect("JSON");
        let there: BTreeMap<&str, &str> = all["items"]
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(|item| Some((item["name"].as_str()?, item["value"]["respond"].as_str()?)))
            .collect();
        for (name, may) in known.iter_mut().flatten() {
            let is = there.get(name.as_str()).map(|text| (*text).to_owned());
            if !may.contains(&is) {
                lost.push(format!("turn {turn}: {name} is {is:?}, and was to be one of {may:?}"));
            }
            half += usize::from(may.len() > 1);
            *may = vec![is];
        }
    }
    eprintln!(
        "store: killed {KILLS} times while {WRITERS} clients wrote: {acknowledged} changes answered with success, {} of them \
         lost, 0 starts failed, {half} changes under way at a kill; {:.0} s",
        lost.len(),
        started.elapsed().as_secs_f64()
    );
    assert_eq!(lost, Vec::<String>::new());
    assert!(acknowledged > KILLS, "{acknowledged} changes are too few to tell anything");
}
