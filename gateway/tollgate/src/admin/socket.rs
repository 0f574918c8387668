//! Opens the admin listener's socket. The Unix sockets of ordinary listeners use the same functions.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt, chown};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use nix::unistd::{Group, User};
use tollgate_config::{AdminAddress, AdminSocket, Owner};
use tollgate_observe::AdminListener;

use crate::startup::cannot_listen;

/// A listening socket of the admin listener, or a Unix socket of an ordinary one.
#[derive(Debug)]
pub enum ListenSocket {
    /// A TCP socket.
    Tcp(TcpListener),
    /// A Unix socket.
    Unix(UnixListener),
}

impl ListenSocket {
    /// Opens the socket. `key` names its configuration key in errors.
    ///
    /// # Errors
    /// Returns a readable reason.
    pub fn open(configured: &AdminAddress, key: &str) -> io::Result<Self> {
        let opened = match configured {
            AdminAddress::Tcp(address) | AdminAddress::Udp(address) => {
                Self::Tcp(TcpListener::bind(address).map_err(|error| cannot_listen(key, *address, &error))?)
            }
            AdminAddress::Unix(socket) => {
                Self::Unix(listen_unix(socket).map_err(|error| explain(socket, key, &error))?)
            }
        };
        opened.into_nonblocking()
    }

    /// Opens a Unix socket under a temporary name next to its file, on which this process listens already.
    /// [`move_into_place`] moves it there.
    ///
    /// # Errors
    /// Returns a readable reason.
    pub fn open_temporary(configured: &AdminAddress) -> io::Result<Self> {
        match configured {
            AdminAddress::Tcp(_) | AdminAddress::Udp(_) => Self::open(configured, "admin"),
            AdminAddress::Unix(socket) => {
                Self::Unix(listen_temporary(socket).map_err(|error| explain(socket, "admin", &error))?)
                    .into_nonblocking()
            }
        }
    }

    /// Takes over a socket that another process has opened.
    ///
    /// # Errors
    /// The file of a Unix socket cannot be given its mode or owner.
    pub fn adopt(configured: &AdminAddress, socket: OwnedFd) -> io::Result<Self> {
        let adopted = match configured {
            AdminAddress::Tcp(_) | AdminAddress::Udp(_) => Self::Tcp(socket.into()),
            AdminAddress::Unix(settings) => {
                set_owner(settings, &settings.path).map_err(|error| explain(settings, "admin", &error))?;
                Self::Unix(socket.into())
            }
        };
        adopted.into_nonblocking()
    }

    fn into_nonblocking(self) -> io::Result<Self> {
        match &self {
            Self::Tcp(listener) => listener.set_nonblocking(true)?,
            Self::Unix(listener) => listener.set_nonblocking(true)?,
        }
        Ok(self)
    }

    /// Returns a copy of the socket to serve. Needs a Tokio runtime.
    ///
    /// # Errors
    /// No file descriptors are left.
    pub fn listener(&self) -> io::Result<AdminListener> {
        Ok(match self {
            Self::Tcp(listener) => {
                AdminListener::Tcp(tokio::net::TcpListener::from_std(listener.try_clone()?)?)
            }
            Self::Unix(listener) => {
                AdminListener::Unix(tokio::net::UnixListener::from_std(listener.try_clone()?)?)
            }
        })
    }

    /// Returns the address with its actual port; `None` for a Unix socket.
    pub fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(listener) => listener.local_addr().ok(),
            Self::Unix(_) => None,
        }
    }

    /// Returns the descriptor, which the caller then owns.
    pub fn into_descriptor(self) -> OwnedFd {
        match self {
            Self::Tcp(listener) => listener.into(),
            Self::Unix(listener) => listener.into(),
        }
    }

    /// Returns the descriptor, to be sent to another process.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Unix(listener) => listener.as_fd(),
        }
    }
}

/// Gives the file of a Unix socket its mode and owner. Does nothing for a TCP address.
///
/// # Errors
/// The mode or owner cannot be set.
pub fn apply_ownership(configured: &AdminAddress) -> io::Result<()> {
    match configured {
        AdminAddress::Tcp(_) | AdminAddress::Udp(_) => Ok(()),
        AdminAddress::Unix(socket) => {
            set_owner(socket, &socket.path).map_err(|error| explain(socket, "listen", &error))
        }
    }
}

/// Listens on a Unix socket. Replaces a file that an ended process has left.
fn listen_unix(socket: &AdminSocket) -> io::Result<UnixListener> {
    let path = &socket.path;
    match std::fs::symlink_metadata(path) {
        Ok(data) if !data.file_type().is_socket() => {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "the file is there, and is no socket"));
        }
        Ok(_) if UnixStream::connect(path).is_ok() => {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, "a process listens there already"));
        }
        _ => {}
    }
    let listener = listen_temporary(socket)?;
    move_into_place(path)?;
    Ok(listener)
}

/// Listens under a temporary name. The file is moved to its path once it has its mode and owner, so no client
/// finds it with others.
fn listen_temporary(socket: &AdminSocket) -> io::Result<UnixListener> {
    let new = temporary_path(&socket.path);
    remove(&new);
    let listener = UnixListener::bind(&new)?;
    set_owner(socket, &new).inspect_err(|_| remove(&new))?;
    Ok(listener)
}

/// Moves the file of a socket from its temporary name to its path.
///
/// # Errors
/// The directory is no longer writable. The temporary file is removed then.
pub fn move_into_place(path: &Path) -> io::Result<()> {
    let new = temporary_path(path);
    std::fs::rename(&new, path).inspect_err(|_| remove(&new))
}

fn temporary_path(path: &Path) -> PathBuf {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    PathBuf::from(new)
}

/// Sets the mode and owner of a file.
fn set_owner(socket: &AdminSocket, file: &Path) -> io::Result<()> {
    // First for the owner alone, so that no one else has access before the owner is set.
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(socket.mode & 0o700))?;
    if let Some(Owner { user, group }) = &socket.owner {
        let user = user.as_deref().map(user_id).transpose()?;
        let group = group.as_deref().map(group_id).transpose()?;
        chown(file, user, group)?;
    }
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(socket.mode))
}

fn user_id(name: &str) -> io::Result<u32> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let user = User::from_name(name)?.map(|user| user.uid.as_raw());
    user.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("there is no user `{name}`")))
}

fn group_id(name: &str) -> io::Result<u32> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let group = Group::from_name(name)?.map(|group| group.gid.as_raw());
    group.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("there is no group `{name}`")))
}

fn explain(socket: &AdminSocket, key: &str, error: &io::Error) -> io::Error {
    let advice = match error.kind() {
        io::ErrorKind::NotFound if error.raw_os_error().is_some() => {
            "its directory does not exist".to_owned()
        }
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    };
    io::Error::new(
        error.kind(),
        format!("cannot listen on unix:{} (`{key}`): {advice}", socket.path.display()),
    )
}

/// Removes the file of a socket. Errors are ignored.
pub fn remove(file: &Path) {
    // It does not matter if the file is already gone.
    let _ = std::fs::remove_file(file);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_has_its_mode_replaces_one_that_was_left_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("admin.sock");
        let wanted = AdminAddress::Unix(AdminSocket { path: path.clone(), mode: 0o660, owner: None });
        let first = ListenSocket::open(&wanted, "admin").expect("open");
        let mode = || std::fs::metadata(&path).expect("there").permissions().mode() & 0o777;
        assert_eq!(mode(), 0o660);
        let error = ListenSocket::open(&wanted, "admin").expect_err("in use").to_string();
        assert!(error.contains("listens there already") && error.contains("admin.sock"), "{error}");
        // As if its process had crashed.
        drop(first);
        ListenSocket::open(&wanted, "admin").expect("open again");
        remove(&path);
        std::fs::write(&path, "precious").expect("written");
        let error = ListenSocket::open(&wanted, "admin").expect_err("no socket").to_string();
        assert!(error.contains("is no socket"), "{error}");
        let none = AdminSocket {
            path: folder.path().join("b.sock"),
            mode: 0o600,
            owner: Some(Owner { user: Some("no-such-user".to_owned()), group: None }),
        };
        let error = ListenSocket::open(&AdminAddress::Unix(none), "admin").expect_err("nobody").to_string();
        assert!(error.contains("there is no user `no-such-user`"), "{error}");
        assert_eq!(std::fs::read_dir(folder.path()).expect("there").count(), 1, "nothing is left behind");
    }
}
