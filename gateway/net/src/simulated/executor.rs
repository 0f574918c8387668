//! The executor: runs the tasks of a world.
//!
//! [`run`] polls one task at a time, picks the next at random, and advances the clock when no task is ready.
//! Invariant: the order depends only on the seed, so every run can be repeated.

use std::any::Any;
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use super::conditions::TaskGroup;
use super::tasks::Task;
use super::world::{World, begin, end, with};

/// Limits of a run.
#[derive(Clone, Copy, Debug)]
pub struct RunLimits {
    /// Virtual time.
    pub time: Duration,
    /// Number of polls of tasks.
    pub turns: u64,
    /// Whether the trace is recorded as text.
    pub text: bool,
}

/// The reason why a run ended before its future did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// All tasks wait, and no event is pending.
    Deadlock,
    /// The limit of virtual time was reached.
    Time,
    /// The limit of polls was reached: some task may be in an endless loop.
    Turns,
}

/// The result of a run.
#[derive(Debug)]
pub struct RunResult<T> {
    /// Output of the future, or the reason why it did not complete.
    pub output: Result<T, StopReason>,
    /// Hash of the trace. It is the same for the same seed, and differs for different runs.
    pub hash: u64,
    /// Number of events in the trace.
    pub events: u64,
    /// Virtual time that passed.
    pub time: Duration,
    /// Messages of tasks that panicked. Each panic ended only its task.
    pub panics: Vec<String>,
    /// The trace, if it was requested.
    pub text: Option<String>,
}

/// Runs a future, and all tasks that it spawns, in a world made from a seed.
///
/// # Panics
/// If a simulation already runs on this thread.
pub fn run<T: 'static>(
    seed: u64,
    limits: RunLimits,
    main: impl Future<Output = T> + 'static,
) -> RunResult<T> {
    // Code that draws from the thread's own generator then draws the same values in each run.
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
    let stopped = run_until(&limits, || output.borrow().is_some());
    // Remaining tasks are dropped as at the end of a process, while the world still exists.
    let left = with(|world| world.tasks.take_all());
    let dropped = catch_unwind(AssertUnwindSafe(|| drop(left)));
    if let Err(panic) = dropped {
        with(|world| world.tasks.panics.push(message(&*panic)));
    }
    let mut world = end();
    let output = output.borrow_mut().take().ok_or_else(|| stopped.unwrap_or(StopReason::Deadlock));
    RunResult {
        output,
        hash: world.trace.hash,
        events: world.trace.events,
        time: world.now,
        panics: std::mem::take(&mut world.tasks.panics),
        text: world.trace.take_text(),
    }
}

/// Polls tasks until `done` returns true.
fn run_until(limits: &RunLimits, done: impl Fn() -> bool) -> Option<StopReason> {
    let mut turns = 0;
    while !done() {
        let next = with(|world| {
            while world.process_next_event() {}
            world.tasks.next(world.now, &mut world.random)
        });
        let Some((task, mut future, waker)) = next else {
            // No task is ready: advance the clock to the next event.
            let jumped = with(|world| world.next_event().map(|at| world.now = at));
            match jumped {
                None => return Some(StopReason::Deadlock),
                Some(()) if with(|world| world.now) > limits.time => return Some(StopReason::Time),
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
            // Dropped outside `with`, because its destructors may access the world.
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
            return Some(StopReason::Turns);
        }
    }
    None
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a panic without a message").to_owned()
}

/// Starts a task in the group of the current task.
pub(crate) fn spawn(future: impl Future<Output = ()> + 'static) {
    let group = with(|world| world.tasks.current());
    spawn_in(group.expect("a task starts another"), Box::pin(future));
}

pub(super) fn spawn_in(group: TaskGroup, task: Task) {
    // A task for a killed group is dropped at once, outside `with`.
    drop(with(|world| world.tasks.add(group, task)));
}

pub(super) fn kill(group: TaskGroup) {
    let tasks = with(|world| {
        world.record("kill", &[group.0 as u64]);
        world.tasks.take_group(group)
    });
    drop(tasks);
}

/// Lets other tasks run.
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
