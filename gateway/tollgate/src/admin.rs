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

/// The admin listener, if one is configured.
#[derive(Debug)]
pub struct Admin {
    open: Option<Open>,
    serving: Option<JoinHandle<()>>,
    /// The TLS configuration of new connections. Open connections keep theirs.
    tls: watch::Sender<Option<Arc<ServerConfig>>>,
}

#[derive(Debug)]
struct Open {
    /// The address as it is written in the file; its port may be 0.
    written: AdminAddress,
    socket: Socket,
}

/// The changes that a new configuration makes to the admin listener.
#[derive(Debug, Default)]
pub struct Change {
    /// `None`: no change. `Some(None)`: there is no listener any more. Otherwise an open listener that is not
    /// served yet.
    listener: Option<Option<Open>>,
    /// Whether the socket's file still has its temporary name. [`Admin::change`] moves it over the old one.
    is_beside: bool,
}

impl Default for Admin {
    fn default() -> Self {
        Self { open: None, serving: None, tls: watch::Sender::new(None) }
    }
}

impl Admin {
    /// Determines what changes, and opens the address if it is a new one.
    ///
    /// # Errors
    /// The address cannot be opened. Nothing has changed then.
    pub async fn prepare(&self, config: &Config, inherited: &mut Inherited) -> io::Result<Change> {
        let wanted = config.admin.as_ref().map(|admin| &admin.bind.value);
        if wanted == self.open.as_ref().map(|open| &open.written) {
            return Ok(Change::default());
        }
        let Some(written) = wanted else { return Ok(Change { listener: Some(None), is_beside: false }) };
        // Only the mode or owner of the file differs.
        let is_beside = self.file().is_some() && self.file() == file_of(written);
        let inherited = inherited.admin.take().filter(|(other, _)| *other == written.to_string());
        let socket = match inherited {
            Some((_, socket)) => Socket::adopt(written, socket)?,
            // On a blocking thread: the directory of a Unix socket and the lookup of its owner may be slow.
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

    /// Applies a prepared change. If the listener changes, its connections are closed.
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

    /// Begins to serve the listener, unless it is already served. Needs a Tokio runtime.
    ///
    /// # Errors
    /// No file descriptors are left.
    pub fn serve(&mut self, with: impl FnOnce() -> (Router, AdminWatch)) -> io::Result<()> {
        if let (Some(open), None) = (&self.open, &self.serving) {
            let listener = open.socket.listener()?;
            let (router, watch) = with();
            self.serving = Some(tokio::spawn(serve(listener, self.tls.subscribe(), router, watch)));
        }
        Ok(())
    }

    /// Stops serving the listener. New connections wait in the kernel until it is served again.
    pub fn stop(&mut self) {
        if let Some(serving) = self.serving.take() {
            serving.abort();
        }
    }

    /// Returns the address with its actual port; `None` for a Unix socket.
    pub fn address(&self) -> Option<SocketAddr> {
        self.open.as_ref().and_then(|open| open.socket.address())
    }

    /// Returns the location to show: the URL for a browser, or the Unix socket as it is written.
    pub fn shown(&self) -> Option<String> {
        let open = self.open.as_ref()?;
        let scheme = if self.tls.borrow().is_some() { "https" } else { "http" };
        Some(match open.socket.address() {
            Some(address) => format!("{scheme}://{address}/"),
            None => open.written.to_string(),
        })
    }

    /// Returns the file of the Unix socket, if it is one.
    pub fn file(&self) -> Option<&Path> {
        file_of(&self.open.as_ref()?.written)
    }

    /// Returns the socket and its address as it is written, for the process that takes over.
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

/// Removes the file of a Unix socket that is no longer served.
pub fn forget(file: Option<PathBuf>) {
    if let Some(file) = file {
        socket::remove(&file);
    }
}
