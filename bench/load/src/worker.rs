//! One thread of the generator: an epoll loop over its share of the connections, without allocation for a
//! request.
//!
//! Each iteration starts the requests that are due on idle slots, waits for events, and handles them;
//! `exchange` has the steps of a single request. In a closed loop the thread first polls for a few
//! microseconds ([`Spin`]) before it sleeps. All waits end at a timer, which also drives timeouts.

use crate::clock::{Timer, now, span};
use crate::expect::Fault;
use crate::failure::Failure;
use crate::head::LastHead;
use crate::interruption::interrupted;
use crate::pace::{Pace, Times, random};
use crate::plan::{Length, Plan};
use crate::request::{Prepared, mix};
use crate::response::Response;
use crate::slot::{Slot, State};
use crate::socket::READABLE;
use crate::spin::Spin;
use crate::tally::Tally;
use crate::template::Names;
use crate::tls::{Client, PLAIN};
use crate::used::{Reading, ThreadUsed};
use rand_pcg::Pcg64Mcg;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::time::Timespec;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use tollgate_lab_record::{LoadModel, Verification};

/// Bytes read from a socket at once.
const READ_SIZE: usize = 64 * 1024;

/// Events taken from the kernel at once.
const EVENTS: usize = 512;

/// Connections that a thread opens at the same time before the run. Less than the smallest listen queue in
/// use (128), so that no SYN must be repeated.
const OPENING_MAX: u32 = 64;

/// How many times, at most, a closed loop polls for more responses before it sends. Without a limit, long
/// bodies would keep the loop polling.
const LOOKS: u32 = 4;

/// How long (ns) an interrupted run waits for the requests in flight: a user who pressed Ctrl-C wants the result now.
const LAST_WAIT: u64 = 1_000_000_000;

/// Marks the timer among the events.
const TIMER: u64 = u64::MAX;

/// The points in time of a run, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moments {
    /// When the load begins.
    pub(crate) epoch: u64,
    /// When the measurement begins.
    pub(crate) start: u64,
    /// When the measurement ends; `u64::MAX` in a closed loop with a fixed number of requests.
    pub(crate) end: u64,
}

impl Moments {
    /// Returns the points in time of a plan whose load begins at `epoch`.
    pub(crate) fn of(plan: &Plan, epoch: u64) -> Self {
        let start = epoch + span(plan.ramp) + span(plan.warm_up);
        let end = match (plan.length, plan.arrivals().rps()) {
            (Length::Seconds(seconds), _) => start + span(seconds),
            (Length::Requests(_), None) => u64::MAX,
            // Ten standard deviations of a Poisson process: all requests are sent by then.
            (Length::Requests(count), Some(rps)) => {
                start + span((count as f64 + 10.0 * (count as f64).sqrt()) / rps)
            }
        };
        Self { epoch, start, end }
    }
}

/// Returns the part of `whole` for thread `thread` of `threads`. The parts add up to `whole` and differ by at
/// most one.
pub(crate) fn share(whole: u64, thread: u32, threads: u32) -> u64 {
    let threads = u64::from(threads);
    whole / threads + u64::from(u64::from(thread) < whole % threads)
}

/// The state of a thread.
pub(crate) struct Worker<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) requests: &'a [Prepared],
    pub(crate) tls: Option<Client>,
    thread: u32,
    pub(crate) epoll: OwnedFd,
    timer: Timer,
    pub(crate) slots: Vec<Slot>,
    /// Slots without a request, the longest idle first.
    pub(crate) idle: VecDeque<u32>,
    /// Slots that pause, the first to continue on top: users who think, and connections that could not be
    /// opened.
    pub(crate) resting: BinaryHeap<Reverse<(u64, u32)>>,
    /// The random numbers of the pauses.
    pub(crate) random: Pcg64Mcg,
    /// The first slot that the ramp has not reached.
    ramped: usize,
    /// Requests in flight.
    pub(crate) waiting: usize,
    /// The order of the mix, and the position of the next request in it.
    pub(crate) order: Vec<u32>,
    pub(crate) next_request: usize,
    /// The next row of the data.
    pub(crate) next_row: usize,
    pub(crate) next_source: usize,
    /// Connections that were started.
    pub(crate) opened: u64,
    /// Why the latest connection failed to open.
    pub(crate) refusal: Option<Errno>,
    pub(crate) last_head: LastHead,
    pub(crate) buffer: Vec<u8>,
    /// The buffer for decrypted data.
    pub(crate) plain: Vec<u8>,
}

/// The state that changes while a thread runs its load.
pub(crate) struct Run<'a> {
    pub(crate) moments: Moments,
    pub(crate) open_loop: bool,
    /// [`Plan::time_limit`] in nanoseconds.
    pub(crate) limit: u64,
    pace: Option<Pace<'a>>,
    /// Measured requests that may still begin.
    left: u64,
    /// When an interrupted run no longer waits for the requests in flight; `u64::MAX` before.
    cut: u64,
    pub(crate) tally: Tally,
}

impl<'a> Run<'a> {
    /// Creates the state of a thread whose load begins at `moments.epoch`.
    pub(crate) fn new(plan: &'a Plan, thread: u32, moments: Moments, tally: Tally) -> Self {
        Self {
            moments,
            open_loop: plan.arrivals() != LoadModel::Closed,
            limit: span(plan.time_limit),
            pace: Pace::of(plan, thread, moments.epoch),
            left: match plan.length {
                Length::Seconds(_) => u64::MAX,
                Length::Requests(count) => share(count, thread, plan.threads),
            },
            cut: u64::MAX,
            tally,
        }
    }

    /// Returns how often timeouts are checked, in nanoseconds.
    pub(crate) fn tick(&self) -> u64 {
        (self.limit / 20).clamp(1_000_000, 100_000_000)
    }

    /// Sends the seconds that are over, and ends the load if the run was interrupted.
    pub(crate) fn tick_at(&mut self, time: u64) {
        self.tally.tick(time);
        if interrupted() {
            self.left = 0;
            self.moments.end = self.moments.end.min(time);
            self.cut = self.cut.min(time.saturating_add(LAST_WAIT));
        }
    }

    /// Returns whether an interrupted run gives up the requests in flight. They are not counted: they might have been
    /// answered within the time limit.
    pub(crate) fn is_cut(&self, time: u64) -> bool {
        time > self.cut
    }

    /// Returns the index, in the recording, of the exchange that was taken last.
    pub(crate) fn recorded(&self) -> Option<usize> {
        self.pace.as_ref().and_then(Pace::recorded)
    }

    /// Returns when the next request is due; `u64::MAX` if none follows.
    pub(crate) fn due(&self, time: u64) -> u64 {
        match &self.pace {
            Some(pace) if !self.stopped(time) => pace.next(),
            // No further request begins; the ones in flight complete, or time out at a tick.
            _ => u64::MAX,
        }
    }

    /// Counts a response that was verified as `judged`, if it belongs to the measurement.
    pub(crate) fn completed(
        &mut self,
        response: &Response,
        judged: Result<(), Fault>,
        times: Times,
        time: u64,
    ) {
        let moments = self.moments;
        // In a closed loop, a response belongs to no schedule, so what completes after the end is not
        // counted. But its latency is: otherwise a system could hold a request until the end at no charge.
        if self.open_loop || moments.end == u64::MAX {
            if times.intended >= moments.start {
                self.tally.response(response, judged, times, time);
            }
        } else if (moments.start..moments.end).contains(&time) {
            self.tally.response(response, judged, times, time);
        } else if time >= moments.end && times.sent >= moments.start && judged.is_ok() {
            self.tally.held(times, time);
        }
    }

    /// Counts a failed request, if it belongs to the measurement.
    pub(crate) fn failed(&mut self, fault: Fault, times: Times, time: u64) {
        let by_schedule = self.open_loop || self.moments.end == u64::MAX;
        let since = if by_schedule { times.intended } else { time };
        // In a closed loop, a request that fails after the end began before it and counts: a hang is a
        // failure.
        if since >= self.moments.start {
            self.tally.failure(fault, times, time);
        }
    }

    /// Counts as timed out what was due and never sent.
    pub(crate) fn abandon(&mut self, time: u64) {
        while self.open_loop
            && let Some(intended) = self.take(time)
        {
            let times = Times { intended, ..Times::default() };
            if intended >= self.moments.start {
                self.tally.failure(Fault::Timeout, times, time);
            }
        }
    }

    /// Returns whether no further request begins.
    pub(crate) fn stopped(&self, time: u64) -> bool {
        match &self.pace {
            _ if self.left == 0 => true,
            None => time >= self.moments.end,
            Some(pace) => pace.next() >= self.moments.end,
        }
    }

    /// Returns the intended time of the request to begin now, if one is due.
    pub(crate) fn take(&mut self, time: u64) -> Option<u64> {
        if self.stopped(time) {
            return None;
        }
        let intended = match &mut self.pace {
            None => time,
            Some(pace) => pace.take(time)?,
        };
        if intended >= self.moments.start {
            self.left -= 1;
        }
        Some(intended)
    }
}

impl<'a> Worker<'a> {
    pub(crate) fn new(
        plan: &'a Plan,
        requests: &'a [Prepared],
        tls: Option<Client>,
        thread: u32,
    ) -> Result<Self, Failure> {
        let epoll =
            epoll::create(CreateFlags::CLOEXEC).map_err(|e| Failure::System("create an epoll", e.into()))?;
        let timer = Timer::new().map_err(|error| Failure::System("create a timer", error.into()))?;
        epoll::add(&epoll, &timer, EventData::new_u64(TIMER), EventFlags::IN | EventFlags::ET)
            .map_err(|error| Failure::System("watch a timer", error.into()))?;
        let count = share(u64::from(plan.connections), thread, plan.threads) as usize;
        let digested = plan.verification == Verification::Full;
        let values = Names::of(plan)?.len();
        let order = mix(plan);
        Ok(Self {
            plan,
            requests,
            plain: if tls.is_some() { vec![0; PLAIN] } else { Vec::new() },
            tls,
            thread,
            epoll,
            timer,
            slots: (0..count).map(|_| Slot::new(digested, values)).collect(),
            idle: VecDeque::with_capacity(count),
            resting: BinaryHeap::new(),
            random: random(plan.seed, thread),
            ramped: 0,
            waiting: 0,
            next_request: thread as usize % order.len(),
            order,
            next_row: thread as usize % plan.data.as_ref().map_or(1, |data| data.rows.len()),
            next_source: thread as usize,
            opened: 0,
            refusal: None,
            last_head: LastHead::default(),
            buffer: vec![0; READ_SIZE],
        })
    }

    /// Opens all connections before the run. Returns how many are open.
    pub(crate) fn open_all(&mut self) -> Result<usize, Failure> {
        let mut events = Vec::with_capacity(EVENTS);
        let limit = now() + span(self.plan.time_limit);
        let (mut next, mut opening) = (0, 0);
        loop {
            while opening < OPENING_MAX && next < self.slots.len() {
                if self.connect(next) {
                    self.watch(next, true);
                    self.slots[next].state = State::Opening;
                    opening += 1;
                }
                next += 1;
            }
            if opening == 0 || now() > limit {
                break;
            }
            self.wait(&mut events, limit)?;
            for Event { flags, data, .. } in events.iter().copied().filter(|event| event.data.u64() != TIMER)
            {
                let slot = &mut self.slots[data.u64() as usize];
                if slot.state == State::Opening {
                    opening -= 1;
                    slot.state = State::Idle;
                    if let Some(Ok(Err(error))) = slot.socket.as_ref().map(sockopt::socket_error) {
                        self.refusal = Some(error);
                        slot.close();
                    }
                } else if flags.intersects(READABLE) {
                    slot.close();
                }
            }
        }
        for slot in self.slots.iter_mut().filter(|slot| slot.state == State::Opening) {
            slot.state = State::Idle;
            slot.close();
            self.refusal = Some(Errno::TIMEDOUT);
        }
        Ok(self.slots.iter().filter(|slot| slot.socket.is_some()).count())
    }

    /// Runs the load from beginning to end. Returns the counters, and what the thread used since the start of
    /// the measurement.
    pub(crate) fn run(&mut self, moments: Moments, tally: Tally) -> Result<(Tally, ThreadUsed), Failure> {
        let mut run = Run::new(self.plan, self.thread, moments, tally);
        let tick = run.tick();
        let mut next_tick = moments.epoch + tick;
        let mut events: Vec<Event> = Vec::with_capacity(EVENTS);
        let mut spin = Spin::new();
        let mut time = now();
        let mut used = Reading::take()?;
        let mut measuring = false;
        loop {
            if !measuring && time >= moments.start {
                used = Reading::take()?;
                measuring = true;
            }
            if time >= next_tick {
                self.time_out(&mut run, time);
                run.tick_at(time);
                next_tick = time + tick;
            }
            let woken = self.wake_slots(moments.epoch, time);
            let due = self.dispatch(&mut run);
            time = now();
            if self.waiting == 0 && run.stopped(time) {
                break;
            }
            if run.is_cut(time) {
                break;
            }
            if time > run.moments.end.saturating_add(run.limit + tick) {
                self.give_up(&mut run, time);
                break;
            }
            let found =
                !run.open_loop && self.waiting > 0 && self.poll_if_fruitful(&mut spin, &mut events)?;
            if !found {
                self.wait(&mut events, next_tick.min(woken).min(due))?;
            }
            self.take_in(&mut run, &events);
            // A closed loop polls again before it sends. It then answers several responses at once, so that a
            // busy server gets requests in groups, as from a slower generator.
            for _ in 0..LOOKS {
                if run.open_loop || self.waiting == 0 || events.is_empty() {
                    break;
                }
                self.poll(&mut events)?;
                self.take_in(&mut run, &events);
            }
            time = now();
        }
        Ok((run.tally.finish(), used.until_now()?))
    }

    /// Begins the requests that are due on idle connections. Returns when the next is due, if a connection is
    /// free for it.
    fn dispatch(&mut self, run: &mut Run<'_>) -> u64 {
        while let Some(at) = self.idle.front().copied() {
            let time = now();
            let Some(intended) = run.take(time) else {
                return run.due(time);
            };
            self.idle.pop_front();
            self.begin(run, at as usize, intended, time);
        }
        u64::MAX
    }

    /// Adds slots that the ramp has reached or whose rest is over. Returns when the next one follows.
    fn wake_slots(&mut self, epoch: u64, time: u64) -> u64 {
        let (count, ramp) = (self.slots.len() as u64, span(self.plan.ramp));
        let mut next = u64::MAX;
        while self.ramped < self.slots.len() {
            let turn = epoch + (u128::from(ramp) * self.ramped as u128 / u128::from(count)) as u64;
            if turn > time {
                next = turn;
                break;
            }
            self.idle.push_back(self.ramped as u32);
            self.ramped += 1;
        }
        while let Some(Reverse((until, at))) = self.resting.peek().copied() {
            if until > time {
                return next.min(until);
            }
            self.resting.pop();
            self.idle.push_back(at);
        }
        next
    }

    /// Fails requests that exceed the time limit.
    fn time_out(&mut self, run: &mut Run<'_>, time: u64) {
        for at in 0..self.slots.len() {
            let slot = &self.slots[at];
            if slot.state == State::Waiting && time.saturating_sub(slot.begun) > run.limit {
                self.fail(run, at, Fault::Timeout, time);
            }
        }
    }

    /// Counts as timed out what is still in flight or was never sent.
    fn give_up(&mut self, run: &mut Run<'_>, time: u64) {
        for at in 0..self.slots.len() {
            if self.slots[at].state == State::Waiting {
                self.fail(run, at, Fault::Timeout, time);
            }
        }
        run.abandon(time);
    }

    fn take_in(&mut self, run: &mut Run<'_>, events: &[Event]) {
        for Event { flags, data, .. } in events.iter().copied().filter(|event| event.data.u64() != TIMER) {
            self.event(run, data.u64() as usize, flags);
        }
    }

    /// Polls for events for a short time if recent polls were successful. Returns whether there are events.
    fn poll_if_fruitful(&self, spin: &mut Spin, events: &mut Vec<Event>) -> Result<bool, Failure> {
        let Some(limit_ns) = spin.poll_ns() else { return Ok(false) };
        let until = now() + limit_ns;
        loop {
            self.poll(events)?;
            let found = !events.is_empty();
            if found || now() >= until {
                spin.record(found);
                return Ok(found);
            }
        }
    }

    /// Takes the events that are already there, without waiting.
    fn poll(&self, events: &mut Vec<Event>) -> Result<(), Failure> {
        events.clear();
        match epoll::wait(&self.epoll, spare_capacity(events), Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(Failure::System("poll for events", error.into())),
        }
    }

    /// Waits for events until `wake` at the latest.
    fn wait(&mut self, events: &mut Vec<Event>, wake: u64) -> Result<(), Failure> {
        self.timer.set(wake).map_err(|error| Failure::System("set a timer", error.into()))?;
        events.clear();
        match epoll::wait(&self.epoll, spare_capacity(events), None) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(Failure::System("wait for events", error.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up() {
        for (whole, threads) in [(64, 1), (65, 4), (3, 3), (10_000, 7)] {
            let parts: Vec<u64> = (0..threads).map(|thread| share(whole, thread, threads)).collect();
            assert_eq!(parts.iter().sum::<u64>(), whole);
            assert!(parts.iter().max().unwrap() - parts.iter().min().unwrap() <= 1);
        }
    }
}
