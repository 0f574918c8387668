//! Clients that keep to a schedule, however slow the answers are.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tollgate_tests::Client;

/// The outcome of one request.
#[derive(Clone, Copy, Debug)]
pub struct Answered {
    /// When the request was sent.
    pub sent: Instant,
    /// How long the answer took.
    pub took: Duration,
    /// The status; 0 if there was no answer.
    pub status: u16,
}

/// All outcomes, in the order in which their requests were sent.
#[derive(Clone, Debug)]
pub struct Offered(pub Vec<Answered>);

impl Offered {
    /// Returns the time from the first request to the last answer.
    pub fn lasted(&self) -> Duration {
        let started = self.0.first().map(|first| first.sent);
        let ended = self.0.iter().map(|answer| answer.sent + answer.took).max();
        started.zip(ended).map(|(started, ended)| ended - started).unwrap_or_default()
    }

    /// Returns how many requests got this status.
    pub fn count(&self, status: u16) -> usize {
        self.0.iter().filter(|answer| answer.status == status).count()
    }

    /// Returns how many requests got each status.
    pub fn statuses(&self) -> BTreeMap<u16, usize> {
        let mut out = BTreeMap::new();
        self.0.iter().for_each(|answer| *out.entry(answer.status).or_default() += 1);
        out
    }

    /// Returns the 99th percentile of the durations.
    pub fn p99(&self) -> Duration {
        let mut times: Vec<_> = self.0.iter().map(|answer| answer.took).collect();
        times.sort_unstable();
        times.get(times.len() * 99 / 100).copied().unwrap_or_default()
    }

    /// Splits the outcomes into those answered before `began`, those sent after `ended`, and the rest.
    pub fn around(self, began: Instant, ended: Instant) -> [Self; 3] {
        let (before, rest): (Vec<_>, Vec<_>) =
            self.0.into_iter().partition(|answer| answer.sent + answer.took < began);
        let (after, meanwhile): (Vec<_>, Vec<_>) = rest.into_iter().partition(|answer| answer.sent > ended);
        [before, after, meanwhile].map(Self)
    }
}

/// Sends `rate` requests a second in all for this long. Each address has `clients` clients, each on a
/// connection of its own. A client that is late sends at once.
pub fn offer(addresses: &[SocketAddr], clients: usize, rate: f64, lasts: Duration) -> Offered {
    let all = clients * addresses.len();
    let between = Duration::from_secs_f64(all as f64 / rate);
    let begin = Instant::now() + Duration::from_millis(100);
    let client = |n: usize| {
        let address = addresses[n % addresses.len()];
        // The clients start at different offsets, so that the total rate is even.
        let first = begin + between.mul_f64(n as f64 / all as f64);
        std::thread::spawn(move || {
            let mut client = Client::connect(address, Arc::default());
            let mut out = Vec::new();
            let mut due = first;
            while due < begin + lasts {
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
                let sent = Instant::now();
                client.send("GET / HTTP/1.1\r\nHost: shop\r\n\r\n");
                let status = client.try_response("GET").map_or(0, |answer| answer.status);
                out.push(Answered { sent, took: sent.elapsed(), status });
                if status == 0 {
                    client = Client::connect(address, Arc::default());
                }
                due += between;
            }
            out
        })
    };
    let threads: Vec<_> = (0..all).map(client).collect();
    let mut out: Vec<Answered> =
        threads.into_iter().flat_map(|thread| thread.join().expect("a client does not panic")).collect();
    out.sort_by_key(|answer| answer.sent);
    Offered(out)
}
