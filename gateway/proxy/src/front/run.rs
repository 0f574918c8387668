//! Runs a worker: one thread, its runtime, and the tasks that serve its connections.
//!
//! [`run_worker`] runs one until it has drained. It spawns the tasks that accept and serve connections, and
//! carries out the [`WorkerCommand`] messages in its mailbox.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tollgate_net::{BoundListener, RegisteredListener, Runtime};
use tollgate_plan::ListenAddress;

use crate::front::accept::{ACCEPTS_PER_TURN, accept, admit};
use crate::front::connection::{ConnectionServices, serve};
use crate::front::datagrams;
use crate::front::request::exchanges;
use crate::front::stream;
use crate::front::trace;
use crate::state::client::Client;
use crate::state::command::{WorkerCommand, WorkerSetup};
use crate::state::followers::{Followers, TraceBuilders};
use crate::state::listener::ListenerId;
use crate::state::worker::{SHRINK_INTERVAL, TUNNEL_CLOSE_TIME, Worker};

/// Runs a worker on this thread until it has drained. Calls `running` when it is ready to receive commands.
/// It accepts nothing before it gets [`WorkerCommand::Listen`].
///
/// # Errors
/// If the kernel provides no poller or no random bytes.
pub fn run_worker(setup: WorkerSetup, running: impl FnOnce()) -> io::Result<()> {
    Runtime::new()?.run(work(setup, running))
}

/// Does the work of [`run_worker`], for a caller with its own runtime.
///
/// # Errors
/// As [`run_worker`].
pub async fn work(mut setup: WorkerSetup, running: impl FnOnce()) -> io::Result<()> {
    let control = std::mem::replace(&mut setup.control, unbounded_channel().1);
    let worker = Worker::new(setup)?;
    let services = Rc::new(ConnectionServices::new());
    let shared = services.clone();
    let start = move |client: Box<Client>| tollgate_net::spawn(serve(client, exchanges, shared.clone()));
    tollgate_net::spawn(flush_log(worker.clone()));
    tollgate_net::spawn(services.http2.scheduler.clone().give());
    tollgate_net::spawn(shrink_pools(worker.clone(), services));
    running();
    run_commands(&worker, control, &start).await;
    worker.log.borrow_mut().flush();
    Ok(())
}

/// Carries out commands until the drain is over.
async fn run_commands<F: Fn(Box<Client>) + Clone + 'static>(
    worker: &Rc<Worker>,
    mut control: UnboundedReceiver<WorkerCommand>,
    serve: &F,
) {
    let (end, closes_tunnels) = (worker.timers.deadline(), worker.timers.deadline());
    let mut due: Option<Instant> = None;
    while poll_fn(|cx| {
        let mut admitted = 0;
        while let Poll::Ready(message) = control.poll_recv(cx) {
            match message {
                Some(WorkerCommand::Plan(plan, receipt)) => {
                    worker.change_plan(plan);
                    drop(receipt);
                }
                Some(WorkerCommand::Upstream(message)) => worker.upstreams.borrow().receive(message),
                Some(WorkerCommand::Listen(sockets, receipt)) => {
                    if let Err(error) = listen(worker, sockets, serve)
                        && let Some(receipt) = receipt
                    {
                        receipt.failed(error);
                    }
                }
                Some(WorkerCommand::Close(listeners, waiting)) => {
                    listeners.into_iter().for_each(|handle| worker.listeners.close(handle, waiting));
                    worker.wake_all();
                }
                Some(WorkerCommand::Connection(stream, peer, handle, listener)) => {
                    admit(worker, worker.listeners.find(handle), stream, peer, listener, serve);
                    admitted += 1;
                    if admitted == ACCEPTS_PER_TURN {
                        return Poll::Ready(true);
                    }
                }
                Some(WorkerCommand::Log(sink, receipt)) => {
                    worker.change_log(*sink);
                    drop(receipt);
                }
                Some(WorkerCommand::Follow(followers, receipt)) => {
                    let builders = TraceBuilders { request: trace::build, stream: stream::trace };
                    worker.change_followers(Followers::new(followers, builders));
                    drop(receipt);
                }
                Some(WorkerCommand::Leave { grace, receipt }) => {
                    worker.announces_close.set(true);
                    worker.grace.set(grace);
                    drop(receipt);
                }
                Some(WorkerCommand::Drain(bound)) => {
                    worker.drain();
                    // If several drains have bounds, the nearest one counts, in whatever order they arrive.
                    let now = tollgate_net::now();
                    due = [due, bound.map(|bound| now + bound)].into_iter().flatten().min();
                    let left = due.map(|due| due.saturating_duration_since(now));
                    end.set(now, left);
                    closes_tunnels.set(now, left.map(|left| left - TUNNEL_CLOSE_TIME.min(left / 2)));
                }
                // No sender is left, so the worker ends.
                None => return Poll::Ready(false),
            }
        }
        worker.wake_on_command(cx);
        if closes_tunnels.poll_passed(cx).is_ready() && !worker.closes_tunnels.replace(true) {
            worker.wake_all();
        }
        if worker.has_drained() || end.poll_passed(cx).is_ready() {
            Poll::Ready(false)
        } else {
            Poll::Pending
        }
    })
    .await
    {
        // Existing connections get their turn first.
        tollgate_net::yield_now().await;
    }
    // Handles messages that pools of other workers have sent in the meantime: a request for a connection goes
    // on to the next worker, and a closed connection is counted.
    control.close();
    while let Ok(message) = control.try_recv() {
        if let WorkerCommand::Upstream(message) = message {
            worker.upstreams.borrow().receive(message);
        }
    }
}

/// Starts to accept from these sockets.
fn listen<F: Fn(Box<Client>) + Clone + 'static>(
    worker: &Rc<Worker>,
    sockets: Vec<(ListenerId, ListenAddress, BoundListener)>,
    serve: &F,
) -> io::Result<()> {
    for (handle, bind, socket) in sockets {
        let registered = socket.register()?;
        worker.listening_began();
        let handle = worker.listeners.open(handle, bind);
        // Read from the plan that names the listener. The plan that closes it does not contain it, while
        // connections may still be queued.
        handle.listener(&worker.active.borrow().plan);
        match registered {
            RegisteredListener::Connections(listener) => {
                tollgate_net::spawn(accept(worker.clone(), handle, listener, serve.clone()));
            }
            RegisteredListener::Datagrams(socket) => {
                tollgate_net::spawn(datagrams::serve(worker.clone(), handle, socket));
            }
        }
    }
    Ok(())
}

/// Shrinks the object pools step by step after a burst.
async fn shrink_pools<F: Future<Output = Infallible>>(
    worker: Rc<Worker>,
    services: Rc<ConnectionServices<F>>,
) {
    poll_fn(|cx| {
        if worker.shrink_due.poll_passed(cx).is_ready() {
            let objects =
                worker.request_states.shrink() | worker.contexts.shrink() | worker.stream_buffers.shrink();
            let more = objects | services.exchanges.shrink() | services.http2.futures.shrink();
            worker.shrink_due.set(tollgate_net::now(), more.then_some(SHRINK_INTERVAL));
            let _ = worker.shrink_due.poll_passed(cx);
        }
        Poll::<()>::Pending
    })
    .await;
}

/// Passes the log's lines to its writer some time after the first of them.
async fn flush_log(worker: Rc<Worker>) {
    poll_fn(|cx| {
        if worker.log_due.poll_passed(cx).is_ready() {
            worker.log.borrow_mut().flush();
            let again = (!worker.log.borrow().is_empty()).then_some(Duration::from_millis(100));
            worker.log_due.set(tollgate_net::now(), again);
            let _ = worker.log_due.poll_passed(cx);
        }
        Poll::<()>::Pending
    })
    .await;
}
