//! Addresses with listening sockets, and the queues of connections that wait there. `network` changes them.

use std::collections::VecDeque;
use std::task::Waker;

use super::conditions::TaskGroup;

/// An address with at least one listening socket.
#[derive(Debug, Default)]
pub(super) struct Port {
    /// By index; `None` for closed ones.
    pub listeners: Vec<Option<AcceptQueue>>,
}

/// Connections in the queue of a listening socket, which its owner has not accepted yet.
#[derive(Debug)]
pub(super) struct AcceptQueue {
    pub owner: TaskGroup,
    pub backlog: usize,
    pub waiting: VecDeque<usize>,
    pub waker: Option<Waker>,
}

impl Port {
    pub fn listeners_of(&self, group: TaskGroup) -> usize {
        self.listeners.iter().flatten().filter(|queue| queue.owner == group).count()
    }
}
