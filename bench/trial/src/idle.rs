//! Measures the memory of a system with thousands of idle client connections, and after a burst of
//! connections has closed.

use crate::arm::Arm;
use crate::environment::Environment;
use crate::failure::Failure;
use crate::generator::Run;
use crate::http::{ask, connect, read_answer};
use crate::load_plan::plan;
use crate::origin::Origin;
use crate::target::Target;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};
use std::cell::RefCell;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::rc::Rc;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};
use tollgate_lab_load::{Length, tls_config};
use tollgate_lab_meter::process::Memory;
use tollgate_lab_record::LoadModel;
use tollgate_lab_study::{IdleBars, Settings};

/// The burst: its connections, and the requests over all of them.
const BURST: (u32, u64) = (2_000, 40_000);

/// Connections and requests before the first reading, so that it includes what a server allocates once.
const WARM: (u32, u64) = (64, 1_280);

/// How long memory may take to shrink after the burst.
const COME_BACK: Duration = Duration::from_secs(10);

/// Memory counts as released within this factor of the first reading; the wait then ends.
const BACK: f64 = 1.10;

/// Idle connections to the origin that a system may keep. With a higher number, the connections that the
/// burst opened would still be in use when memory is read.
const KEPT: u32 = 256;

/// Descriptors that this process and a system need besides the idle connections.
const SPARE_FILES: u64 = 600;

/// Size of every response body, in bytes.
const ANSWER: usize = 4_096;

/// Memory of a process tree in KiB. Pages that processes share count in proportion (PSS).
#[derive(Debug, Default)]
pub(crate) struct Idle {
    /// Idle connections that were held.
    pub(crate) connections: u32,
    /// Before the connections opened.
    pub(crate) before: u64,
    /// With all connections open, each after one request.
    pub(crate) held: u64,
    /// After the connections closed and a burst of other connections closed too.
    pub(crate) after: u64,
}

impl Idle {
    /// Returns the KiB that each connection adds.
    pub(crate) fn each_kib(&self) -> f64 {
        (self.held as f64 - self.before as f64) / f64::from(self.connections.max(1))
    }

    /// Returns the ratio of the memory after the burst to the memory before.
    pub(crate) fn back(&self) -> f64 {
        self.after as f64 / self.before.max(1) as f64
    }
}

impl Idle {
    /// Returns which bars the system misses, and by how much. `least` is the smallest KiB per connection
    /// among the other systems.
    pub(crate) fn judged(&self, bars: &IdleBars, least: Option<f64>) -> String {
        let whole = self.held as f64 / 1024.0;
        judged(&[
            ("KiB each", self.each_kib(), bars.each_kib),
            ("MiB with them", whole, bars.whole_mib),
            ("after over before", self.back(), bars.after),
            // Without another system there is nothing to compare with.
            ("KiB beside the least", self.each_kib() / least.unwrap_or(1.0), least.and(bars.beside)),
        ])
    }
}

/// Returns which figures exceed their bars, and by how much. Returns an empty string if no figure has a bar.
pub(crate) fn judged(figures: &[(&str, f64, Option<f64>)]) -> String {
    let held: Vec<(&str, f64, f64)> =
        figures.iter().filter_map(|(name, value, most)| Some((*name, *value, (*most)?))).collect();
    let missed: Vec<String> = held
        .iter()
        .filter(|(_, value, most)| value > most)
        .map(|(name, value, most)| format!("{name} by {:.0} %", (value / most - 1.0) * 100.0))
        .collect();
    match (held.is_empty(), missed.is_empty()) {
        (true, _) => String::new(),
        (false, true) => "PASS".to_owned(),
        (false, false) => format!("MISS: {}", missed.join(", ")),
    }
}

/// Measures one system.
///
/// # Errors
/// If the system is missing, does not start, or does not answer as expected.
pub(crate) fn idle(
    environment: &Environment,
    arm: &Arm,
    connections: u32,
    tls: bool,
    tcp: bool,
) -> Result<Idle, Failure> {
    let most = environment.facts.file_limit.saturating_sub(SPARE_FILES);
    let connections = connections.min(u32::try_from(most).unwrap_or(u32::MAX));
    let features = [if tcp { "tcp" } else { "forwarded_headers" }]
        .into_iter()
        .chain(tls.then_some("tls"))
        .map(str::to_owned)
        .collect();
    let settings = arm.settings(&Settings {
        features: Some(features),
        response_body: Some(ANSWER),
        origin_kept: Some(KEPT),
        ..Settings::default()
    });
    let origin = Origin::start(environment, &settings, &environment.cores.origin, None)?;
    let body = origin.body.clone();
    let clients = connections.max(BURST.0) + 1_000;
    let target = Target::start(environment, arm, &settings, Some(Rc::new(RefCell::new(origin))), clients)?;
    let burst = |(connections, requests): (u32, u64)| {
        let mut plan = plan(&settings, target.aim(&settings, &body), 1.0, Some(LoadModel::Closed));
        plan.connections = connections.min(u32::try_from(most).unwrap_or(u32::MAX));
        plan.length = Length::Requests(requests);
        let load = Run::builtin(environment, &plan)?.finish(|| ())?.load;
        let failed = load.failures.total();
        if failed == 0 { Ok(()) } else { Err(Failure(format!("{failed} of {requests} requests failed"))) }
    };
    let own = || {
        // A server may still clean up after the last byte of a response.
        sleep(Duration::from_millis(500));
        target.ids().into_iter().map(|id| Memory::read(id).own_kib()).sum()
    };
    let aim = target.aim(&settings, &body);
    let config = aim
        .tls
        .map(|files| tls_config(&files.certificate, None))
        .transpose()
        .map_err(|error| Failure(error.to_string()))?;
    burst(WARM)?;
    let mut idle = Idle { connections, before: own(), ..Idle::default() };
    let held = (0..connections)
        .map(|_| open(target.port, &body, config.as_ref()))
        .collect::<io::Result<Vec<TcpStream>>>()
        .map_err(|error| Failure::of("an idle connection", error))?;
    idle.held = own();
    drop(held);
    burst(BURST)?;
    let started = Instant::now();
    loop {
        idle.after = own();
        if idle.back() <= BACK || started.elapsed() > COME_BACK {
            return Ok(idle);
        }
    }
}

/// A stream that carries both requests and responses, plain or TLS.
trait Both: Read + Write {}

impl<T: Read + Write> Both for T {}

/// Opens a connection and completes one request on it. For TLS, only the socket is kept: no more data is
/// exchanged.
fn open(port: u16, body: &[u8], tls: Option<&Arc<ClientConfig>>) -> io::Result<TcpStream> {
    let mut stream = connect(port, Duration::from_secs(5))?;
    let converse = |stream: &mut dyn Both| {
        let mut stream = stream;
        ask(&mut stream, "/")?;
        read_answer(&mut stream)
    };
    let answer = match tls {
        None => converse(&mut stream)?,
        Some(config) => {
            let name = ServerName::IpAddress(Ipv4Addr::LOCALHOST.into());
            let mut tls = ClientConnection::new(config.clone(), name).map_err(io::Error::other)?;
            converse(&mut rustls::Stream::new(&mut tls, &mut stream))?
        }
    };
    if answer.status == 200 && answer.body == body {
        Ok(stream)
    } else {
        let reported = format!("status {} with {} bytes", answer.status, answer.body.len());
        Err(io::Error::new(io::ErrorKind::InvalidData, reported))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_held_against_their_bars() {
        let idle = Idle { connections: 1_000, before: 4_096, held: 6_096, after: 4_505 };
        let bars = IdleBars { each_kib: Some(1.0), whole_mib: Some(24.0), after: Some(1.1), beside: None };
        assert_eq!(idle.judged(&bars, None), "MISS: KiB each by 100 %");
        assert_eq!(idle.judged(&IdleBars { each_kib: Some(2.0), ..bars }, None), "PASS");
        assert_eq!(idle.judged(&IdleBars::default(), Some(1.0)), "");
        let beside = IdleBars { beside: Some(1.0), ..IdleBars::default() };
        assert_eq!(idle.judged(&beside, Some(1.6)), "MISS: KiB beside the least by 25 %");
        assert_eq!(idle.judged(&beside, Some(2.0)), "PASS");
        assert_eq!(idle.judged(&beside, None), "", "nothing to be beside");
    }
}
