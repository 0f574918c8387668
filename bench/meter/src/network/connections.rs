//! How many connections an end has, from `/proc/net/tcp` and `/proc/net/tcp6`.
//!
//! The same could be asked by netlink (`sock_diag(7)`), with a filter on the port that the kernel applies, which spares
//! printing and reading lines; the kernel's walk over its table of sockets stays. It was left out: it needs a message
//! codec of our own or three more crates, and one reading a second costs little (see `ConnectionTally`), and that on the
//! load's core and not the target's.

use crate::process::process_ids;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fs::{self, File};
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::AddAssign;

/// Which connections are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// Sockets of this machine on this port of their own: the server's side.
    Local(u16),
    /// Sockets of this machine connected to this port: the client's side.
    Remote(u16),
}

/// Connections of an end at one moment. A listening socket is none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionCount {
    /// Open in both directions. On the server's side those that nobody has accepted yet are among them.
    pub established: u64,
    /// Closed by this side first and kept by the kernel for 60 s, against late segments.
    pub time_wait: u64,
    /// In any state between: opening, half closed, closing.
    pub other: u64,
}

impl AddAssign for ConnectionCount {
    fn add_assign(&mut self, other: Self) {
        self.established += other.established;
        self.time_wait += other.time_wait;
        self.other += other.other;
    }
}

/// Counts the connections of an end now, over IPv4 and IPv6. Without `/proc/net` there are none.
#[cfg(test)]
fn count_connections(end: End) -> ConnectionCount {
    let mut count = ConnectionCount::default();
    each_socket(&mut Vec::new(), |socket| count += socket.counted(end));
    count
}

/// Open connections to a server's port that none of these processes has, nor one below them.
pub fn count_of_others(port: u16, processes: &[u32]) -> u64 {
    let own: HashSet<u64> = processes.iter().flat_map(|id| process_ids(*id)).flat_map(sockets).collect();
    let mut count = 0;
    each_socket(&mut Vec::new(), |socket| {
        let is_open = socket.state == State::Established && socket.remote.port() == port;
        count += u64::from(is_open && !own.contains(&socket.inode));
    });
    count
}

/// The numbers of the sockets that a process has open.
fn sockets(process: u32) -> Vec<u64> {
    let Ok(entries) = fs::read_dir(format!("/proc/{process}/fd")) else { return Vec::new() };
    let number = |entry: fs::DirEntry| {
        let link = fs::read_link(entry.path()).ok()?;
        link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    };
    entries.flatten().filter_map(number).collect()
}

/// A TCP socket as the kernel lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Socket {
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    pub(crate) state: State,
    /// Its number as a file; 0: nobody has it open any more.
    pub(crate) inode: u64,
}

/// States of a socket as far as they matter here (`include/net/tcp_states.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Established,
    TimeWait,
    Listen,
    Other,
}

impl Socket {
    pub(crate) fn counted(&self, end: End) -> ConnectionCount {
        let matches = match end {
            End::Local(port) => self.local.port() == port,
            End::Remote(port) => self.remote.port() == port,
        };
        let mut count = ConnectionCount::default();
        match self.state {
            _ if !matches => {}
            State::Established => count.established = 1,
            State::TimeWait => count.time_wait = 1,
            State::Other => count.other = 1,
            State::Listen => {}
        }
        count
    }
}

/// Calls `visit` with each TCP socket of this network namespace. `buffer` is kept between calls by who samples.
pub(crate) fn each_socket(buffer: &mut Vec<u8>, mut visit: impl FnMut(Socket)) {
    for path in ["/proc/net/tcp", "/proc/net/tcp6"] {
        buffer.clear();
        if File::open(path).and_then(|mut file| file.read_to_end(buffer)).is_ok() {
            buffer.split(|byte| *byte == b'\n').filter_map(parse_line).for_each(&mut visit);
        }
    }
}

/// Reads a line such as `0: 0100007F:1F90 00000000:0000 0A ...`; `None` for the heading and anything else.
fn parse_line(line: &[u8]) -> Option<Socket> {
    let mut words = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty()).skip(1);
    let (local, remote) = (address(words.next()?)?, address(words.next()?)?);
    let state = match hexadecimal(words.next()?)? {
        0x01 => State::Established,
        0x06 => State::TimeWait,
        0x0A => State::Listen,
        _ => State::Other,
    };
    // Between: queues, timer, retransmissions, user, probes.
    let inode = words.nth(5).and_then(|word| std::str::from_utf8(word).ok()?.parse().ok()).unwrap_or(0);
    Some(Socket { local, remote, state, inode })
}

/// Reads `0100007F:1F90`. The address is printed as 32-bit words in the machine's byte order. An IPv4 address in its
/// IPv6 form becomes plain, so that both ends of a connection read alike.
fn address(text: &[u8]) -> Option<SocketAddr> {
    let colon = text.iter().position(|byte| *byte == b':')?;
    let (host, port) = (&text[..colon], u16::try_from(hexadecimal(&text[colon + 1..])?).ok()?);
    let ip = match host.len() {
        8 => IpAddr::V4(Ipv4Addr::from(hexadecimal(host)?.to_ne_bytes())),
        32 => {
            let mut bytes = [0; 16];
            for (word, slot) in host.chunks(8).zip(bytes.chunks_mut(4)) {
                slot.copy_from_slice(&hexadecimal(word)?.to_ne_bytes());
            }
            IpAddr::V6(Ipv6Addr::from(bytes)).to_canonical()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

/// Reads up to eight hexadecimal digits.
fn hexadecimal(text: &[u8]) -> Option<u32> {
    if text.is_empty() || text.len() > 8 {
        return None;
    }
    text.iter().try_fold(0, |number, byte| Some(number << 4 | char::from(*byte).to_digit(16)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::{Shutdown, TcpListener, TcpStream};

    #[test]
    #[cfg(target_endian = "little")]
    fn lines_of_both_families() {
        let line = b"   0: 0100007F:1F90 0200007F:C001 01 00000000:00000000 00:00000000 00000000     0        0 4711 1";
        let socket = parse_line(line).unwrap();
        assert_eq!(socket.inode, 4711);
        assert_eq!(
            (socket.local, socket.remote),
            ("127.0.0.1:8080".parse().unwrap(), "127.0.0.2:49153".parse().unwrap())
        );
        assert_eq!(socket.state, State::Established);
        let mapped =
            b"  12: 0000000000000000FFFF00000100007F:1F90 00000000000000000000000001000000:0001 06 0";
        let socket = parse_line(mapped).unwrap();
        assert_eq!(
            (socket.local, socket.remote),
            ("127.0.0.1:8080".parse().unwrap(), "[::1]:1".parse().unwrap())
        );
        assert_eq!(socket.state, State::TimeWait);
        assert_eq!(parse_line(b"  sl  local_address rem_address   st tx_queue"), None);
        assert_eq!(parse_line(b""), None);
        assert_eq!(parse_line(b" 0: 0100007F:12345 0200007F:C001 01"), None);
    }

    #[test]
    fn both_ends_of_connections_are_counted_and_their_remains() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let clients: Vec<TcpStream> =
            (0..3).map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap()).collect();
        let servers: Vec<TcpStream> = (0..3).map(|_| listener.accept().unwrap().0).collect();
        let three = ConnectionCount { established: 3, ..ConnectionCount::default() };
        assert_eq!(count_connections(End::Local(port)), three);
        assert_eq!(count_connections(End::Remote(port)), three);
        let me = std::process::id();
        assert_eq!((count_of_others(port, &[me]), count_of_others(port, &[])), (0, 3));
        // The client closes first, so TIME_WAIT is on its side.
        for (client, server) in clients.iter().zip(&servers) {
            client.shutdown(Shutdown::Both).unwrap();
            assert_eq!(std::io::Read::read(&mut { server }, &mut [0; 1]).unwrap(), 0);
        }
        drop((clients, servers));
        assert_eq!(count_connections(End::Remote(port)).time_wait, 3);
        assert_eq!(count_connections(End::Local(port)), ConnectionCount::default());
    }

    #[test]
    fn an_ipv6_connection_counts() {
        let Ok(listener) = TcpListener::bind("[::1]:0") else {
            crate::skipped("this machine has no IPv6 loopback");
            return;
        };
        let address = listener.local_addr().unwrap();
        let _client = TcpStream::connect(address).unwrap();
        assert_eq!(count_connections(End::Local(address.port())).established, 1);
    }

    proptest! {
        #[test]
        fn no_bytes_upset_the_reader(line in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = parse_line(&line);
            let _ = address(&line);
        }

        #[test]
        fn no_near_line_upsets_the_reader(line in "[ 0-9A-F:]{0,80}") {
            let _ = parse_line(line.as_bytes());
        }
    }
}
