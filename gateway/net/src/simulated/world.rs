//! The simulated world of a thread: its clock, its randomness and its pending events.
//!
//! All other simulated modules extend [`World`] or access it with [`with`]. It lives in a thread-local, so
//! the data path needs no handle to it.

use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap};
use std::net::{IpAddr, SocketAddr};
use std::task::Waker;
use std::time::{Duration, Instant, SystemTime};

use super::conditions::NetworkConditions;
use super::connection::SimulatedConnection;
use super::meter::ConnectionMeter;
use super::port::Port;
use super::tasks::Tasks;
use super::trace::RunTrace;

thread_local! {
    static WORLD: RefCell<Option<World>> = const { RefCell::new(None) };
    static ACTIVE: Cell<bool> = const { Cell::new(false) };
}

/// The wall-clock time at which every simulation begins: 2026-01-01.
const EPOCH: Duration = Duration::from_secs(1_767_225_600);

/// The entire state of a simulation.
pub(super) struct World {
    /// The `Instant` at which the simulation began. Only differences from it are visible.
    base: Instant,
    pub now: Duration,
    /// Seconds by which the wall clock was moved, forward if positive.
    pub wall_shift: i64,
    pub random: fastrand::Rng,
    sequence: u64,
    events: BinaryHeap<ScheduledEvent>,
    pub conditions: NetworkConditions,
    pub connections: Vec<SimulatedConnection>,
    pub meter: ConnectionMeter,
    pub ports: BTreeMap<SocketAddr, Port>,
    /// Addresses that are held, and until when.
    pub delayed_addresses: BTreeMap<IpAddr, Duration>,
    pub names: BTreeMap<String, Vec<IpAddr>>,
    pub timers: Vec<TimerState>,
    pub tasks: Tasks,
    pub trace: RunTrace,
    pub next_port: u16,
}

/// The state of one timer.
#[derive(Debug, Default)]
pub(super) struct TimerState {
    /// Counts its settings. An event of an earlier setting is ignored.
    pub setting: u64,
    pub fired: bool,
    pub waker: Option<Waker>,
}

/// A pending event.
struct ScheduledEvent {
    at: Duration,
    sequence: u64,
    event: SimulatedEvent,
}

/// The kinds of events.
pub(super) enum SimulatedEvent {
    /// Wakes a sleeping task.
    Wake(Waker),
    /// Fires a timer, by its index and setting.
    Fire(usize, u64),
    /// Bytes reach an end (connection, side).
    Arrive(usize, usize, Vec<u8>),
    /// The same, if that end has written no more than this number of bytes by then.
    ArriveUnsolicited(usize, usize, Vec<u8>, u64),
    /// The other side's FIN reaches an end.
    Fin(usize, usize),
    /// A reset reaches an end.
    Reset(usize, usize),
    /// An end learns that there is room for its writes again.
    Room(usize, usize),
    /// The first packet of a connection reaches its host.
    Syn(usize, SocketAddr),
    /// The result of connecting reaches the opener.
    Answer(usize, Result<(), std::io::ErrorKind>),
}

impl PartialEq for ScheduledEvent {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for ScheduledEvent {}

impl PartialOrd for ScheduledEvent {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ScheduledEvent {
    fn cmp(&self, other: &Self) -> Ordering {
        // The heap pops its greatest item first, so the order is reversed.
        (other.at, other.sequence).cmp(&(self.at, self.sequence))
    }
}

impl World {
    pub fn new(seed: u64, text: bool) -> Self {
        Self {
            base: Instant::now(),
            now: Duration::ZERO,
            wall_shift: 0,
            random: fastrand::Rng::with_seed(seed),
            sequence: 0,
            events: BinaryHeap::new(),
            conditions: NetworkConditions::default(),
            connections: Vec::new(),
            meter: ConnectionMeter::default(),
            ports: BTreeMap::new(),
            delayed_addresses: BTreeMap::new(),
            names: BTreeMap::new(),
            timers: Vec::new(),
            tasks: Tasks::default(),
            trace: RunTrace::new(text),
            next_port: 20_000,
        }
    }

    /// Schedules an event at a time; a time in the past means now.
    pub fn schedule(&mut self, at: Duration, event: SimulatedEvent) {
        self.sequence += 1;
        self.events.push(ScheduledEvent { at: at.max(self.now), sequence: self.sequence, event });
    }

    /// The time of the next event.
    pub fn next_event(&self) -> Option<Duration> {
        self.events.peek().map(|event| event.at)
    }

    /// Processes the next event if it is due. Returns whether it did.
    pub fn process_next_event(&mut self) -> bool {
        if self.next_event().is_none_or(|at| at > self.now) {
            return false;
        }
        let Some(ScheduledEvent { event, .. }) = self.events.pop() else { return false };
        match event {
            SimulatedEvent::Wake(waker) => waker.wake(),
            SimulatedEvent::Fire(timer, setting) => self.fire(timer, setting),
            SimulatedEvent::Arrive(connection, side, bytes) => self.arrive(connection, side, bytes),
            SimulatedEvent::ArriveUnsolicited(connection, side, bytes, written) => {
                self.arrive_unsolicited(connection, side, bytes, written);
            }
            SimulatedEvent::Fin(connection, side) => self.fin(connection, side),
            SimulatedEvent::Reset(connection, side) => self.reset(connection, side),
            SimulatedEvent::Room(connection, side) => self.room(connection, side),
            SimulatedEvent::Syn(connection, to) => self.syn(connection, to),
            SimulatedEvent::Answer(connection, answer) => self.answer(connection, answer),
        }
        true
    }

    /// Number of pending events that can change anything. An event of a timer that was set again cannot, nor
    /// can the connect timeout of a connection that has its answer.
    pub fn scheduled(&self) -> usize {
        let counts = |event: &&ScheduledEvent| match &event.event {
            SimulatedEvent::Fire(timer, setting) => self.timers[*timer].setting == *setting,
            SimulatedEvent::Answer(connection, _) => {
                let connection = &self.connections[*connection];
                connection.answer.is_none() && !connection.ends[0].closed
            }
            _ => true,
        };
        self.events.iter().filter(counts).count()
    }

    fn fire(&mut self, timer: usize, setting: u64) {
        let state = &mut self.timers[timer];
        if state.setting == setting {
            state.fired = true;
            if let Some(waker) = state.waker.take() {
                waker.wake();
            }
        }
    }

    pub fn record(&mut self, event: &str, fields: &[u64]) {
        self.trace.record(self.now, event, fields);
    }

    /// A random duration within a range of microseconds.
    pub fn between(&mut self, (least, most): (u64, u64)) -> Duration {
        Duration::from_micros(self.random.u64(least..=most))
    }

    /// Returns true one time in `of`; never if `of` is 0.
    pub fn one_in(&mut self, of: u32) -> bool {
        of > 0 && self.random.u32(0..of) == 0
    }
}

/// Whether a simulation runs on this thread.
pub(crate) fn is_active() -> bool {
    ACTIVE.get()
}

/// Calls `act` with this thread's world. `act` must not call back into it: it must not poll a task or drop a
/// socket.
pub(super) fn with<R>(act: impl FnOnce(&mut World) -> R) -> R {
    WORLD.with_borrow_mut(|world| act(world.as_mut().expect("a simulation runs on this thread")))
}

/// The same, for destructors that may run after the world is gone.
pub(super) fn with_if_any(act: impl FnOnce(&mut World)) {
    // There is no world after the simulation, or while the thread ends.
    let _ = WORLD.try_with(|world| {
        if let Some(world) = world.borrow_mut().as_mut() {
            act(world);
        }
    });
}

/// Installs a world on this thread.
pub(super) fn begin(world: World) {
    WORLD.with_borrow_mut(|current| {
        assert!(current.is_none(), "one simulation a thread at a time");
        *current = Some(world);
    });
    ACTIVE.set(true);
}

pub(super) fn end() -> World {
    ACTIVE.set(false);
    WORLD.with_borrow_mut(Option::take).expect("a simulation runs on this thread")
}

pub(crate) fn now() -> Instant {
    with(|world| world.base + world.now)
}

pub(crate) fn wall() -> SystemTime {
    let (now, shift) = with(|world| (world.now, world.wall_shift));
    let unset = SystemTime::UNIX_EPOCH + EPOCH + now;
    let by = Duration::from_secs(shift.unsigned_abs());
    if shift < 0 { unset - by } else { unset + by }
}

pub(crate) fn random_key() -> [u8; 16] {
    with(|world| world.random.u128(..)).to_le_bytes()
}
