//! The laboratory's end of a session with an agent.

use super::identity::Identity;
use super::link::{Link, listen, probe};
use super::message::{Ask, Welcome, receive, send};
use crate::failure::Failure;
use rustls::{ClientConnection, StreamOwned};
use serde::de::DeserializeOwned;
use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::rc::Rc;
use std::time::Duration;
use tollgate_lab_meter::machine::Facts;
use tollgate_lab_study::agent_address;

/// How long a connection to an agent may take.
const CONNECT: Duration = Duration::from_secs(5);

/// The longest wait for an answer: a start under valgrind or of a JVM takes minutes.
const ANSWER: Duration = Duration::from_secs(600);

/// A session with an agent.
#[derive(Debug)]
pub struct Agent {
    /// The address as the study names it, with its port.
    pub(crate) name: String,
    stream: RefCell<StreamOwned<ClientConnection, TcpStream>>,
    peer: IpAddr,
    own: IpAddr,
    welcome: Welcome,
}

/// Opens the connection of a session.
pub(super) fn open(
    name: &str,
    identity: &Identity,
) -> Result<StreamOwned<ClientConnection, TcpStream>, Failure> {
    let wrong = |error: &dyn std::fmt::Display| {
        Failure(format!(
            "the agent {name}: {error} (does `tollgate bench agent` run there, with the same key?)"
        ))
    };
    let addresses: Vec<SocketAddr> = name.to_socket_addrs().map_err(|error| wrong(&error))?.collect();
    let mut last = None;
    let stream = addresses.iter().find_map(|address| match TcpStream::connect_timeout(address, CONNECT) {
        Ok(stream) => Some(stream),
        Err(error) => {
            last = Some(error);
            None
        }
    });
    let stream = stream.ok_or_else(|| match &last {
        Some(error) => wrong(error),
        None => wrong(&"the name has no address"),
    })?;
    stream
        .set_nodelay(true)
        .and_then(|()| stream.set_read_timeout(Some(ANSWER)))
        .map_err(|error| wrong(&error))?;
    let connection = ClientConnection::new(identity.client()?, Identity::name()?)
        .map_err(|error| Failure::of("the identity", error))?;
    Ok(StreamOwned::new(connection, stream))
}

/// Sends an operation and returns its answer.
pub(super) fn exchange<T: DeserializeOwned>(
    name: &str,
    stream: &mut StreamOwned<ClientConnection, TcpStream>,
    ask: &Ask,
) -> Result<T, Failure> {
    let lost = |error: &dyn std::fmt::Display| Failure(format!("the agent {name}: {error}"));
    send(stream, ask).map_err(|error| lost(&error))?;
    answer(name, stream)
}

/// Waits for the next answer.
pub(super) fn answer<T: DeserializeOwned>(
    name: &str,
    stream: &mut StreamOwned<ClientConnection, TcpStream>,
) -> Result<T, Failure> {
    let lost = |error: &dyn std::fmt::Display| Failure(format!("the agent {name}: {error}"));
    match receive::<Result<T, String>>(stream).map_err(|error| lost(&error))? {
        Some(Ok(answer)) => Ok(answer),
        Some(Err(text)) => Err(lost(&text)),
        None => Err(lost(&"it closed the connection (another key, or it was stopped)")),
    }
}

impl Agent {
    /// Begins a session. `cores` are the cores of the role there; `None` means all cores that the agent may use.
    ///
    /// # Errors
    /// If the agent cannot be reached, has another identity or version, or may not use the cores.
    pub fn connect(host: &str, identity: &Identity, cores: Option<Vec<usize>>) -> Result<Rc<Self>, Failure> {
        let name = agent_address(host);
        let mut stream = open(&name, identity)?;
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let welcome: Welcome = exchange(&name, &mut stream, &Ask::Hello { version, cores })?;
        let address = |address: std::io::Result<SocketAddr>| {
            address
                .map(|address| address.ip())
                .map_err(|error| Failure::of(format!("the agent {name}"), error))
        };
        let (peer, own) = (address(stream.sock.peer_addr())?, address(stream.sock.local_addr())?);
        Ok(Rc::new(Self { name, stream: RefCell::new(stream), peer, own, welcome }))
    }

    /// Executes an operation at the agent.
    ///
    /// # Errors
    /// If it fails there, or the connection is lost.
    pub(crate) fn ask<T: DeserializeOwned>(&self, ask: &Ask) -> Result<T, Failure> {
        exchange(&self.name, &mut self.stream.borrow_mut(), ask)
    }

    /// Returns the address of the agent's host.
    pub(crate) fn address(&self) -> IpAddr {
        self.peer
    }

    /// Returns the address of this host as the agent reaches it.
    pub(crate) fn own_address(&self) -> IpAddr {
        self.own
    }

    /// Returns the description of the agent's host.
    pub(crate) fn facts(&self) -> &Facts {
        &self.welcome.facts
    }

    /// Returns the cores of the role.
    pub(crate) fn cores(&self) -> &[usize] {
        &self.welcome.cores
    }

    /// Returns the number of logical cores of the host.
    pub(crate) fn host_cores(&self) -> usize {
        self.welcome.host_cores
    }

    /// Describes the host and the cores of the role.
    pub(crate) fn describe(&self) -> String {
        let cores: Vec<String> = self.cores().iter().map(usize::to_string).collect();
        let Facts { cpu, kernel, .. } = self.facts();
        format!("{} ({cpu}, Linux {kernel}, cores {})", self.name, cores.join(","))
    }

    pub(crate) fn listen_here(address: IpAddr) -> Result<u16, Failure> {
        listen(address).map_err(|error| Failure::of("listening for the link", error))
    }

    pub(crate) fn probe_from_here(to: SocketAddr) -> Result<Link, Failure> {
        probe(to).map_err(|error| Failure::of(to, error))
    }
}
