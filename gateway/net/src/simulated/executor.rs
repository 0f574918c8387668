//! Tasks, and whose turn it is.

use std::any::Any;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use super::controls::Group;
use super::world::{World, begin, end, with};

type Task = Pin<Box<dyn Future<Output = ()>>>;

/// Every task of a world.
#[derive(Default)]
pub(super) struct Tasks {
    slots: Vec<Slot>,
    groups: Vec<GroupState>,
    /// Who was woken, in order; wakers have no other way to the world.
    woken: Arc<Mutex<Vec<usize>>>,
    /// The group of the task that has its turn.
    current: Option<Group>,
    panics: Vec<String>,
}

struct Slot {
    group: Group,
    /// `None` while it has its turn, and when it has ended.
    task: Option<Task>,
    waker: Waker,
    flag: Arc<Alert>,
}

#[derive(Debug, Default)]
struct GroupState {
    ready: VecDeque<usize>,
    paused_until: Duration,
    killed: bool,
}

/// Wakes one task.
#[derive(Debug)]
struct Alert {
    task: usize,
    woken: AtomicBool,
    queue: Arc<Mutex<Vec<usize>>>,
}

impl Wake for Alert {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.woken.swap(true, Ordering::Relaxed) {
            self.queue.lock().unwrap_or_else(PoisonError::into_inner).push(self.task);
        }
    }
}

impl Tasks {
    pub fn new_group(&mut self) -> Group {
        self.groups.push(GroupState::default());
        Group(self.groups.len() - 1)
    }

    pub fn current(&self) -> Option<Group> {
        self.current
    }

    pub fn pause(&mut self, group: Group, until: Duration) {
        let state = &mut self.groups[group.0];
        state.paused_until = state.paused_until.max(until);
    }

    pub fn is_paused(&self, group: Group, now: Duration) -> bool {
        self.groups[group.0].paused_until > now
    }

    /// Tasks of a group that have not ended, the one that has its turn left out.
    pub fn count(&self, group: Group) -> usize {
        self.slots.iter().filter(|slot| slot.group == group && slot.task.is_some()).count()
    }

    fn add(&mut self, group: Group, task: Task) -> Option<Task> {
        if self.groups[group.0].killed {
            return Some(task);
        }
        let flag = Arc::new(Alert {
            task: self.slots.len(),
            woken: AtomicBool::new(false),
            queue: self.woken.clone(),
        });
        flag.wake_by_ref();
        self.slots.push(Slot { group, task: Some(task), waker: Waker::from(flag.clone()), flag });
        None
    }

    /// Those that were woken stand in line.
    fn line_up(&mut self) {
        let woken = std::mem::take(&mut *self.woken.lock().unwrap_or_else(PoisonError::into_inner));
        for task in woken {
            self.groups[self.slots[task].group.0].ready.push_back(task);
        }
    }

    /// Whose turn it is: groups at random, within a group in order.
    fn next(&mut self, now: Duration, random: &mut fastrand::Rng) -> Option<(usize, Task, Waker)> {
        self.line_up();
        loop {
            let may = |group: &GroupState| !group.ready.is_empty() && group.paused_until <= now;
            let groups = self.groups.iter().enumerate().filter(|(_, group)| may(group));
            let index = random.choice(groups.map(|(index, _)| index).collect::<Vec<_>>())?;
            let Some(task) = self.groups[index].ready.pop_front() else { continue };
            let slot = &mut self.slots[task];
            slot.flag.woken.store(false, Ordering::Relaxed);
            // One that has ended may have been woken once more.
            if let Some(future) = slot.task.take() {
                self.current = Some(slot.group);
                return Some((task, future, slot.waker.clone()));
            }
        }
    }

    /// The task had its turn. Gives it back if it is not to stay.
    fn done(&mut self, task: usize, future: Option<Task>) -> Option<Task> {
        self.current = None;
        let killed = self.groups[self.slots[task].group.0].killed;
        match (killed, future) {
            (false, Some(future)) => self.slots[task].task = Some(future),
            (_, future) => return future,
        }
        None
    }

    fn take_group(&mut self, group: Group) -> Vec<Task> {
        self.groups[group.0].killed = true;
        self.slots.iter_mut().filter(|slot| slot.group == group).filter_map(|slot| slot.task.take()).collect()
    }

    fn take_all(&mut self) -> Vec<Task> {
        self.groups.iter_mut().for_each(|group| group.killed = true);
        self.slots.iter_mut().filter_map(|slot| slot.task.take()).collect()
    }
}

/// Bounds of a run.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Virtual time.
    pub time: Duration,
    /// Turns of tasks.
    pub turns: u64,
    /// Whether the trace is kept as text.
    pub text: bool,
}

/// Why a run ended before its future did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// Everybody waits, and nothing will happen.
    Deadlock,
    /// The virtual time was up.
    Time,
    /// The turns were used up: somebody goes round in circles.
    Turns,
}

/// What is left of a run.
#[derive(Debug)]
pub struct Ended<T> {
    /// What its future gave.
    pub output: Result<T, Stopped>,
    /// The same for the same seed, and for no other run.
    pub hash: u64,
    /// Events in the trace.
    pub events: u64,
    /// Virtual time that passed.
    pub time: Duration,
    /// The messages of tasks that panicked. Each ended that task only.
    pub panics: Vec<String>,
    /// The trace, if it was asked for.
    pub text: Option<String>,
}

/// Runs a future, and all that it spawns, in a world made from a seed.
///
/// # Panics
/// When a simulation runs on this thread already.
pub fn run<T: 'static>(seed: u64, limits: Limits, main: impl Future<Output = T> + 'static) -> Ended<T> {
    // Whoever draws from the thread's own generator draws the same.
    fastrand::seed(seed);
    begin(World::new(seed, limits.text));
    let output = Rc::new(RefCell::new(None));
    let result = output.clone();
    spawn_in(
        with(|world| world.tasks.new_group()),
        Box::pin(async move {
            let value = main.await;
            *result.borrow_mut() = Some(value);
        }),
    );
    let stopped = go(&limits, || output.borrow().is_some());
    // Tasks that are left are dropped as at the end of a process, in a world that still stands.
    let left = with(|world| world.tasks.take_all());
    let dropped = catch_unwind(AssertUnwindSafe(|| drop(left)));
    if let Err(panic) = dropped {
        with(|world| world.tasks.panics.push(message(&*panic)));
    }
    let mut world = end();
    let output = output.borrow_mut().take().ok_or_else(|| stopped.unwrap_or(Stopped::Deadlock));
    Ended {
        output,
        hash: world.trace.hash,
        events: world.trace.events,
        time: world.now,
        panics: std::mem::take(&mut world.tasks.panics),
        text: world.trace.take_text(),
    }
}

/// Gives turns until it is done.
fn go(limits: &Limits, done: impl Fn() -> bool) -> Option<Stopped> {
    let mut turns = 0;
    while !done() {
        let next = with(|world| {
            while world.happen() {}
            world.tasks.next(world.now, &mut world.random)
        });
        let Some((task, mut future, waker)) = next else {
            // Nobody has anything to do: time passes.
            let jumped = with(|world| world.next_event().map(|at| world.now = at));
            match jumped {
                None => return Some(Stopped::Deadlock),
                Some(()) if with(|world| world.now) > limits.time => return Some(Stopped::Time),
                Some(()) => continue,
            }
        };
        let polled =
            catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut Context::from_waker(&waker))));
        let left = with(|world| {
            let range = world.conditions.poll;
            let took = world.between(range);
            world.now += took;
            world.record("turn", &[task as u64]);
            let stays = match polled {
                Ok(Poll::Pending) => true,
                Ok(Poll::Ready(())) => false,
                Err(panic) => {
                    world.tasks.panics.push(message(&*panic));
                    false
                }
            };
            // It is dropped outside, as whatever may come back to the world.
            match stays {
                true => world.tasks.done(task, Some(future)),
                false => {
                    world.tasks.done(task, None);
                    Some(future)
                }
            }
        });
        drop(left);
        turns += 1;
        if turns > limits.turns {
            return Some(Stopped::Turns);
        }
    }
    None
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a panic without a message").to_owned()
}

/// Starts a task of the group of whoever starts it.
pub(crate) fn spawn(future: impl Future<Output = ()> + 'static) {
    let group = with(|world| world.tasks.current());
    spawn_in(group.expect("a task starts another"), Box::pin(future));
}

pub(super) fn spawn_in(group: Group, task: Task) {
    // One of a group that was killed is dropped at once, outside.
    drop(with(|world| world.tasks.add(group, task)));
}

pub(super) fn kill(group: Group) {
    let tasks = with(|world| {
        world.record("kill", &[group.0 as u64]);
        world.tasks.take_group(group)
    });
    drop(tasks);
}

/// Lets others have a turn.
pub(crate) async fn yield_now() {
    let mut yielded = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
