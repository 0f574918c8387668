//! What a scenario does to its world.

use std::future::{Future, poll_fn};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::task::Poll;
use std::time::Duration;

use super::executor;
use super::meter::Bound as ConnectionBound;
use super::network;
use super::socket::Acceptor;
use super::world::{Happening, with};
use crate::{Bound, Stream};

/// What the network and the machines are like. Ranges are of microseconds or bytes; each new connection draws its own
/// figures from them.
#[derive(Clone, Debug)]
pub struct Conditions {
    /// From a send to its arrival.
    pub delay: (u64, u64),
    /// Bytes that fit between a writer and its reader.
    pub capacity: (usize, usize),
    /// One write in so many arrives in several pieces; 0: none.
    pub pieces: u32,
    /// One write in so many takes a part only, though there is room; 0: none.
    pub short_writes: u32,
    /// One read in so many gives a part only; 0: none.
    pub short_reads: u32,
    /// One read in so many has to wait for another turn first, as when a task has had its share; 0: none.
    pub shares: u32,
    /// What a poll of a task takes.
    pub poll: (u64, u64),
}

impl Default for Conditions {
    fn default() -> Self {
        Self {
            delay: (20, 200),
            capacity: (64 * 1024, 256 * 1024),
            pieces: 8,
            short_writes: 0,
            short_reads: 0,
            shares: 0,
            poll: (0, 3),
        }
    }
}

impl Conditions {
    /// Makes them those of every connection that begins from now on.
    pub fn set(self) {
        with(|world| world.conditions = self);
    }
}

/// Tasks that are one thread, process or machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Group(pub(super) usize);

/// A new group. What its tasks spawn belongs to it too.
#[must_use]
pub fn new_group() -> Group {
    with(|world| world.tasks.new_group())
}

/// Starts a task of a group.
pub fn spawn_in(group: Group, future: impl Future<Output = ()> + 'static) {
    executor::spawn_in(group, Box::pin(future));
}

/// Ends a group as `kill -9` ends a process: its tasks are dropped where they stand, and the kernel closes what they
/// held.
pub fn kill(group: Group) {
    executor::kill(group);
}

/// None of its tasks gets a turn for a while, as on a machine that is busy with something else.
pub fn pause(group: Group, time: Duration) {
    with(|world| {
        let until = world.now + time;
        world.record("pause", &[group.0 as u64, time.as_nanos() as u64]);
        world.tasks.pause(group, until);
        // Somebody must look again then.
        world.schedule(until, Happening::Wake(std::task::Waker::noop().clone()));
    });
}

/// Whether a group is paused now.
#[must_use]
pub fn paused(group: Group) -> bool {
    with(|world| world.tasks.is_paused(group, world.now))
}

/// A listening socket of this task's group. Several on one address share its connections, as with SO_REUSEPORT.
#[must_use]
pub fn listen(address: SocketAddr, backlog: usize) -> Bound {
    Bound::simulated(Acceptor::new(address, backlog))
}

/// Addresses that a name has from now on; none: it does not resolve.
pub fn resolve(name: &str, addresses: Vec<IpAddr>) {
    with(|world| world.names.insert(name.to_owned(), addresses));
}

/// From or to an address nothing gets through for a while; it is late then, but not lost.
pub fn hold(address: IpAddr, time: Duration) {
    with(|world| {
        let until = world.now.saturating_add(time);
        world.record("hold", &[time.as_nanos() as u64]);
        world.held.insert(address, until);
    });
}

/// Connects from an address of one's own.
///
/// # Errors
/// As the kernel's connect(2).
pub async fn connect_from(local: SocketAddr, to: SocketAddr) -> io::Result<Stream> {
    network::connect_from(local, to).await.map(Stream::simulated)
}

/// Sends what the other side has not asked for: dropped if it has written anything meanwhile, so that nobody can take it
/// for an answer with reason.
pub fn say_unasked(stream: &Stream, bytes: &[u8]) {
    if let Some(socket) = stream.as_simulated() {
        with(|world| world.say_unasked(socket.place(), bytes));
    }
}

/// Waits.
pub async fn sleep(time: Duration) {
    let until = elapsed() + time;
    poll_fn(|cx| {
        with(|world| {
            if world.now >= until {
                return Poll::Ready(());
            }
            world.schedule(until, Happening::Wake(cx.waker().clone()));
            Poll::Pending
        })
    })
    .await;
}

/// Time since the simulation began.
#[must_use]
pub fn elapsed() -> Duration {
    with(|world| world.now)
}

/// Draws from the world's randomness.
pub fn with_random<R>(draw: impl FnOnce(&mut fastrand::Rng) -> R) -> R {
    with(|world| draw(&mut world.random))
}

/// A generator of one's own, which draws the same whatever others draw meanwhile.
#[must_use]
pub fn fork() -> fastrand::Rng {
    with(|world| world.random.fork())
}

/// Somebody sets the wall clock forward, or back, by so many seconds. The monotonic clock goes on.
pub fn set_wall_clock(by: i64) {
    with(|world| world.wall_shift = world.wall_shift.saturating_add(by));
}

/// Writes something down in the trace.
pub fn note(text: &str) {
    with(|world| world.record(text, &[]));
}

/// Sockets that a group has open: listening ones, then connections.
#[must_use]
pub fn open_sockets(group: Group) -> (usize, usize) {
    with(|world| {
        let listening = world.ports.values().map(|port| port.listeners_of(group)).sum();
        let ends = world.connections.iter().flat_map(|connection| &connection.ends);
        (listening, ends.filter(|end| end.owner == Some(group) && !end.closed).count())
    })
}

/// Tasks that a group has, the one that has its turn left out.
#[must_use]
pub fn tasks(group: Group) -> usize {
    with(|world| world.tasks.count(group))
}

/// How many things are still to happen: 0 where everybody waits for somebody else. Who asks waits for nothing.
#[must_use]
pub fn scheduled() -> usize {
    with(|world| world.scheduled())
}

/// Bounds the connections to a range of ports: who opens more from now on is told of by [`exceeded`]. Another bound of
/// the same range takes this one's place.
pub fn bound(ports: &Range<u16>, bound: ConnectionBound) {
    with(|world| world.meter.bound(ports, bound));
}

/// Where connections were opened beyond a [`bound`].
#[must_use]
pub fn exceeded() -> Vec<String> {
    with(|world| world.meter.exceeded.clone())
}

/// Connections to a range of ports that are open or being opened.
#[must_use]
pub fn open_to(ports: &Range<u16>) -> usize {
    with(|world| world.meter.sum((ports.start, ports.end - 1)))
}
