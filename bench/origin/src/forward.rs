//! The minimal proxy: copies bytes from one socket to another without reading them.
//!
//! It costs what the kernel takes for two connections: two reads, two writes and a wait. The difference to a
//! gateway's toll is the gateway's own part. A gateway that shares few connections to the origin among many
//! clients may save some of the kernel's part.

use crate::failure::Failure;
use crate::place::Place;
use crate::socket::{Accepted, accept, connect_to, listen_on, watch_for_accept};
use crate::threads::Threads;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};
use rustix::time::Timespec;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

/// Events taken from the kernel at once.
const EVENTS_MAX: usize = 512;

/// Connections accepted in a row.
const ACCEPTS_MAX: usize = 64;

/// Most bytes read at once.
const READ_MAX_BYTES: usize = 64 * 1024;

/// Reads of one side in a row, before other connections get their turn.
const READS_MAX: usize = 16;

/// How long accepting pauses if no more descriptors may be opened. Other threads of the process may close
/// some.
const REST: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// The epoll flags of each socket.
const WATCHED: EventFlags =
    EventFlags::IN.union(EventFlags::OUT).union(EventFlags::RDHUP).union(EventFlags::ET);

/// Mark the listening socket and the stop event among the events.
const LISTENER: u64 = u64::MAX;
const STOP: u64 = u64::MAX - 1;

/// Forwards connections on threads of this process until it is dropped.
#[derive(Debug)]
pub struct Forwarder {
    address: SocketAddr,
    threads: Threads,
}

impl Forwarder {
    /// Starts the forwarder: it opens a connection to `to` for each connection to `listen`. The kernel
    /// spreads connections over the threads. The forwarder listens when this returns. Each connection takes
    /// two descriptors.
    ///
    /// # Errors
    /// See [`Failure`].
    pub fn start(listen: SocketAddr, to: SocketAddr, threads: u32) -> Result<Self, Failure> {
        // The result is ignored: with a low limit, further connections wait in the listen queue.
        let _ = tollgate_lab_load::raise_limit();
        let (mut all, mut address) = (Threads::new()?, listen);
        for thread in 0..threads.max(1) {
            let (listener, bound) = listen_on(address, threads > 1)?;
            address = bound;
            let worker = Worker::new(to, listener, all.stop())?;
            all.spawn(format!("forward-{thread}"), || worker.run())?;
        }
        Ok(Self { address, threads: all })
    }

    /// Returns the listening address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Forwards until a signal (SIGTERM) ends the process.
///
/// # Errors
/// See [`Failure`]; it returns for no other reason.
pub fn forward(listen: SocketAddr, to: SocketAddr, threads: u32) -> Result<Infallible, Failure> {
    Forwarder::start(listen, to, threads)?.threads.wait()
}

/// A client's connection and the connection that was opened for it.
#[derive(Debug, Default)]
struct Pair {
    generation: u32,
    sockets: Option<[OwnedFd; 2]>,
    /// Bytes that a side has not accepted yet. While there are any, the other side is not read.
    waiting: [Vec<u8>; 2],
    /// Whether a side has closed its sending direction.
    ended: [bool; 2],
}

struct Worker {
    to: SocketAddr,
    listener: OwnedFd,
    /// Whether epoll reports connections to accept.
    accepting: bool,
    /// Keeps the stop event open as long as epoll watches it.
    _stop: Arc<OwnedFd>,
    epoll: OwnedFd,
    pairs: Vec<Pair>,
    vacant: Vec<usize>,
    buffer: Vec<u8>,
}

impl Worker {
    fn new(to: SocketAddr, listener: OwnedFd, stop: Arc<OwnedFd>) -> Result<Self, Failure> {
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(Failure::system("create an epoll"))?;
        let watch = |result: Result<(), Errno>| result.map_err(Failure::system("watch a file"));
        watch(epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN))?;
        watch(epoll::add(&epoll, &stop, EventData::new_u64(STOP), EventFlags::IN))?;
        let (pairs, vacant, buffer) = (Vec::new(), Vec::new(), vec![0; READ_MAX_BYTES]);
        Ok(Self { to, listener, accepting: true, _stop: stop, epoll, pairs, vacant, buffer })
    }

    fn run(mut self) -> Result<(), Failure> {
        let mut events: Vec<Event> = Vec::with_capacity(EVENTS_MAX);
        loop {
            events.clear();
            let rest = (!self.accepting).then_some(REST);
            match epoll::wait(&self.epoll, spare_capacity(&mut events), rest.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(Failure::System("wait for events", error.into())),
            }
            if !self.accepting {
                self.set_accepting(true)?;
            }
            for Event { flags, data } in events.iter().copied() {
                match data.u64() {
                    LISTENER => self.accept()?,
                    STOP => return Ok(()),
                    word => self.event(Place::of(word), flags),
                }
            }
        }
    }

    fn accept(&mut self) -> Result<(), Failure> {
        for _ in 0..ACCEPTS_MAX {
            match accept(&self.listener)? {
                // A client is dropped if its connection to the server fails.
                Accepted::Connection(client) => match connect_to(self.to) {
                    Ok(server) => self.open([client, server]),
                    Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                        return self.set_accepting(false);
                    }
                    Err(_) => {}
                },
                Accepted::None => break,
                Accepted::NoRoom => return self.set_accepting(false),
            }
        }
        Ok(())
    }

    /// Turns accepting off if no more descriptors may be opened, and on again after a pause.
    fn set_accepting(&mut self, on: bool) -> Result<(), Failure> {
        self.accepting = on;
        watch_for_accept(&self.epoll, &self.listener, LISTENER, on)
    }

    fn open(&mut self, sockets: [OwnedFd; 2]) {
        let at = self.vacant.pop().unwrap_or_else(|| {
            self.pairs.push(Pair::default());
            self.pairs.len() - 1
        });
        let pair = &mut self.pairs[at];
        let watched = sockets.iter().enumerate().all(|(side, socket)| {
            let data = EventData::new_u64(Place { at, side, generation: pair.generation }.word());
            epoll::add(&self.epoll, socket, data, WATCHED).is_ok()
        });
        pair.sockets = Some(sockets);
        if !watched {
            self.close(at);
        }
    }

    fn close(&mut self, at: usize) {
        let pair = &mut self.pairs[at];
        let generation = (pair.generation + 1) & 0x7fff_ffff;
        *pair = Pair { generation, ..Pair::default() };
        self.vacant.push(at);
    }

    fn event(&mut self, place: Place, flags: EventFlags) {
        let pair = &mut self.pairs[place.at];
        if pair.generation != place.generation {
            return;
        }
        let over = flags.intersects(EventFlags::RDHUP | EventFlags::HUP);
        // A side that was reset accepts no more data, and the data it sent is discarded.
        let mut passed = if flags.contains(EventFlags::ERR) { Err(Errno::CONNRESET) } else { Ok(()) };
        if flags.contains(EventFlags::OUT) && !pair.waiting[place.side].is_empty() {
            // The queued bytes had stopped reads from the other side.
            passed = passed
                .and_then(|()| pair.flush(place.side))
                .and_then(|()| pair.pass(place.opposite(), true, &mut self.buffer, &self.epoll));
        }
        if over || flags.contains(EventFlags::IN) {
            passed = passed.and_then(|()| pair.pass(place, over, &mut self.buffer, &self.epoll));
        }
        if passed.is_err() || pair.ended == [true, true] && pair.waiting.iter().all(Vec::is_empty) {
            self.close(place.at);
        }
    }
}

impl Pair {
    /// Forwards what a side has sent. A read that does not fill the buffer is the last one. The exception is
    /// a side that has closed (`to_the_end`), which epoll does not report again.
    fn pass(
        &mut self,
        from: Place,
        to_the_end: bool,
        buffer: &mut [u8],
        epoll: &OwnedFd,
    ) -> Result<(), Errno> {
        let Some(sockets) = &self.sockets else { return Ok(()) };
        let (side, other) = (from.side, from.opposite().side);
        let (source, target, waiting) = (&sockets[side], &sockets[other], &mut self.waiting[other]);
        for _ in 0..READS_MAX {
            if !waiting.is_empty() || self.ended[side] {
                return Ok(());
            }
            let count = match recv(source, &mut *buffer, RecvFlags::empty()) {
                Ok((count, _)) => count,
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error),
            };
            if count == 0 {
                self.ended[side] = true;
                // Fails if the connection is not established yet; its end is reported as an event later.
                let _ = shutdown(target, Shutdown::Write);
                return Ok(());
            }
            let sent = match send(target, &buffer[..count], SendFlags::NOSIGNAL) {
                Ok(sent) => sent,
                Err(Errno::AGAIN | Errno::INTR) => 0,
                Err(error) => return Err(error),
            };
            waiting.extend_from_slice(&buffer[sent..count]);
            if count < buffer.len() && !to_the_end {
                return Ok(());
            }
        }
        // There may be more data. Rearming makes epoll report it again.
        epoll::modify(epoll, source, EventData::new_u64(from.word()), WATCHED)
    }

    /// Sends the bytes that a side has not accepted yet.
    fn flush(&mut self, to: usize) -> Result<(), Errno> {
        let Some(sockets) = &self.sockets else { return Ok(()) };
        match send(&sockets[to], &self.waiting[to], SendFlags::NOSIGNAL) {
            Ok(sent) => drop(self.waiting[to].drain(..sent)),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    fn read_all(stream: &mut TcpStream) -> Vec<u8> {
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        all
    }

    #[test]
    fn bytes_and_ends_pass_both_ways() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        for threads in [1, 2] {
            let any = SocketAddr::from(([127, 0, 0, 1], 0));
            let forwarder = Forwarder::start(any, server.local_addr().unwrap(), threads).unwrap();
            let mut client = TcpStream::connect(forwarder.address()).unwrap();
            let (mut inner, _) = server.accept().unwrap();
            // More than all buffers on the way hold, so that both sides have to wait.
            let body: Vec<u8> = (0..32 << 20).map(|at: u32| (at / 7) as u8).collect();
            let echo = std::thread::spawn(move || {
                let all = read_all(&mut inner);
                inner.write_all(&all).unwrap();
            });
            client.write_all(&body).unwrap();
            client.shutdown(std::net::Shutdown::Write).unwrap();
            assert!(read_all(&mut client) == body, "{threads} threads");
            echo.join().unwrap();
        }
    }

    #[test]
    fn a_client_whose_server_is_gone_sees_the_end() {
        let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let forwarder = Forwarder::start(SocketAddr::from(([127, 0, 0, 1], 0)), gone, 1).unwrap();
        let mut client = TcpStream::connect(forwarder.address()).unwrap();
        // Either an end of stream or a reset.
        assert!(matches!(client.read(&mut [0; 8]), Ok(0) | Err(_)));
    }
}
