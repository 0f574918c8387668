//! How many connections a server has while it is measured, by the descriptors that it has open.

use super::sockets::connections_of;
use crate::process::process_ids;
use std::fs;

/// The connections of one client that a server has accepted and not closed, and the most of them so far.
///
/// What is counted is the server's descriptors, which costs next to nothing, whatever the machine remembers of connections
/// that are gone. So one that the client has closed counts until the server has, and one that the server has not accepted yet
/// does not. What it had open at the begin and was not the client's (listening sockets, files, connections of others) is taken
/// to stay.
#[derive(Debug)]
pub struct HeldConnections {
    /// The server's processes.
    server: Vec<u32>,
    /// Its descriptors that are no connection of the client's.
    others: u64,
    peak: u64,
}

impl HeldConnections {
    /// Begins, while the client stands still: `server` and `client` are processes, those below them included, and `ports`
    /// where the server listens. For a client that is not there yet there are none.
    pub fn begin(server: &[u32], ports: &[u16], client: &[u32]) -> Self {
        let server: Vec<u32> = server.iter().flat_map(|id| process_ids(*id)).collect();
        let held = connections_of(client, ports);
        let others = descriptors(&server).saturating_sub(held);
        Self { server, others, peak: held }
    }

    /// Counts now.
    pub fn read(&mut self) {
        self.peak = self.peak.max(descriptors(&self.server).saturating_sub(self.others));
    }

    /// The most at one reading.
    pub fn peak(&self) -> u64 {
        self.peak
    }
}

/// How many descriptors processes have open.
fn descriptors(processes: &[u32]) -> u64 {
    let of_one = |id: &u32| {
        let folder = format!("/proc/{id}/fd");
        // The folder's size, which kernels before 6.2 do not tell.
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

    /// A process of its own stands for the server, since tests beside this one open descriptors in this process.
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
