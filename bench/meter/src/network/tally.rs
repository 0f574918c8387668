//! Connections of a port over time: the most at once, and how many different ones were seen.

use super::connections::{ConnectionCount, End, State, each_socket};
use std::collections::HashSet;
use std::net::SocketAddr;

/// Counts the connections to a server's port at each reading and remembers which it has seen.
///
/// Cost of a reading, measured on a virtual machine with Linux 6.18: 1 ms for the kernel's walk over its table, and 1.2 us
/// for each socket of anybody, those in TIME_WAIT included; 25 ms with 20,000 sockets. Each connection on loopback is
/// two sockets.
#[derive(Debug)]
pub struct ConnectionTally {
    end: End,
    /// Client ends seen, those of before the tally included.
    seen: HashSet<SocketAddr>,
    before: usize,
    peak: ConnectionCount,
    buffer: Vec<u8>,
}

/// What a tally saw.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Opened {
    /// Different connections seen since the tally began, closed ones included as long as a reading found them in
    /// TIME_WAIT. A lower bound: one that came and went between two readings and left nothing is not in it, and a
    /// client port used again counts once. (The kernel counts accepted connections for the whole machine only.)
    pub at_least: u64,
    /// The most of each state at one reading.
    pub peak: ConnectionCount,
}

impl ConnectionTally {
    /// Begins; connections that there are already, dead or alive, will not count as opened.
    pub fn begin(end: End) -> Self {
        let mut tally = Self {
            end,
            seen: HashSet::new(),
            before: 0,
            peak: ConnectionCount::default(),
            buffer: Vec::new(),
        };
        tally.read();
        tally.before = tally.seen.len();
        tally
    }

    /// Counts now.
    pub fn read(&mut self) -> ConnectionCount {
        let mut now = ConnectionCount::default();
        let (end, seen) = (self.end, &mut self.seen);
        let (End::Local(port) | End::Remote(port)) = end;
        each_socket(&mut self.buffer, |socket| {
            now += socket.counted(end);
            if socket.state == State::Listen {
                return;
            }
            // Whichever side closed first holds the TIME_WAIT, so both sides are searched for the client's end.
            if socket.remote.port() == port {
                seen.insert(socket.local);
            } else if socket.local.port() == port {
                seen.insert(socket.remote);
            }
        });
        self.peak = ConnectionCount {
            established: self.peak.established.max(now.established),
            time_wait: self.peak.time_wait.max(now.time_wait),
            other: self.peak.other.max(now.other),
        };
        now
    }

    /// What was seen up to the last reading.
    pub fn opened(&self) -> Opened {
        Opened { at_least: (self.seen.len() - self.before) as u64, peak: self.peak }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn closed_connections_stay_counted_and_old_ones_do_not_count() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let open = || {
            let client = TcpStream::connect(("127.0.0.1", port)).unwrap();
            (client, listener.accept().unwrap().0)
        };
        let old = open();
        let mut tally = ConnectionTally::begin(End::Local(port));
        assert_eq!(tally.opened().at_least, 0);
        let first = [open(), open()];
        assert_eq!(tally.read().established, 3);
        drop(first);
        drop(old);
        let _second = open();
        assert_eq!(tally.read().established, 1);
        assert_eq!(tally.opened().at_least, 3);
        assert_eq!(tally.opened().peak.established, 3);
        // Opened and closed between two readings: the client's end waits in TIME_WAIT.
        drop(open());
        tally.read();
        assert_eq!(tally.opened().at_least, 4);
    }
}
