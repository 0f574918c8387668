//! Binary upgrade. This process starts the new one, hands over its listening sockets, and drains once the new
//! one serves. If the new process does not come up, clients notice nothing and this process continues.
//!
//! [`takeover`](crate::takeover) has the other part, and the protocol between the two.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tollgate_config::ListenAddress;
use tollgate_listen::{Channel, ChannelMessage};

use crate::gateway::Gateway;
use crate::takeover::{MORE_ADDRESSES, SocketOffer, TAKEOVER_VARIABLE};

/// How long the new process may take from `go` until its workers accept.
const SERVING_TIMEOUT: Duration = Duration::from_secs(5);
/// How often a waiting thread checks whether the upgrade was cancelled.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The command by which this process was started. The new process is started in the same way.
#[derive(Clone, Debug)]
pub struct Program {
    /// The name by which this process was called. A link may lead to a newer program by now.
    name: PathBuf,
    /// The file of this program, if nothing exists under that name.
    file: Option<PathBuf>,
    arguments: Vec<OsString>,
}

impl Program {
    /// Returns the command of this process. Must be called before its file is replaced.
    pub fn current() -> Self {
        let mut arguments = std::env::args_os();
        let name = PathBuf::from(arguments.next().unwrap_or_default());
        // A bare name is looked up in PATH again. A relative path is made absolute, since the working
        // directory may change.
        let is_bare = name.components().count() < 2;
        let name = if is_bare { name } else { std::path::absolute(&name).unwrap_or(name) };
        Self { name, file: std::env::current_exe().ok(), arguments: arguments.collect() }
    }

    /// Adds an argument for the new process: the file that this process found, for example.
    pub fn add_argument(&mut self, argument: &OsStr) {
        self.arguments.push(argument.to_owned());
    }

    fn command(&self, name: &Path) -> Command {
        let mut command = Command::new(name);
        command.args(&self.arguments).env(TAKEOVER_VARIABLE, "1");
        command
    }

    /// Starts the program with `input` as its standard input.
    fn start(&self, input: &OwnedFd) -> Result<Child, String> {
        let start = |name: &Path| {
            let input = input.try_clone()?;
            self.command(name).stdin(Stdio::from(input)).spawn()
        };
        start(&self.name)
            .or_else(|error| match (&self.file, error.kind()) {
                (Some(file), io::ErrorKind::NotFound) if !self.name.is_absolute() => start(file),
                _ => Err(error),
            })
            .map_err(|error| format!("cannot start {}: {error}", self.name.display()))
    }
}

/// Everything that the new process gets. The sockets are duplicates, so that another thread can send them.
#[derive(Debug)]
pub struct Handover {
    program: Program,
    offer: SocketOffer,
    sockets: Vec<OwnedFd>,
    cancel: CancelFlag,
    /// How long the new process may take until its workers run.
    time_limit: Option<Duration>,
}

/// A flag that cancels an upgrade. The new process is then killed.
#[derive(Clone, Debug, Default)]
pub struct CancelFlag(Arc<AtomicBool>);

/// A new process. Dropping it kills the process, unless it serves.
#[derive(Debug)]
pub struct Successor {
    child: Child,
    channel: Channel,
    cancel: CancelFlag,
    serving_addresses: Option<Vec<ListenAddress>>,
}

impl Handover {
    /// Prepares the handover of all sockets of the gateway.
    ///
    /// # Errors
    /// No file descriptors are left.
    pub fn new(program: &Program, gateway: &Gateway, cancel: CancelFlag) -> io::Result<Self> {
        let mut offer = SocketOffer::default();
        let mut sockets = Vec::new();
        for (address, socket) in gateway.listeners.sockets() {
            offer.listen.push(address.clone());
            sockets.push(socket.try_clone()?.into());
        }
        if let Some((address, socket)) = gateway.admin.socket() {
            offer.admin = Some(address);
            sockets.push(socket.try_clone_to_owned()?);
        }
        let time_limit = gateway.config.timeouts.takeover;
        Ok(Self { program: program.clone(), offer, sockets, cancel, time_limit })
    }

    /// Starts the new process, and waits until its workers run.
    ///
    /// # Errors
    /// Returns a readable reason why it did not come up.
    pub fn start(self) -> Result<Successor, String> {
        let (channel, other) = Channel::pair().map_err(|error| format!("no channel: {error}"))?;
        let child = self.program.start(&other)?;
        // Otherwise this end would stay open here, and the end of the new process would go unnoticed.
        drop(other);
        let mut successor = Successor { child, channel, cancel: self.cancel, serving_addresses: None };
        let sockets: Vec<_> = self.sockets.iter().map(AsFd::as_fd).collect();
        let sent = self.offer.texts().iter().try_for_each(|text| successor.channel.send(text));
        let sent = sent.and_then(|()| successor.channel.send_sockets("sockets", &sockets));
        // If sending fails, the process has usually ended; its exit status is the better explanation.
        let ready = sent.and_then(|()| successor.wait_for("ready", self.time_limit));
        ready.map_err(|error| successor.explain(&error)).map(|_| successor)
    }
}

impl Successor {
    /// Tells the new process to serve, and waits until every worker accepts.
    ///
    /// # Errors
    /// Returns a readable reason why it did not.
    pub fn allow_serving(mut self) -> Result<Self, String> {
        let serving = self.channel.send("go").and_then(|()| self.wait_for("serving", Some(SERVING_TIMEOUT)));
        match serving {
            Ok(addresses) => {
                let addresses = addresses.split(' ').filter_map(|address| address.parse().ok());
                self.serving_addresses = Some(addresses.collect());
                Ok(self)
            }
            Err(error) => Err(self.explain(&error)),
        }
    }

    /// Returns its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the addresses on which it accepts, as they are written in its file.
    pub fn addresses(&self) -> &[ListenAddress] {
        self.serving_addresses.as_deref().unwrap_or_default()
    }

    /// Reports that the supervisor knows about it.
    pub fn confirm(&self) {
        // It serves whether it receives this or not.
        let _ = self.channel.send("done");
    }

    /// Waits for a message that begins with this word, and returns the rest, after what messages with more addresses had.
    fn wait_for(&self, word: &str, time_limit: Option<Duration>) -> io::Result<String> {
        let end = time_limit.map(|time_limit| Instant::now() + time_limit);
        let mut earlier = String::new();
        loop {
            match self.channel.receive(POLL_INTERVAL) {
                Ok(ChannelMessage { text, .. }) if text.starts_with(MORE_ADDRESSES) => {
                    earlier.push_str(text.trim_start_matches(MORE_ADDRESSES));
                }
                Ok(ChannelMessage { text, .. }) => {
                    let wrong = || io::Error::other(format!("it says `{text}`"));
                    return text.strip_prefix(word).map(|rest| earlier + rest).ok_or_else(wrong);
                }
                Err(error) if error.kind() != io::ErrorKind::TimedOut => return Err(error),
                Err(_) if self.cancel.0.load(Ordering::Relaxed) => {
                    return Err(io::Error::other("it was called off"));
                }
                Err(error) if end.is_some_and(|end| Instant::now() >= end) => return Err(error),
                Err(_) => {}
            }
        }
    }

    /// Returns the reason why the new process did not come up.
    fn explain(&mut self, error: &io::Error) -> String {
        // The channel closes a moment before the exit status is available.
        use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
        let is_disconnected = matches!(error.kind(), UnexpectedEof | BrokenPipe | ConnectionReset);
        let end = Instant::now() + Duration::from_secs(1);
        while is_disconnected && Instant::now() < end {
            if let Ok(Some(status)) = self.child.try_wait() {
                return exit_message(status);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        match error.kind() {
            io::ErrorKind::TimedOut => "the new process did not come up in time".to_owned(),
            _ if is_disconnected => "the new process does not take over".to_owned(),
            _ => format!("the new process did not come up: {error}"),
        }
    }
}

fn exit_message(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("the new process ended with exit status {code}"),
        (None, Some(signal)) => format!("the new process was ended by signal {signal}"),
        (None, None) => "the new process ended".to_owned(),
    }
}

impl Drop for Successor {
    fn drop(&mut self) {
        if self.serving_addresses.is_none() {
            // The successor is killed before the channel closes: it would take a closed channel for the end of this
            // process, and serve.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

impl CancelFlag {
    /// Cancels the upgrade.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
