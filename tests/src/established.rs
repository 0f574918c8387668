//! Connections to an origin as the kernel's own table has them.

use std::collections::HashSet;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

/// Which end of the connections is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Those that were opened to the port.
    Opened,
    /// Those that the port's listener got.
    Accepted,
}

/// What identifies a socket: its addresses, and a number that no other socket ever had.
type Identity = [u8; 48];

/// The established IPv4 connections to a port: what `ss` shows, asked for as it does (sock_diag(7)). `/proc/net/tcp` has
/// the same, but writes out every connection of the machine as text first.
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
    // AF_INET, IPPROTO_TCP, and a bit for each state that is asked for: TCP_ESTABLISHED is 1.
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

/// Looks at the kernel's table again and again, and remembers the most connections to a port that there were at a time.
///
/// The kernel does not show the table of one moment: while it is read, connections close and others open, and a plain
/// count may hold both. So each is compared with the one before: what stands in both was established at the moment
/// between them, and is counted. That is never too many.
#[derive(Debug)]
pub struct Established {
    stop: Arc<AtomicBool>,
    looks: Arc<AtomicUsize>,
    thread: Option<JoinHandle<Most>>,
}

/// The most connections that there were at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Most {
    /// As those who opened them have them.
    pub opened: usize,
    /// As the origin has them.
    pub accepted: usize,
    /// How often the table was read.
    pub looks: usize,
}

impl Established {
    /// Looks at connections to this port, with a pause after each look.
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

    /// Waits until what is established now, if it stays so, has been seen: on a busy machine a look takes long.
    pub fn look(&self) {
        let looks = || self.looks.load(Ordering::Relaxed);
        // One may be under way; the two after it are compared.
        let begun = looks();
        crate::eventually("three more looks at the kernel's table", || looks() >= begun + 3);
    }

    /// Ends the watch.
    ///
    /// # Panics
    /// When the table could not be read.
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
                established(address.port(), End::Opened).expect("the table").len() == count
            });
        };
        see(5);
        thread::sleep(Duration::from_millis(50));
        open.pop();
        see(4);
        open.push(TcpStream::connect(address).expect("connected"));
        let most = watch.end();
        assert_eq!((most.opened, most.accepted), (5, 5), "after {} looks", most.looks);
    }
}
