//! Clients that send requests repeatedly, and the results of their requests.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tollgate_tests::{Client, ReadError, Response};

/// The results of some clients' requests.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    /// The duration of each answer.
    pub times: Vec<Duration>,
    /// A description of each outcome other than a 200.
    pub failures: Vec<String>,
}

impl Answers {
    /// Returns the number of requests.
    pub fn count(&self) -> usize {
        self.times.len() + self.failures.len()
    }

    /// Returns the time within which this share of the answers arrived (0.99: the 99th percentile).
    pub fn percentile(&self, share: f64) -> Duration {
        let mut sorted = self.times.clone();
        sorted.sort_unstable();
        let at = ((sorted.len() as f64 * share) as usize).min(sorted.len().saturating_sub(1));
        sorted.get(at).copied().unwrap_or_default()
    }
}

/// Clients, each on a connection of its own, that send requests repeatedly.
pub struct Load {
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<Answers>>,
}

impl Load {
    /// Starts `clients` clients that request `/`, each with a pause after every answer.
    pub fn start(address: SocketAddr, clients: usize, pause: Duration) -> Self {
        Self::of("/", address, clients, pause)
    }

    /// Starts clients as [`Load::start`] does, for another path.
    pub fn of(path: &'static str, address: SocketAddr, clients: usize, pause: Duration) -> Self {
        Self::by((0..clients).map(|_| move |stop: &AtomicBool| ask(path, address, pause, stop)))
    }

    /// Starts clients with behaviour of their own, which run until they are stopped.
    pub fn by<A>(clients: impl Iterator<Item = A>) -> Self
    where
        A: FnOnce(&AtomicBool) -> Answers + Send + 'static,
    {
        let stop = Arc::new(AtomicBool::new(false));
        let client = |ask: A| {
            let stop = stop.clone();
            std::thread::spawn(move || ask(&stop))
        };
        let clients = clients.map(client).collect();
        Self { stop, clients }
    }

    /// Stops the clients, and returns the results of all requests.
    pub fn end(self) -> Answers {
        self.stop.store(true, Ordering::SeqCst);
        let mut all = Answers::default();
        for client in self.clients {
            let answers = client.join().expect("a client does not panic");
            all.times.extend(answers.times);
            all.failures.extend(answers.failures);
        }
        all
    }
}

fn ask(path: &str, address: SocketAddr, pause: Duration, stop: &AtomicBool) -> Answers {
    let mut answers = Answers::default();
    let mut client = Client::connect(address, Arc::default());
    while !stop.load(Ordering::SeqCst) {
        let started = Instant::now();
        client.send(format!("GET {path} HTTP/1.1\r\nHost: shop\r\n\r\n"));
        let answer: Result<Response, ReadError> = client.try_response("GET");
        match answer {
            Ok(response) if response.status == 200 => {
                answers.times.push(started.elapsed());
                if response.headers.get("connection").is_some_and(|value| value.contains("close")) {
                    client = Client::connect(address, Arc::default());
                }
            }
            Ok(response) => {
                let reason = response.headers.get("tollgate-reason").unwrap_or("-").to_owned();
                answers.failures.push(format!("{} {reason}", response.status));
                client = Client::connect(address, Arc::default());
            }
            Err(error) => {
                answers.failures.push(format!("{error:?}"));
                client = Client::connect(address, Arc::default());
            }
        }
        std::thread::sleep(pause);
    }
    answers
}
