//! Sends lines to a syslog server (RFC 5424), over UDP (RFC 5426), TCP with octet counting (RFC 6587, section
//! 3.4.1) or a Unix socket.
//!
//! The writer thread owns it. No call waits longer than [`SEND_WAIT`], except to open a TCP connection. While
//! a server is unreachable or too slow, up to [`PENDING_MAX_BYTES`] bytes of messages wait; further messages
//! are dropped and counted.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::clock::{WallClock, digits};
use super::writer::LogCounts;

/// Bound of the messages that wait for the server, in bytes.
const PENDING_MAX_BYTES: usize = 4 << 20;

/// Bound of one datagram, in bytes: UDP over IPv4 carries 65,507.
const DATAGRAM_MAX_BYTES: usize = 60_000;

/// How long one call waits for a full socket.
const SEND_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Time limit for opening a TCP connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// A server that accepts no byte for this long gets a new connection.
const STALL_TIMEOUT: Duration = Duration::from_secs(10);

/// The wait before the second attempt to reach a server. It doubles up to `RECONNECT_WAIT_MAX`.
const RECONNECT_WAIT_MIN: Duration = Duration::from_millis(250);
const RECONNECT_WAIT_MAX: Duration = Duration::from_secs(15);

/// A syslog server, and the header fields of its messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyslogTarget {
    /// The transport and address.
    pub transport: SyslogTransport,
    /// The facility, 0 to 23 (RFC 5424, table 1).
    pub facility: u8,
    /// The severity, 0 to 7 (RFC 5424, table 2).
    pub severity: u8,
    /// `APP-NAME`: up to 48 visible ASCII characters.
    pub app_name: String,
}

/// The transport to a syslog server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SyslogTransport {
    /// `host:port`.
    Udp(String),
    /// `host:port`.
    Tcp(String),
    /// Path of a datagram or stream socket.
    Unix(PathBuf),
}

impl fmt::Display for SyslogTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Udp(address) => write!(f, "syslog+udp://{address}"),
            Self::Tcp(address) => write!(f, "syslog+tcp://{address}"),
            Self::Unix(path) => write!(f, "syslog+unix:{}", path.display()),
        }
    }
}

/// An open socket to the server.
enum ServerSocket {
    Udp(UdpSocket),
    Tcp(TcpStream),
    Datagrams(UnixDatagram),
    Stream(UnixStream),
}

/// The queue of messages to a server.
pub(super) struct Syslog {
    transport: SyslogTransport,
    /// The part of each message before the time.
    begin: String,
    /// The part of each message after the time.
    middle: String,
    clock: WallClock,
    link: Option<ServerSocket>,
    pending: VecDeque<Vec<u8>>,
    pending_bytes: usize,
    /// Bytes of the first pending message that a stream has accepted, with its length prefix.
    sent: usize,
    /// Time at which the stream last accepted a byte.
    progress: Instant,
    retry_at: Option<Instant>,
    wait: Duration,
}

impl Syslog {
    pub(super) fn new(target: SyslogTarget) -> Self {
        let SyslogTarget { transport, facility, severity, app_name } = target;
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let host: String = host.trim().chars().filter(char::is_ascii_graphic).take(255).collect();
        let host = if host.is_empty() { "-" } else { &host };
        Self {
            transport,
            begin: format!("<{}>1 ", u16::from(facility) * 8 + u16::from(severity)),
            middle: format!(" {host} {app_name} {} access - ", std::process::id()),
            clock: WallClock::new(),
            link: None,
            pending: VecDeque::new(),
            pending_bytes: 0,
            sent: 0,
            progress: Instant::now(),
            retry_at: None,
            wait: RECONNECT_WAIT_MIN,
        }
    }

    /// Queues a line, and sends as much as the server accepts now.
    pub(super) fn take(&mut self, line: &[u8], counts: &LogCounts) {
        let message = self.message(line);
        if self.pending_bytes + message.len() > PENDING_MAX_BYTES {
            return counts.drop_lines(1);
        }
        self.pending_bytes += message.len();
        self.pending.push_back(message);
    }

    /// Returns whether messages wait.
    pub(super) fn waits(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Sends as much as the server accepts.
    pub(super) fn flush(&mut self, counts: &LogCounts) {
        while let Some(message) = self.pending.front() {
            let now = Instant::now();
            if self.link.is_none() {
                if self.retry_at.is_some_and(|at| now < at) {
                    return;
                }
                match ServerSocket::open(&self.transport) {
                    Ok(link) => (self.link, self.sent, self.progress) = (Some(link), 0, now),
                    Err(error) => return self.failed(&error, counts),
                }
            }
            let Some(link) = &mut self.link else { return };
            match link.send(message, &mut self.sent) {
                Ok(()) => {
                    self.pending_bytes -= message.len();
                    self.pending.pop_front();
                    (self.sent, self.progress, self.wait, self.retry_at) = (0, now, RECONNECT_WAIT_MIN, None);
                    counts.add_written(1);
                    counts.set_problem(None);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if link.is_writable() {
                        continue;
                    }
                    if now.saturating_duration_since(self.progress) > STALL_TIMEOUT {
                        return self.failed(&ErrorKind::TimedOut.into(), counts);
                    }
                    return;
                }
                // The server, or the network, accepts no datagram of this size.
                Err(error) if is_too_long(&error) => {
                    self.pending_bytes -= message.len();
                    self.pending.pop_front();
                    counts.drop_lines(1);
                }
                Err(error) => return self.failed(&error, counts),
            }
        }
    }

    /// Sends the waiting messages within a time limit, and drops the rest.
    pub(super) fn finish(&mut self, bound: Duration, counts: &LogCounts) {
        let end = Instant::now() + bound;
        self.retry_at = None;
        while self.waits() && Instant::now() < end {
            self.flush(counts);
            if self.waits() && self.link.is_none() {
                break;
            }
        }
        counts.drop_lines(self.pending.len() as u64);
        self.pending.clear();
    }

    fn failed(&mut self, error: &io::Error, counts: &LogCounts) {
        counts.set_problem(Some(format!("{}: {error}", self.transport)));
        self.link = None;
        // A stream loses a partly sent message with its connection: the next connection sends the whole
        // message.
        self.sent = 0;
        self.retry_at = Some(Instant::now() + self.wait);
        self.wait = (self.wait * 2).min(RECONNECT_WAIT_MAX);
    }

    fn message(&mut self, line: &[u8]) -> Vec<u8> {
        let millis = self.clock.advance(Instant::now());
        let mut fraction = *b"000Z";
        digits(&mut fraction[..3], millis);
        let mut out = Vec::with_capacity(self.begin.len() + self.middle.len() + line.len() + 32);
        out.extend_from_slice(self.begin.as_bytes());
        out.extend_from_slice(self.clock.rfc3339());
        out.extend_from_slice(&fraction);
        out.extend_from_slice(self.middle.as_bytes());
        out.extend_from_slice(line);
        out
    }
}

fn is_too_long(error: &io::Error) -> bool {
    rustix::io::Errno::from_io_error(error) == Some(rustix::io::Errno::MSGSIZE)
}

impl ServerSocket {
    fn open(transport: &SyslogTransport) -> io::Result<Self> {
        match transport {
            SyslogTransport::Udp(address) => each(address, |address| {
                let any: SocketAddr = match address {
                    SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
                    SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
                };
                let socket = UdpSocket::bind(any)?;
                socket.connect(address)?;
                socket.set_nonblocking(true)?;
                Ok(Self::Udp(socket))
            }),
            SyslogTransport::Tcp(address) => each(address, |address| {
                let stream = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT)?;
                stream.set_nonblocking(true)?;
                Ok(Self::Tcp(stream))
            }),
            SyslogTransport::Unix(path) => {
                let socket = UnixDatagram::unbound()?;
                match socket.connect(path) {
                    Ok(()) => {
                        socket.set_nonblocking(true)?;
                        Ok(Self::Datagrams(socket))
                    }
                    Err(error)
                        if rustix::io::Errno::from_io_error(&error) == Some(rustix::io::Errno::PROTOTYPE) =>
                    {
                        let stream = UnixStream::connect(path)?;
                        stream.set_nonblocking(true)?;
                        Ok(Self::Stream(stream))
                    }
                    Err(error) => Err(error),
                }
            }
        }
    }

    /// Sends a message, or the part of it that the stream has not accepted yet.
    fn send(&mut self, message: &[u8], sent: &mut usize) -> io::Result<()> {
        match self {
            Self::Udp(socket) => socket.send(&message[..message.len().min(DATAGRAM_MAX_BYTES)]).map(drop),
            Self::Datagrams(socket) => {
                socket.send(&message[..message.len().min(DATAGRAM_MAX_BYTES)]).map(drop)
            }
            Self::Tcp(stream) => send_counted(stream, message, sent),
            Self::Stream(stream) => send_counted(stream, message, sent),
        }
    }

    /// Waits up to [`SEND_WAIT`] until the socket accepts more; returns whether it does.
    fn is_writable(&self) -> bool {
        let socket = self.as_fd();
        let polled = poll(&mut [PollFd::from_borrowed_fd(socket, PollFlags::OUT)], Some(&SEND_WAIT));
        polled.is_ok_and(|ready| ready > 0)
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Udp(socket) => socket.as_fd(),
            Self::Tcp(stream) => stream.as_fd(),
            Self::Datagrams(socket) => socket.as_fd(),
            Self::Stream(stream) => stream.as_fd(),
        }
    }
}

/// Tries the addresses of a name in turn.
fn each(address: &str, open: impl Fn(SocketAddr) -> io::Result<ServerSocket>) -> io::Result<ServerSocket> {
    let mut last = io::Error::new(ErrorKind::NotFound, "the name has no address");
    for address in address.to_socket_addrs()? {
        match open(address) {
            Ok(link) => return Ok(link),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Writes a message after its length. `sent` counts the accepted bytes of both, and persists between calls.
fn send_counted(stream: &mut (impl Read + Write), message: &[u8], sent: &mut usize) -> io::Result<()> {
    if *sent == 0 {
        // Writing alone does not reveal that the server closed the connection: the next message would be
        // lost.
        match stream.read(&mut [0; 256]) {
            Ok(0) => return Err(ErrorKind::ConnectionReset.into()),
            Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
            _ => {}
        }
    }
    let length = format!("{} ", message.len());
    while let Some(left) = (length.len() + message.len()).checked_sub(*sent).filter(|left| *left > 0) {
        let rest = match length.as_bytes().get(*sent..).filter(|rest| !rest.is_empty()) {
            Some(rest) => rest,
            None => &message[message.len() - left..],
        };
        match stream.write(rest) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => *sent += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn syslog(transport: SyslogTransport) -> Syslog {
        Syslog::new(SyslogTarget { transport, facility: 23, severity: 6, app_name: "gate".to_owned() })
    }

    fn send(syslog: &mut Syslog, counts: &LogCounts, line: &str) {
        syslog.take(line.as_bytes(), counts);
        syslog.flush(counts);
    }

    /// Splits the header off a message, without its time.
    fn parsed(message: &str) -> (String, String) {
        let mut words = message.splitn(8, ' ');
        let begin = words.next().unwrap_or_default().to_owned();
        let time = words.next().unwrap_or_default();
        assert!(time.ends_with('Z') && time.len() == "2026-01-31T23:59:59.123Z".len(), "{message}");
        let [_host, app, process, id, data] = std::array::from_fn(|_| words.next().unwrap_or_default());
        assert_eq!((app, id, data), ("gate", "access", "-"), "{message}");
        assert_eq!(process, std::process::id().to_string());
        (begin, words.next().unwrap_or_default().to_owned())
    }

    #[test]
    fn datagrams() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let counts = LogCounts::default();
        let mut syslog = syslog(SyslogTransport::Udp(server.local_addr().unwrap().to_string()));
        send(&mut syslog, &counts, "a line \"b\"");
        let mut buffer = [0; 1024];
        let count = server.recv(&mut buffer).unwrap();
        let text = String::from_utf8_lossy(&buffer[..count]).into_owned();
        assert_eq!(parsed(&text), ("<190>1".to_owned(), "a line \"b\"".to_owned()));
        assert_eq!((counts.written(), counts.dropped()), (1, 0));
    }

    #[test]
    fn a_socket_of_datagrams_and_one_of_streams() {
        let folder = tempfile::tempdir().unwrap();
        let counts = LogCounts::default();
        let path = folder.path().join("log");
        let server = UnixDatagram::bind(&path).unwrap();
        send(&mut syslog(SyslogTransport::Unix(path.clone())), &counts, "one");
        let mut buffer = [0; 1024];
        let count = server.recv(&mut buffer).unwrap();
        assert_eq!(parsed(&String::from_utf8_lossy(&buffer[..count])).1, "one");

        let path = folder.path().join("stream");
        let server = std::os::unix::net::UnixListener::bind(&path).unwrap();
        send(&mut syslog(SyslogTransport::Unix(path)), &counts, "two");
        let mut text = String::new();
        server.accept().unwrap().0.read_to_string(&mut text).unwrap();
        let (length, message) = text.split_once(' ').unwrap();
        assert_eq!(length.parse(), Ok(message.len()));
        assert_eq!(parsed(message).1, "two");
    }

    #[test]
    fn waiting_lines_go_over_the_next_connection() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        drop(server);
        let counts = LogCounts::default();
        let mut syslog = syslog(SyslogTransport::Tcp(address.to_string()));
        send(&mut syslog, &counts, "one");
        assert!(syslog.waits() && counts.problem().unwrap().starts_with("syslog+tcp://127.0.0.1"));
        let server = TcpListener::bind(address).unwrap();
        send(&mut syslog, &counts, "two");
        assert!(syslog.waits(), "too soon");
        syslog.finish(Duration::from_secs(10), &counts);
        assert_eq!((counts.written(), counts.dropped(), counts.problem()), (2, 0, None));
        drop(syslog);
        let mut text = String::new();
        server.accept().unwrap().0.read_to_string(&mut text).unwrap();
        assert!(text.contains("access - one") && text.ends_with("access - two"), "{text}");
    }

    #[test]
    fn a_server_that_reads_nothing_costs_bounded_memory_and_time() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let counts = LogCounts::default();
        let mut syslog = syslog(SyslogTransport::Tcp(server.local_addr().unwrap().to_string()));
        let line = "x".repeat(64 * 1024);
        let lines = 400;
        for _ in 0..lines {
            syslog.take(line.as_bytes(), &counts);
            if syslog.pending_bytes * 2 > PENDING_MAX_BYTES && counts.dropped() == 0 {
                syslog.flush(&counts);
            }
        }
        assert!(syslog.pending_bytes <= PENDING_MAX_BYTES && counts.dropped() > 0);
        let began = Instant::now();
        syslog.finish(Duration::from_millis(50), &counts);
        assert!(began.elapsed() < Duration::from_secs(5));
        assert_eq!(counts.written() + counts.dropped(), lines);
    }
}
