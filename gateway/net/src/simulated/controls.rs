//! Functions with which a scenario sets up and disturbs its world. The simulation's tests call them; they
//! cover conditions of the network, groups of tasks, names, clocks and bounds on connections.

use std::future::{Future, poll_fn};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::task::Poll;
use std::time::Duration;

use super::conditions::{NetworkConditions, TaskGroup};
use super::executor;
use super::meter::ConnectionBound;
use super::network;
use super::socket::SimulatedListener;
use super::world::{SimulatedEvent, with};
use crate::{BoundListener, Stream};

impl NetworkConditions {
    /// Applies them to every connection that is opened from now on.
    pub fn set(self) {
        with(|world| world.conditions = self);
    }
}

/// Creates a group. Tasks that its tasks spawn belong to it too.
#[must_use]
pub fn new_group() -> TaskGroup {
    with(|world| world.tasks.new_group())
}

/// Starts a task in a group.
pub fn spawn_in(group: TaskGroup, future: impl Future<Output = ()> + 'static) {
    executor::spawn_in(group, Box::pin(future));
}

/// Ends a group as `kill -9` ends a process: its tasks are dropped where they are, and their sockets are
/// closed.
pub fn kill(group: TaskGroup) {
    executor::kill(group);
}

/// Stops the tasks of a group for a while, as on a machine that is busy with something else.
pub fn pause(group: TaskGroup, time: Duration) {
    with(|world| {
        let until = world.now + time;
        world.record("pause", &[group.0 as u64, time.as_nanos() as u64]);
        world.tasks.pause(group, until);
        // An event at that time makes the executor look at the group again.
        world.schedule(until, SimulatedEvent::Wake(std::task::Waker::noop().clone()));
    });
}

/// Whether a group is paused now.
#[must_use]
pub fn paused(group: TaskGroup) -> bool {
    with(|world| world.tasks.is_paused(group, world.now))
}

/// Opens a listening socket for the group of this task. Several sockets on one address share its connections,
/// as with SO_REUSEPORT.
#[must_use]
pub fn listen(address: SocketAddr, backlog: usize) -> BoundListener {
    BoundListener::simulated(SimulatedListener::new(address, backlog))
}

/// Sets the addresses to which a name resolves from now on. With an empty list it does not resolve.
pub fn resolve(name: &str, addresses: Vec<IpAddr>) {
    with(|world| world.names.insert(name.to_owned(), addresses));
}

/// Delays everything from or to an address for a while. Nothing is lost.
pub fn delay_address(address: IpAddr, time: Duration) {
    with(|world| {
        let until = world.now.saturating_add(time);
        world.record("hold", &[time.as_nanos() as u64]);
        world.delayed_addresses.insert(address, until);
    });
}

/// Connects from a given local address.
///
/// # Errors
/// The errors of connect(2).
pub async fn connect_from(local: SocketAddr, to: SocketAddr) -> io::Result<Stream> {
    network::connect_from(local, to).await.map(Stream::simulated)
}

/// Sends bytes that the other side has not asked for. They are dropped if the other side writes anything
/// before they arrive, so that they can never be mistaken for a legitimate response.
pub fn send_unsolicited(stream: &Stream, bytes: &[u8]) {
    if let Some(socket) = stream.as_simulated() {
        with(|world| world.send_unsolicited(socket.index(), bytes));
    }
}

/// Waits for a span of virtual time.
pub async fn sleep(time: Duration) {
    let until = elapsed() + time;
    poll_fn(|cx| {
        with(|world| {
            if world.now >= until {
                return Poll::Ready(());
            }
            world.schedule(until, SimulatedEvent::Wake(cx.waker().clone()));
            Poll::Pending
        })
    })
    .await;
}

/// Virtual time since the simulation began.
#[must_use]
pub fn elapsed() -> Duration {
    with(|world| world.now)
}

/// Draws from the world's randomness.
pub fn with_random<R>(draw: impl FnOnce(&mut fastrand::Rng) -> R) -> R {
    with(|world| draw(&mut world.random))
}

/// Forks a generator from the world's randomness. Later draws by others do not affect its values.
#[must_use]
pub fn fork() -> fastrand::Rng {
    with(|world| world.random.fork())
}

/// Moves the wall clock forward or back by a number of seconds. The monotonic clock is not affected.
pub fn set_wall_clock(by: i64) {
    with(|world| world.wall_shift = world.wall_shift.saturating_add(by));
}

/// Records a text in the trace.
pub fn note(text: &str) {
    with(|world| world.record(text, &[]));
}

/// Number of sockets that a group has open: listening sockets, then connections.
#[must_use]
pub fn open_sockets(group: TaskGroup) -> (usize, usize) {
    with(|world| {
        let listening = world.ports.values().map(|port| port.listeners_of(group)).sum();
        let ends = world.connections.iter().flat_map(|connection| &connection.ends);
        (listening, ends.filter(|end| end.owner == Some(group) && !end.closed).count())
    })
}

/// Number of tasks of a group, without the task that is being polled.
#[must_use]
pub fn tasks(group: TaskGroup) -> usize {
    with(|world| world.tasks.count(group))
}

/// Number of pending events that can change anything. 0 means that every task waits for another one; the
/// calling task itself is not waiting.
#[must_use]
pub fn scheduled() -> usize {
    with(|world| world.scheduled())
}

/// Bounds the number of connections to a range of ports; [`exceeded_limits`] lists later violations. A second
/// bound for the same range replaces the first.
pub fn limit_connections(ports: &Range<u16>, bound: ConnectionBound) {
    with(|world| world.meter.limit_connections(ports, bound));
}

/// Descriptions of all connections that were opened beyond a [`limit_connections`].
#[must_use]
pub fn exceeded_limits() -> Vec<String> {
    with(|world| world.meter.exceeded_limits.clone())
}

/// Number of connections to a range of ports that are open or being opened.
#[must_use]
pub fn open_to(ports: &Range<u16>) -> usize {
    with(|world| world.meter.sum((ports.start, ports.end - 1)))
}
