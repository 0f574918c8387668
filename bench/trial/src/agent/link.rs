//! Measures a link before the first trial: the round trip of one byte and the rate towards the client.
//!
//! One end listens ([`listen`]) and serves a single connection. The other end ([`probe`]) sends single bytes
//! and waits for each to come back, then asks for data. Each end uses its own clock for spans only.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// Round trips that are measured.
const TRIPS: usize = 200;

/// Round trips that are not measured: the first ones grow the kernel's buffers and caches.
const FIRST_TRIPS: usize = 20;

/// How long data flows.
const DATA: Duration = Duration::from_millis(1_000);

/// How long the start of the data is not counted, while TCP's window grows.
const GROWING: Duration = Duration::from_millis(300);

/// The longest wait for the other end.
const LIMIT: Duration = Duration::from_secs(10);

/// The byte that asks for data.
const GIVE: u8 = b'd';

/// A link as measured between two hosts of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// Median round trip of one byte over an open TCP connection, in microseconds.
    pub round_trip_us: f64,
    /// Rate of one TCP connection towards the end that asked, in bytes per second.
    pub bytes_per_second: f64,
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let megabits = self.bytes_per_second * 8.0 / 1e6;
        write!(
            f,
            "round trip {:.3} ms (median of {TRIPS}), {megabits:.0} Mbit/s over one connection",
            self.round_trip_us / 1e3
        )
    }
}

/// Listens on an address and serves one measurement from a thread. Returns the port.
pub(crate) fn listen(address: IpAddr) -> io::Result<u16> {
    let listener = TcpListener::bind((address, 0))?;
    let port = listener.local_addr()?.port();
    listener.set_nonblocking(true)?;
    std::thread::spawn(move || {
        let started = Instant::now();
        while started.elapsed() < LIMIT {
            match listener.accept() {
                Ok((stream, _)) => {
                    // The other end reports what fails.
                    let _ = give(stream);
                    return;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                Err(_) => return,
            }
        }
    });
    Ok(port)
}

fn give(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.set_write_timeout(Some(LIMIT))?;
    let mut byte = [0];
    loop {
        stream.read_exact(&mut byte)?;
        if byte[0] == GIVE {
            break;
        }
        stream.write_all(&byte)?;
    }
    let data = vec![0; 256 << 10];
    let started = Instant::now();
    while started.elapsed() < DATA {
        stream.write_all(&data)?;
    }
    Ok(())
}

/// Measures the link to an address on which [`listen`] listens.
pub(crate) fn probe(to: SocketAddr) -> io::Result<Link> {
    let mut stream = TcpStream::connect_timeout(&to, LIMIT)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(LIMIT))?;
    let mut byte = [b'p'];
    let mut trips = Vec::with_capacity(TRIPS);
    for at in 0..FIRST_TRIPS + TRIPS {
        let started = Instant::now();
        stream.write_all(&byte)?;
        stream.read_exact(&mut byte)?;
        if at >= FIRST_TRIPS {
            trips.push(started.elapsed());
        }
    }
    trips.sort_unstable();
    stream.write_all(&[GIVE])?;
    let mut buffer = vec![0; 256 << 10];
    let (started, mut counted, mut from, mut last) = (Instant::now(), 0, None, Duration::ZERO);
    loop {
        let got = stream.read(&mut buffer)?;
        if got == 0 {
            break;
        }
        last = started.elapsed();
        match from {
            // The bytes of this read arrived before the span that is counted.
            None if last >= GROWING => from = Some(last),
            None => {}
            Some(_) => counted += got,
        }
    }
    let span = from.map_or(0.0, |from| (last - from).as_secs_f64());
    Ok(Link {
        round_trip_us: trips[TRIPS / 2].as_secs_f64() * 1e6,
        bytes_per_second: if span > 0.0 { counted as f64 / span } else { 0.0 },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn loopback_is_measured() {
        let port = listen(Ipv4Addr::LOCALHOST.into()).unwrap();
        let link = probe(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).unwrap();
        assert!(link.round_trip_us > 0.0 && link.round_trip_us < 1e6, "{link:?}");
        assert!(link.bytes_per_second > 1e6, "{link:?}");
        assert!(link.to_string().contains("Mbit/s"), "{link}");
    }
}
