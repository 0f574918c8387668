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
use tollgate_net::component;
use tollgate_observe::{AdminEvents, serve};
use tracing::error;

use crate::blocking_files::run_file_job;
use crate::listeners::InheritedSockets;
use socket::ListenSocket;

/// The admin listener, if one is configured.
#[derive(Debug)]
pub struct Admin {
    open: Option<OpenAdminListener>,
    serving: Option<JoinHandle<()>>,
    /// The TLS configuration of new connections. Open connections keep theirs.
    tls: watch::Sender<Option<Arc<ServerConfig>>>,
}

#[derive(Debug)]
struct OpenAdminListener {
    /// The address as it is written in the file; its port may be 0.
    configured: AdminAddress,
    socket: ListenSocket,
}

/// The changes that a new configuration makes to the admin listener.
#[derive(Debug, Default)]
pub struct AdminChange {
    /// `None`: no change. `Some(None)`: there is no listener any more. Otherwise an open listener that is not
    /// served yet.
    listener: Option<Option<OpenAdminListener>>,
    /// Whether the socket's file still has its temporary name. [`Admin::apply`] moves it over the old one.
    has_temporary_name: bool,
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
    pub async fn prepare(
        &self,
        config: &Config,
        inherited: &mut InheritedSockets,
    ) -> io::Result<AdminChange> {
        let wanted = config.admin.as_ref().map(|admin| &admin.bind.value);
        if wanted == self.open.as_ref().map(|open| &open.configured) {
            return Ok(AdminChange::default());
        }
        let Some(configured) = wanted else {
            return Ok(AdminChange { listener: Some(None), has_temporary_name: false });
        };
        // Only the mode or owner of the file differs.
        let has_temporary_name = self.file().is_some() && self.file() == socket_path(configured);
        let inherited = inherited.admin.take().filter(|(other, _)| *other == configured.to_string());
        let socket = match inherited {
            Some((_, socket)) => ListenSocket::adopt(configured, socket)?,
            // On a blocking thread: the directory of a Unix socket and the lookup of its owner may be slow.
            None => {
                let configured = configured.clone();
                let open = move || match has_temporary_name {
                    true => ListenSocket::open_temporary(&configured),
                    false => ListenSocket::open(&configured, "admin"),
                };
                run_file_job(open).await?
            }
        };
        Ok(AdminChange {
            listener: Some(Some(OpenAdminListener { configured: configured.clone(), socket })),
            has_temporary_name,
        })
    }

    /// Applies a prepared change. If the listener changes, its connections are closed.
    pub fn apply(&mut self, change: AdminChange, tls: Option<Arc<ServerConfig>>) {
        self.tls.send_replace(tls);
        if let Some(open) = change.listener {
            if let Some(file) = open
                .as_ref()
                .and_then(|open| socket_path(&open.configured))
                .filter(|_| change.has_temporary_name)
                && let Err(error) = socket::move_into_place(file)
            {
                let file = file.display();
                return error!(
                    target: component::ADMIN,
                    "the admin listener stays as it was: {file}: {error}"
                );
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
    pub fn serve(&mut self, with: impl FnOnce() -> (Router, AdminEvents)) -> io::Result<()> {
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
    pub fn display_address(&self) -> Option<String> {
        let open = self.open.as_ref()?;
        let scheme = if self.tls.borrow().is_some() { "https" } else { "http" };
        Some(match open.socket.address() {
            Some(address) => format!("{scheme}://{address}/"),
            None => open.configured.to_string(),
        })
    }

    /// Returns the file of the Unix socket, if it is one.
    pub fn file(&self) -> Option<&Path> {
        socket_path(&self.open.as_ref()?.configured)
    }

    /// Returns the socket and its address as it is written, for the process that takes over.
    pub fn socket(&self) -> Option<(String, BorrowedFd<'_>)> {
        self.open.as_ref().map(|open| (open.configured.to_string(), open.socket.descriptor()))
    }
}

fn socket_path(configured: &AdminAddress) -> Option<&Path> {
    match configured {
        AdminAddress::Unix(socket) => Some(&socket.path),
        AdminAddress::Tcp(_) | AdminAddress::Udp(_) => None,
    }
}

/// Removes the file of a Unix socket that is no longer served.
pub fn remove_socket_file(file: Option<PathBuf>) {
    if let Some(file) = file {
        socket::remove(&file);
    }
}
