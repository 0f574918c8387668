//! Counts established connections to an origin in the kernel's own socket table.

use std::collections::HashSet;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

/// The end of the connections that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The sockets that connected to the port.
    Opened,
    /// The sockets that the port's listener accepted.
    Accepted,
}

/// The identity of a socket: its addresses and the kernel's cookie, which no other socket ever had.
type Identity = [u8; 48];

/// Returns the established IPv4 connections to a port, by the netlink request that `ss` uses (sock_diag(7)).
/// `/proc/net/tcp` has the same data, but there the kernel first formats every connection of the machine as
/// text.
fn established(port: u16, end: End) -> io::Result<HashSet<Identity>> {
    const NETLINK: i32 = 16;
    const SOCK_DIAG: i32 = 4;
    const BY_FAMILY: u16 = 20;
    const REQUEST_DUMP: u16 = 0x301;
    const HEADER: usize = 16;
    let mut request = Vec::new();
    request.extend(72u32.to_ne_bytes());
    request.extend(BY_FAMILY.to_ne_bytes());
    request.extend(REQUEST_DUMP.to_ne_bytes());
    request.extend([0; 8]);
    // AF_INET, IPPROTO_TCP, and a bit mask of the wanted states: TCP_ESTABLISHED is 1.
    request.extend([2, 6, 0, 0]);
    request.extend((1u32 << 1).to_ne_bytes());
    let (local, remote) = if end == End::Opened { (0, port) } else { (port, 0) };
    request.extend(u16::to_be_bytes(local));
    request.extend(u16::to_be_bytes(remote));
    request.extend([0; 44]);
    let mut socket = Socket::new(Domain::from(NETLINK), Type::DGRAM, Some(Protocol::from(SOCK_DIAG)))?;
    socket.write_all(&request)?;
    let mut found = HashSet::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let count = socket.read(&mut buffer)?;
        let mut rest = &buffer[..count];
        while rest.len() >= HEADER {
            let length = u32::from_ne_bytes(rest[..4].try_into().expect("four bytes")) as usize;
            match u16::from_ne_bytes(rest[4..6].try_into().expect("two bytes")) {
                BY_FAMILY => found.insert(rest[HEADER + 4..HEADER + 52].try_into().expect("48 bytes")),
                // NLMSG_DONE
                3 => return Ok(found),
                kind => return Err(io::Error::other(format!("netlink message {kind}"))),
            };
            // Messages are aligned to four bytes.
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
    }
}

/// Reads the kernel's table repeatedly and keeps the highest number of simultaneous connections to a port.
///
/// The kernel does not give an atomic view: while it dumps the table, connections close and others open, and
/// a plain count may include both. So each dump is compared with the one before. A connection in both was
/// established at the moment between them, and only those are counted. The result is never too high.
#[derive(Debug)]
pub struct Established {
    stop: Arc<AtomicBool>,
    looks: Arc<AtomicUsize>,
    thread: Option<JoinHandle<Most>>,
}

/// The highest number of simultaneous connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Most {
    /// Counted at the connecting sockets.
    pub opened: usize,
    /// Counted at the sockets that the origin accepted.
    pub accepted: usize,
    /// How many times the table was read.
    pub looks: usize,
}

impl Established {
    /// Watches the connections to this port, with a pause after each read of the table.
    #[must_use]
    pub fn watch(port: u16, pause: Duration) -> Self {
        let (stop, looks) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (stopped, looked) = (stop.clone(), looks.clone());
        let thread = thread::spawn(move || {
            let mut most = Most::default();
            let mut before = [HashSet::new(), HashSet::new()];
            while !stopped.load(Ordering::Relaxed) {
                let ends = [End::Opened, End::Accepted];
                let now = ends.map(|end| established(port, end).expect("the kernel's table"));
                let [opened, accepted] = [0, 1].map(|end| now[end].intersection(&before[end]).count());
                most.opened = most.opened.max(opened);
                most.accepted = most.accepted.max(accepted);
                most.looks += 1;
                before = now;
                looked.store(most.looks, Ordering::Relaxed);
                thread::sleep(pause);
            }
            most
        });
        Self { stop, looks, thread: Some(thread) }
    }

    /// Waits until the watch has seen the connections that are established now, if they stay. On a busy
    /// machine one read takes long.
    pub fn look(&self) {
        let looks = || self.looks.load(Ordering::Relaxed);
        // One read may be in progress; the two after it are compared with each other.
        let started = looks();
        crate::eventually("three more looks at the kernel's table", || looks() >= started + 3);
    }

    /// Ends the watch.
    ///
    /// # Panics
    /// Panics if the table could not be read.
    #[must_use]
    pub fn end(mut self) -> Most {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().expect("it ends once").join().expect("the table can be read")
    }
}

impl Drop for Established {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn sees_what_is_established_and_nothing_else() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let watch = Established::watch(address.port(), Duration::from_millis(1));
        let mut open: Vec<_> = (0..5).map(|_| TcpStream::connect(address).expect("connected")).collect();
        let see = |count| {
            crate::eventually("the table to show them", || {
                [End::Opened, End::Accepted]
                    .iter()
                    .all(|end| established(address.port(), *end).expect("the table").len() == count)
            });
        };
        see(5);
        watch.look();
        open.pop();
        see(4);
        open.push(TcpStream::connect(address).expect("connected"));
        let most = watch.end();
        assert_eq!((most.opened, most.accepted), (5, 5), "after {} looks", most.looks);
    }
}
