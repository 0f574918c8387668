//! The control port, which serves the origin's counters and recorded requests. It handles one connection at a
//! time, with one request each.

use crate::failure::Failure;
use crate::head::{Line, end, split};
use crate::origin::Shared;
use crate::socket::{Accepted, accept};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::OwnedFd;
use rustix::io::{Errno, ioctl_fionbio};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Timeout of each read and write. It is short because other clients wait for their turn.
const PATIENCE: Duration = Duration::from_secs(1);

/// Longest request, in bytes.
const REQUEST_MAX_BYTES: usize = 16 * 1024;

/// Serves until the origin stops.
pub(crate) fn run(shared: &Shared, listener: &OwnedFd) -> Result<(), Failure> {
    loop {
        let mut files = [PollFd::new(listener, PollFlags::IN), PollFd::new(&shared.stop, PollFlags::IN)];
        match poll(&mut files, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(Failure::System("wait for events", error.into())),
        }
        if !files[1].revents().is_empty() {
            return Ok(());
        }
        match accept(listener)? {
            // A client that disconnects or sends garbage only misses its own answer.
            Accepted::Connection(socket) => drop(converse(shared, socket)),
            Accepted::None => {}
            Accepted::NoRoom => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}

fn converse(shared: &Shared, socket: OwnedFd) -> io::Result<()> {
    ioctl_fionbio(&socket, false)?;
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut head = Vec::new();
    let mut part = [0; 1024];
    while end(&head, 0).is_none() && head.len() < REQUEST_MAX_BYTES {
        match stream.read(&mut part)? {
            0 => break,
            count => head.extend_from_slice(&part[..count]),
        }
    }
    let (status, text) = answer(shared, &head);
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}",
        text.len()
    )
}

fn answer(shared: &Shared, head: &[u8]) -> (&'static str, String) {
    let Ok((Line { method, target, .. }, _)) = split(head) else {
        return ("400 Bad Request", "{}".into());
    };
    let json = match (method, target) {
        (b"GET", b"/counters") => serde_json::to_string(&shared.counters()),
        (b"GET", b"/recorded") => serde_json::to_string(&shared.recorder.all()),
        (b"POST", b"/reset") => {
            shared.reset();
            Ok("{}".into())
        }
        _ => return ("404 Not Found", "{}".into()),
    };
    match json {
        Ok(text) => ("200 OK", text),
        Err(_) => ("500 Internal Server Error", "{}".into()),
    }
}
