//! The admin listener: its socket, and the task that serves it.

use std::io;
use std::net::{SocketAddr, TcpListener};

use axum::Router;
use tokio::task::JoinHandle;
use tollgate_config::Config;
use tollgate_observe::{AdminListener, serve};

use crate::listeners::Inherited;
use crate::startup::cannot_listen;

/// The admin listener, if there is one.
#[derive(Debug, Default)]
pub struct Admin {
    open: Option<Open>,
    serving: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Open {
    /// As it is written in the file; its port can be 0.
    written: SocketAddr,
    socket: TcpListener,
}

/// What a new file changes: nothing, or the listener, which is open and not served yet.
#[derive(Debug)]
pub struct Change(Option<Option<Open>>);

impl Admin {
    /// What is to change: opens the address if it is another one.
    ///
    /// # Errors
    /// When it cannot be opened; nothing has changed then.
    pub fn prepare(&self, config: &Config, inherited: &mut Inherited) -> io::Result<Change> {
        let wanted = config.admin.as_ref().map(|admin| admin.value);
        if wanted == self.written() {
            return Ok(Change(None));
        }
        let Some(written) = wanted else { return Ok(Change(Some(None))) };
        let inherited = inherited.admin.take().filter(|(other, _)| *other == written);
        let socket = match inherited {
            Some((_, socket)) => socket,
            None => TcpListener::bind(written).map_err(|error| cannot_listen("admin", written, &error))?,
        };
        socket.set_nonblocking(true)?;
        Ok(Change(Some(Some(Open { written, socket }))))
    }

    /// Takes over a change that was prepared. A listener that is gone loses its connections.
    pub fn change(&mut self, change: Change) {
        if let Some(open) = change.0 {
            self.stop();
            self.open = open;
        }
    }

    /// Serves it, if it is not served yet. Needs a runtime.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub fn serve(&mut self, router: impl FnOnce() -> Router) -> io::Result<()> {
        if let (Some(open), None) = (&self.open, &self.serving) {
            let listener = tokio::net::TcpListener::from_std(open.socket.try_clone()?)?;
            self.serving = Some(tokio::spawn(serve(AdminListener::Tcp(listener), router())));
        }
        Ok(())
    }

    /// Serves it no more. Who connects now waits until somebody does.
    pub fn stop(&mut self) {
        if let Some(serving) = self.serving.take() {
            serving.abort();
        }
    }

    /// The address, with its real port.
    pub fn address(&self) -> Option<SocketAddr> {
        self.open.as_ref().and_then(|open| open.socket.local_addr().ok())
    }

    /// The socket, and its address as it is written in the file: for the process that takes this one's place.
    pub fn socket(&self) -> Option<(SocketAddr, &TcpListener)> {
        self.open.as_ref().map(|open| (open.written, &open.socket))
    }

    fn written(&self) -> Option<SocketAddr> {
        self.open.as_ref().map(|open| open.written)
    }
}
