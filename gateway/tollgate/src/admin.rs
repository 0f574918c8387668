//! The admin listener: its socket, and the task that serves it.

pub mod socket;

use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use rustls::ServerConfig;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tollgate_config::{AdminAddress, Config};
use tollgate_net::notice;
use tollgate_observe::{AdminWatch, serve};

use crate::aside::aside;
use crate::listeners::Inherited;
use socket::Socket;

/// The admin listener, if there is one.
#[derive(Debug)]
pub struct Admin {
    open: Option<Open>,
    serving: Option<JoinHandle<()>>,
    /// What handshakes are configured with; connections that are open keep what they began with.
    tls: watch::Sender<Option<Arc<ServerConfig>>>,
}

#[derive(Debug)]
struct Open {
    /// As it is written in the file; its port can be 0.
    written: AdminAddress,
    socket: Socket,
}

/// What a new file changes.
#[derive(Debug, Default)]
pub struct Change {
    /// The listener, which is open and not served yet; or that there is none.
    listener: Option<Option<Open>>,
    /// Its file is still beside the one that it is to replace.
    is_beside: bool,
}

impl Default for Admin {
    fn default() -> Self {
        Self { open: None, serving: None, tls: watch::Sender::new(None) }
    }
}

impl Admin {
    /// What is to change: opens the address if it is another one.
    ///
    /// # Errors
    /// When it cannot be opened; nothing has changed then.
    pub async fn prepare(&self, config: &Config, inherited: &mut Inherited) -> io::Result<Change> {
        let wanted = config.admin.as_ref().map(|admin| &admin.bind.value);
        if wanted == self.open.as_ref().map(|open| &open.written) {
            return Ok(Change::default());
        }
        let Some(written) = wanted else { return Ok(Change { listener: Some(None), is_beside: false }) };
        // Only its mode or its owner is another.
        let is_beside = self.file().is_some() && self.file() == file_of(written);
        let inherited = inherited.admin.take().filter(|(other, _)| *other == written.to_string());
        let socket = match inherited {
            Some((_, socket)) => Socket::adopt(written, socket)?,
            // Of a Unix socket: its directory and the names of its owner may be slow.
            None => {
                let written = written.clone();
                let open = move || match is_beside {
                    true => Socket::open_beside(&written),
                    false => Socket::open(&written, "admin"),
                };
                aside(open).await?
            }
        };
        Ok(Change { listener: Some(Some(Open { written: written.clone(), socket })), is_beside })
    }

    /// Takes over a change that was prepared. A listener that is gone loses its connections.
    pub fn change(&mut self, change: Change, tls: Option<Arc<ServerConfig>>) {
        self.tls.send_replace(tls);
        if let Some(open) = change.listener {
            if let Some(file) =
                open.as_ref().and_then(|open| file_of(&open.written)).filter(|_| change.is_beside)
                && let Err(error) = socket::settle(file)
            {
                return notice!("error: the admin listener stays as it was: {}: {error}", file.display());
            }
            self.stop();
            let before = self.file().map(Path::to_owned);
            self.open = open;
            if let Some(file) = before.filter(|file| self.file() != Some(file)) {
                socket::remove(&file);
            }
        }
    }

    /// Serves it, if it is not served yet. Needs a runtime.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub fn serve(&mut self, with: impl FnOnce() -> (Router, AdminWatch)) -> io::Result<()> {
        if let (Some(open), None) = (&self.open, &self.serving) {
            let listener = open.socket.listener()?;
            let (router, watch) = with();
            self.serving = Some(tokio::spawn(serve(listener, self.tls.subscribe(), router, watch)));
        }
        Ok(())
    }

    /// Serves it no more. Who connects now waits until somebody does.
    pub fn stop(&mut self) {
        if let Some(serving) = self.serving.take() {
            serving.abort();
        }
    }

    /// The address, with its real port; none where it is a Unix socket.
    pub fn address(&self) -> Option<SocketAddr> {
        self.open.as_ref().and_then(|open| open.socket.address())
    }

    /// Where it is, for people: what a browser opens, or the socket's file.
    pub fn shown(&self) -> Option<String> {
        let open = self.open.as_ref()?;
        let scheme = if self.tls.borrow().is_some() { "https" } else { "http" };
        Some(match open.socket.address() {
            Some(address) => format!("{scheme}://{address}/"),
            None => open.written.to_string(),
        })
    }

    /// The file of the Unix socket.
    pub fn file(&self) -> Option<&Path> {
        file_of(&self.open.as_ref()?.written)
    }

    /// The socket, and its address as it is written in the file: for the process that takes this one's place.
    pub fn socket(&self) -> Option<(String, BorrowedFd<'_>)> {
        self.open.as_ref().map(|open| (open.written.to_string(), open.socket.descriptor()))
    }
}

fn file_of(written: &AdminAddress) -> Option<&Path> {
    match written {
        AdminAddress::Unix(socket) => Some(&socket.path),
        AdminAddress::Tcp(_) => None,
    }
}

/// Removes the file of a Unix socket that nobody serves any longer.
pub fn forget(file: Option<PathBuf>) {
    if let Some(file) = file {
        socket::remove(&file);
    }
}
