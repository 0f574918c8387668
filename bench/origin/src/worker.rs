//! One thread of an origin: an epoll loop over its listening socket and its connections. Events on a
//! connection are handled in `exchange`. Delayed responses wait in one queue, which a timer drains. Slots and
//! their buffers are reused, so that a request allocates nothing.

use crate::answer::{Answers, unix_seconds};
use crate::failure::Failure;
use crate::head::Heads;
use crate::origin::Shared;
use crate::slot::Slot;
use crate::socket::{Accepted, accept, watch_for_accept};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::time::Timespec;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use tollgate_lab_load::clock::{Timer, now};

/// Bytes read from a socket at once.
const READ_MAX_BYTES: usize = 64 * 1024;

/// Most bytes of several responses that are combined into one write.
pub(crate) const WRITE_MAX_BYTES: usize = 64 * 1024;

/// Events taken from the kernel at once.
const EVENTS_MAX: usize = 512;

/// Connections accepted in a row, so that a flood of them does not delay the open ones.
const ACCEPTS_MAX: usize = 64;

/// Mark the listening socket, the timer and the stop event among the events.
const LISTENER: u64 = u64::MAX;
const TIMER: u64 = u64::MAX - 1;
const STOP: u64 = u64::MAX - 2;

pub(crate) struct Worker {
    pub(crate) shared: Arc<Shared>,
    pub(crate) thread: usize,
    pub(crate) epoll: OwnedFd,
    listener: OwnedFd,
    /// Whether epoll reports connections to accept.
    accepting: bool,
    timer: Timer,
    pub(crate) slots: Vec<Slot>,
    /// Slots without a connection.
    pub(crate) vacant: Vec<u32>,
    /// Delayed responses: when each may be sent, and the token of its connection. The delay is the same for
    /// all, so the queue is in order of time and no heap is needed.
    pub(crate) held: VecDeque<(u64, u64)>,
    pub(crate) answers: Answers,
    pub(crate) heads: Heads,
    pub(crate) buffer: Vec<u8>,
    pub(crate) out: Vec<u8>,
}

/// Returns the key of a connection in epoll: its slot, and its number within the slot.
pub(crate) fn token(slot: &Slot, at: usize) -> u64 {
    u64::from(slot.generation) << 32 | at as u64
}

impl Worker {
    pub(crate) fn new(shared: Arc<Shared>, thread: usize, listener: OwnedFd) -> Result<Self, Failure> {
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(Failure::system("create an epoll"))?;
        let timer = Timer::new().map_err(Failure::system("create a timer"))?;
        let watch = |result: Result<(), Errno>| result.map_err(Failure::system("watch a file"));
        watch(epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN))?;
        watch(epoll::add(&epoll, &timer, EventData::new_u64(TIMER), EventFlags::IN | EventFlags::ET))?;
        watch(epoll::add(&epoll, &shared.stop, EventData::new_u64(STOP), EventFlags::IN))?;
        Ok(Self {
            answers: Answers::new(&shared.settings),
            heads: Heads::new(&shared.settings.ready_path),
            shared,
            thread,
            epoll,
            listener,
            accepting: true,
            timer,
            slots: Vec::new(),
            vacant: Vec::new(),
            held: VecDeque::new(),
            buffer: vec![0; READ_MAX_BYTES],
            out: Vec::with_capacity(WRITE_MAX_BYTES),
        })
    }

    /// Serves until the stop event.
    pub(crate) fn run(mut self) -> Result<(), Failure> {
        let mut events: Vec<Event> = Vec::with_capacity(EVENTS_MAX);
        loop {
            let at_once = self.release();
            let timeout = at_once.then_some(Timespec { tv_sec: 0, tv_nsec: 0 });
            if let (false, Some((due, _))) = (at_once, self.held.front()) {
                self.timer.set(*due).map_err(Failure::system("set a timer"))?;
            }
            events.clear();
            match epoll::wait(&self.epoll, spare_capacity(&mut events), timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(Failure::System("wait for events", error.into())),
            }
            self.answers.set_date(unix_seconds());
            for Event { flags, data } in events.iter().copied() {
                match data.u64() {
                    LISTENER => self.accept()?,
                    TIMER => {}
                    STOP => return Ok(()),
                    token => self.event(token, flags),
                }
            }
        }
    }

    fn accept(&mut self) -> Result<(), Failure> {
        for _ in 0..ACCEPTS_MAX {
            match accept(&self.listener)? {
                Accepted::Connection(socket) => self.open(socket),
                Accepted::None => break,
                Accepted::NoRoom => return self.set_accepting(false),
            }
        }
        Ok(())
    }

    fn open(&mut self, socket: OwnedFd) {
        let at = match self.vacant.pop() {
            Some(at) => at as usize,
            None => {
                self.slots.push(Slot::new());
                self.slots.len() - 1
            }
        };
        let number = self.shared.connections.fetch_add(1, Relaxed) + 1;
        let slot = &mut self.slots[at];
        let data = EventData::new_u64(token(slot, at));
        let flags = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
        self.shared.tallies[self.thread].connections.add();
        // Fails only if the kernel is out of memory; the client then sees the connection close.
        match epoll::add(&self.epoll, &socket, data, flags) {
            Ok(()) => slot.open(socket, number),
            Err(_) => self.vacant.push(at as u32),
        }
    }

    /// Turns accepting off if no more descriptors may be opened, and on when a connection closes.
    fn set_accepting(&mut self, on: bool) -> Result<(), Failure> {
        self.accepting = on;
        watch_for_accept(&self.epoll, &self.listener, LISTENER, on)
    }

    /// Closes a slot's connection.
    pub(crate) fn close(&mut self, at: usize) {
        self.slots[at].close();
        self.vacant.push(at as u32);
        if !self.accepting {
            // Fails only for a descriptor that is not in the set; the listener is in it.
            let _ = self.set_accepting(true);
        }
    }

    /// Releases the delayed responses that are due. Returns whether more may be due by now.
    fn release(&mut self) -> bool {
        if self.held.is_empty() {
            return false;
        }
        let time = now();
        for _ in 0..EVENTS_MAX {
            let Some((_, token)) = self.held.pop_front_if(|(due, _)| *due <= time) else { return false };
            let at = (token & u64::from(u32::MAX)) as usize;
            let slot = &mut self.slots[at];
            if slot.generation == (token >> 32) as u32 {
                slot.free += 1;
                self.go_on(at);
            }
        }
        true
    }
}
