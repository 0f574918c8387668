//! All tasks of a world, in their groups, and the choice of the next one. `executor` polls them.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};
use std::time::Duration;

use super::conditions::TaskGroup;

/// A task of the simulation.
pub(super) type Task = Pin<Box<dyn Future<Output = ()>>>;

/// All tasks of a world.
#[derive(Default)]
pub(super) struct Tasks {
    slots: Vec<TaskSlot>,
    groups: Vec<GroupState>,
    /// Woken tasks in order. A shared queue, because wakers have no other access to the world.
    woken: Arc<Mutex<Vec<usize>>>,
    /// The group of the task that is being polled.
    current: Option<TaskGroup>,
    pub panics: Vec<String>,
}

struct TaskSlot {
    group: TaskGroup,
    /// `None` while the task is polled, and after its end.
    task: Option<Task>,
    waker: Waker,
    flag: Arc<TaskWaker>,
}

#[derive(Debug, Default)]
struct GroupState {
    ready: VecDeque<usize>,
    paused_until: Duration,
    killed: bool,
}

/// The waker of one task.
#[derive(Debug)]
struct TaskWaker {
    task: usize,
    woken: AtomicBool,
    queue: Arc<Mutex<Vec<usize>>>,
}

impl Wake for TaskWaker {
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
    pub fn new_group(&mut self) -> TaskGroup {
        self.groups.push(GroupState::default());
        TaskGroup(self.groups.len() - 1)
    }

    pub fn current(&self) -> Option<TaskGroup> {
        self.current
    }

    pub fn pause(&mut self, group: TaskGroup, until: Duration) {
        let state = &mut self.groups[group.0];
        state.paused_until = state.paused_until.max(until);
    }

    pub fn is_paused(&self, group: TaskGroup, now: Duration) -> bool {
        self.groups[group.0].paused_until > now
    }

    /// Number of unfinished tasks of a group, without the task that is being polled.
    pub fn count(&self, group: TaskGroup) -> usize {
        self.slots.iter().filter(|slot| slot.group == group && slot.task.is_some()).count()
    }

    /// Adds a task, which is then ready. Returns it if its group was killed.
    pub fn add(&mut self, group: TaskGroup, task: Task) -> Option<Task> {
        if self.groups[group.0].killed {
            return Some(task);
        }
        let flag = Arc::new(TaskWaker {
            task: self.slots.len(),
            woken: AtomicBool::new(false),
            queue: self.woken.clone(),
        });
        flag.wake_by_ref();
        self.slots.push(TaskSlot { group, task: Some(task), waker: Waker::from(flag.clone()), flag });
        None
    }

    /// Moves woken tasks into the ready queues of their groups.
    fn queue_woken(&mut self) {
        let woken = std::mem::take(&mut *self.woken.lock().unwrap_or_else(PoisonError::into_inner));
        for task in woken {
            self.groups[self.slots[task].group.0].ready.push_back(task);
        }
    }

    /// Picks the next task: a random group, and within it the first ready task.
    pub fn next(&mut self, now: Duration, random: &mut fastrand::Rng) -> Option<(usize, Task, Waker)> {
        self.queue_woken();
        loop {
            let may = |group: &GroupState| !group.ready.is_empty() && group.paused_until <= now;
            let groups = self.groups.iter().enumerate().filter(|(_, group)| may(group));
            let index = random.choice(groups.map(|(index, _)| index).collect::<Vec<_>>())?;
            let Some(task) = self.groups[index].ready.pop_front() else { continue };
            let slot = &mut self.slots[task];
            slot.flag.woken.store(false, Ordering::Relaxed);
            // A task may be woken once more after its end.
            if let Some(future) = slot.task.take() {
                self.current = Some(slot.group);
                return Some((task, future, slot.waker.clone()));
            }
        }
    }

    /// Puts a task back after its poll. Returns the future if it must be dropped instead.
    pub fn done(&mut self, task: usize, future: Option<Task>) -> Option<Task> {
        self.current = None;
        let killed = self.groups[self.slots[task].group.0].killed;
        match (killed, future) {
            (false, Some(future)) => self.slots[task].task = Some(future),
            (_, future) => return future,
        }
        None
    }

    /// Kills a group. Returns its tasks.
    pub fn take_group(&mut self, group: TaskGroup) -> Vec<Task> {
        self.groups[group.0].killed = true;
        self.slots.iter_mut().filter(|slot| slot.group == group).filter_map(|slot| slot.task.take()).collect()
    }

    /// Kills all groups. Returns their tasks.
    pub fn take_all(&mut self) -> Vec<Task> {
        self.groups.iter_mut().for_each(|group| group.killed = true);
        self.slots.iter_mut().filter_map(|slot| slot.task.take()).collect()
    }
}
