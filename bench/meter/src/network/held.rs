//! Counts a server's connections during a measurement by its open descriptors.

use super::sockets::connections_of;
use crate::process::process_ids;
use std::fs;

/// The number of connections of one client that a server holds open, and its peak.
///
/// The number is derived from the server's count of descriptors, which is cheap to read and does not depend
/// on what the kernel remembers of closed connections. So a connection that the client has closed counts
/// until the server closes it, and a connection that the server has not accepted yet does not count. The
/// server's other descriptors (listening sockets, files, connections of others) are assumed to stay as they
/// were at the start.
#[derive(Debug)]
pub struct HeldConnections {
    /// The server's processes.
    server: Vec<u32>,
    /// Its descriptors that are not connections of the client.
    others: u64,
    peak: u64,
}

impl HeldConnections {
    /// Starts while the client is paused. `server` and `client` are processes, including their descendants;
    /// `ports` are the ports on which the server listens. If the client has not started yet, its list is
    /// empty.
    pub fn begin(server: &[u32], ports: &[u16], client: &[u32]) -> Self {
        let server: Vec<u32> = server.iter().flat_map(|id| process_ids(*id)).collect();
        let held = connections_of(client, ports);
        let others = descriptors(&server).saturating_sub(held);
        Self { server, others, peak: held }
    }

    /// Takes a reading.
    pub fn read(&mut self) {
        self.peak = self.peak.max(descriptors(&self.server).saturating_sub(self.others));
    }

    /// Returns the highest reading.
    pub fn peak(&self) -> u64 {
        self.peak
    }
}

/// Returns how many descriptors these processes have open.
fn descriptors(processes: &[u32]) -> u64 {
    let of_one = |id: &u32| {
        let folder = format!("/proc/{id}/fd");
        // The folder's size; kernels before 6.2 report 0.
        match fs::metadata(&folder).map_or(0, |folder| folder.len()) {
            0 => fs::read_dir(&folder).map_or(0, |entries| entries.count() as u64),
            count => count,
        }
    };
    processes.iter().map(of_one).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;
    use std::process::{Command, Stdio};

    /// A separate process acts as the server, since other tests open descriptors in this process.
    #[test]
    fn the_most_at_once_is_kept_and_what_was_there_does_not_count() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut child =
            Command::new("bash").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("bash");
        let mut input = child.stdin.take().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut does = |what: &str| {
            writeln!(input, "{what}; echo done").unwrap();
            assert_eq!(output.next().unwrap().unwrap(), "done");
        };
        does(&format!(
            "connect() {{ eval \"exec $1<>/dev/tcp/127.0.0.1/{port}\"; }}; connect 11; connect 12"
        ));
        let id = child.id();
        let mut held = HeldConnections::begin(&[id], &[port], &[]);
        let mut own = HeldConnections::begin(&[id], &[port], &[id]);
        assert_eq!((held.peak(), own.peak()), (0, 2));
        does("connect 13; connect 14; connect 15");
        held.read();
        own.read();
        does("exec 13<&- 14<&-");
        held.read();
        own.read();
        assert_eq!((held.peak(), own.peak()), (3, 5));
        drop(input);
        child.wait().unwrap();
    }

    #[test]
    fn a_server_that_is_gone_has_none() {
        let mut held = HeldConnections::begin(&[u32::MAX], &[1], &[]);
        held.read();
        assert_eq!(held.peak(), 0);
    }
}
