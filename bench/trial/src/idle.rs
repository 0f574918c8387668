//! Memory of a system over thousands of idle client connections, and after a burst has gone.

use crate::arm::Arm;
use crate::failure::Failure;
use crate::generator::{Run, plan};
use crate::ground::Ground;
use crate::http::{ask, connect, read_answer};
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

/// Connections of the burst, and its requests over all of them.
const BURST: (u32, u64) = (2_000, 40_000);

/// Connections and requests before the first reading, so that what a server sets up once is its own.
const WARM: (u32, u64) = (64, 1_280);

/// How long memory may take to come back after the burst.
const COME_BACK: Duration = Duration::from_secs(10);

/// Memory counts as back within this factor of before: then nobody waits any longer.
const BACK: f64 = 1.10;

/// Idle connections to the origin that a system may keep. More, and what the burst opened there would still be in use when
/// memory is to be back.
const KEPT: u32 = 256;

/// Files that this process and a system have open beside the idle connections.
const SPARE_FILES: u64 = 600;

/// Bytes of every answer.
const ANSWER: usize = 4_096;

/// Memory of a process tree, KiB: pages that it shares counted in part (PSS).
#[derive(Debug, Default)]
pub(crate) struct Idle {
    /// Connections that were held.
    pub(crate) connections: u32,
    /// Before them.
    pub(crate) before: u64,
    /// With them, each after one request.
    pub(crate) held: u64,
    /// After they were closed and a burst came and went.
    pub(crate) after: u64,
}

impl Idle {
    /// KiB that a connection adds.
    pub(crate) fn each_kib(&self) -> f64 {
        (self.held as f64 - self.before as f64) / f64::from(self.connections.max(1))
    }

    /// Memory after the burst over that before.
    pub(crate) fn back(&self) -> f64 {
        self.after as f64 / self.before.max(1) as f64
    }
}

impl Idle {
    /// Which of the bars it misses, and by how much. `least`: the fewest KiB a connection of the other systems.
    pub(crate) fn judged(&self, bars: &IdleBars, least: Option<f64>) -> String {
        let whole = self.held as f64 / 1024.0;
        judged(&[
            ("KiB each", self.each_kib(), bars.each_kib),
            ("MiB with them", whole, bars.whole_mib),
            ("after over before", self.back(), bars.after),
            // Without another there is nothing to be beside.
            ("KiB beside the least", self.each_kib() / least.unwrap_or(1.0), least.and(bars.beside)),
        ])
    }
}

/// Which of several figures miss their bars, and by how much; empty without any bar.
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
/// When it is missing, does not start, or does not answer as it should.
pub(crate) fn idle(ground: &Ground, arm: &Arm, connections: u32, tls: bool) -> Result<Idle, Failure> {
    let most = ground.facts.file_limit.saturating_sub(SPARE_FILES);
    let connections = connections.min(u32::try_from(most).unwrap_or(u32::MAX));
    let features = ["forwarded_headers"].into_iter().chain(tls.then_some("tls")).map(str::to_owned).collect();
    let settings = arm.settings(&Settings {
        features: Some(features),
        response_body: Some(ANSWER),
        origin_kept: Some(KEPT),
        ..Settings::default()
    });
    let origin = Origin::start(ground, &settings, &[ground.cores.load], None)?;
    let body = origin.body.clone();
    let clients = connections.max(BURST.0) + 1_000;
    let target = Target::start(ground, arm, &settings, Some(Rc::new(RefCell::new(origin))), clients)
        .map_err(|used| Failure(used.missing.map(|missing| missing.reason).unwrap_or_default()))?;
    let burst = |(connections, requests): (u32, u64)| {
        let mut plan = plan(&settings, target.aim(&settings, &body), 1.0, Some(LoadModel::Closed));
        plan.connections = connections.min(u32::try_from(most).unwrap_or(u32::MAX));
        plan.length = Length::Requests(requests);
        let load = Run::builtin(ground, &plan)?.finish(|| ())?.load;
        let failed = load.failures.total();
        if failed == 0 { Ok(()) } else { Err(Failure(format!("{failed} of {requests} requests failed"))) }
    };
    let own = || {
        // What a server does after the last byte of an answer takes its time.
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
    let begun = Instant::now();
    loop {
        idle.after = own();
        if idle.back() <= BACK || begun.elapsed() > COME_BACK {
            return Ok(idle);
        }
    }
}

/// What a request goes out on and an answer comes in.
trait Both: Read + Write {}

impl<T: Read + Write> Both for T {}

/// A connection on which one request was answered. Of TLS nothing is kept but the socket: nothing more is said on it.
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
        let told = format!("status {} with {} bytes", answer.status, answer.body.len());
        Err(io::Error::new(io::ErrorKind::InvalidData, told))
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
