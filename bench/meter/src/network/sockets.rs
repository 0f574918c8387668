//! Lists the connections between processes, from `/proc/net/tcp` and `/proc/net/tcp6`.
//!
//! A read costs 1 ms for the kernel's iteration over its table, and 1.2 us for each socket of any process.
//! That includes sockets in TIME_WAIT, of which a run with one connection for each request leaves tens of
//! thousands (measured on a virtual machine with Linux 6.18: 25 ms with 20,000). So the table is read before
//! a measurement and never during one.

use crate::process::process_ids;
use std::collections::HashSet;
use std::fs::{self, File};
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Returns how many open connections to these ports the processes, or their descendants, have.
pub(crate) fn connections_of(processes: &[u32], ports: &[u16]) -> u64 {
    let own: HashSet<u64> = processes.iter().flat_map(|id| process_ids(*id)).flat_map(sockets).collect();
    let mut count = 0;
    each_socket(|socket| {
        count += u64::from(ports.contains(&socket.remote.port()) && own.contains(&socket.inode));
    });
    count
}

/// Returns the inode numbers of the sockets that a process has open.
fn sockets(process: u32) -> Vec<u64> {
    let Ok(entries) = fs::read_dir(format!("/proc/{process}/fd")) else { return Vec::new() };
    let number = |entry: fs::DirEntry| {
        let link = fs::read_link(entry.path()).ok()?;
        link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    };
    entries.flatten().filter_map(number).collect()
}

/// One end of a connection of this network namespace, as the kernel lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Socket {
    local: SocketAddr,
    remote: SocketAddr,
    /// The inode number of the socket; 0 if no process has it open.
    inode: u64,
}

/// Calls `visit` for each end of an open connection.
fn each_socket(mut visit: impl FnMut(Socket)) {
    let mut buffer = Vec::new();
    for path in ["/proc/net/tcp", "/proc/net/tcp6"] {
        buffer.clear();
        if File::open(path).and_then(|mut file| file.read_to_end(&mut buffer)).is_ok() {
            buffer.split(|byte| *byte == b'\n').filter_map(parse_line).for_each(&mut visit);
        }
    }
}

/// ESTABLISHED (`include/net/tcp_states.h`).
const ESTABLISHED: u32 = 1;

/// Parses a line such as `0: 0100007F:1F90 0200007F:C001 01 ...`. Returns `None` for sockets in another
/// state, for the heading and for anything else.
fn parse_line(line: &[u8]) -> Option<Socket> {
    let mut words = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty()).skip(1);
    let (local, remote) = (address(words.next()?)?, address(words.next()?)?);
    if hexadecimal(words.next()?)? != ESTABLISHED {
        return None;
    }
    // Skipped fields: queues, timer, retransmissions, user, probes.
    let inode = words.nth(5).and_then(|word| std::str::from_utf8(word).ok()?.parse().ok()).unwrap_or(0);
    Some(Socket { local, remote, inode })
}

/// Parses `0100007F:1F90`. The address is printed as 32-bit words in the machine's byte order. An IPv4-mapped
/// IPv6 address becomes IPv4, so that both ends of a connection compare equal.
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

/// Parses up to eight hexadecimal digits.
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
    use std::net::{TcpListener, TcpStream};

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
        let mapped =
            b"  12: 0000000000000000FFFF00000100007F:1F90 00000000000000000000000001000000:0001 01 0";
        let socket = parse_line(mapped).unwrap();
        assert_eq!(
            (socket.local, socket.remote),
            ("127.0.0.1:8080".parse().unwrap(), "[::1]:1".parse().unwrap())
        );
        for other in [
            &b"   0: 0100007F:1F90 0200007F:C001 06 00000000:00000000"[..],
            b"   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000",
            b"  sl  local_address rem_address   st tx_queue",
            b"",
            b" 0: 0100007F:12345 0200007F:C001 01",
        ] {
            assert_eq!(parse_line(other), None);
        }
    }

    #[test]
    fn open_connections_count_for_who_has_opened_them() {
        let listener = TcpListener::bind("0.0.0.0:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let connect = |host: &str| TcpStream::connect((host, port)).unwrap();
        let clients = [connect("127.0.0.1"), connect("127.0.0.1"), connect("127.0.0.2")];
        let me = std::process::id();
        assert_eq!(connections_of(&[me], &[port]), 3);
        assert_eq!(connections_of(&[], &[port]), 0);
        // The client closes first; its socket is then in TIME_WAIT and no longer open.
        let server = listener.accept().unwrap().0;
        clients[0].shutdown(std::net::Shutdown::Both).unwrap();
        drop(server);
        assert_eq!(connections_of(&[me], &[1, port]), 2);
    }

    #[test]
    fn an_ipv6_connection_counts() {
        let Ok(listener) = TcpListener::bind("[::1]:0") else {
            crate::skipped("this machine has no IPv6 loopback");
            return;
        };
        let address = listener.local_addr().unwrap();
        let _client = TcpStream::connect(address).unwrap();
        assert_eq!(connections_of(&[std::process::id()], &[address.port()]), 1);
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
