//! An origin in a process of its own, which can be killed, stopped and started again; a thread cannot.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Pid, Signal};

use crate::address::free_address;
use crate::eventually;
use crate::process::{binary, send_signal};

/// An origin in a process of its own: the gateway's binary, which answers every request with its name. A test
/// can kill it, stop it and start it again on the same address.
#[derive(Debug)]
pub struct Service {
    directory: PathBuf,
    address: SocketAddr,
    child: Option<Child>,
}

impl Service {
    /// Starts a service on an address of its own.
    ///
    /// # Panics
    /// Panics if the service does not start.
    #[must_use]
    pub fn start(name: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("tollgate-service-{}-{n}", std::process::id()));
        fs::create_dir_all(&directory).expect("a temporary directory");
        let address = free_address();
        let config = format!(
            "listen: {address}\nadmin: off\nworkers: 1\naccess_log: off\n\
             routes: [{{match: \"/*\", respond: {{status: 200, body: \"{name}\"}}}}]\n"
        );
        fs::write(directory.join("service.yaml"), config).expect("the config is written");
        let mut service = Self { directory, address, child: None };
        service.restart();
        service
    }

    /// Returns the address on which the service listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Starts the service again on the same address, after [`kill`](Self::kill) or [`end`](Self::end), and
    /// waits until it listens.
    ///
    /// # Panics
    /// Panics if the service does not start.
    pub fn restart(&mut self) {
        assert!(self.child.is_none(), "it runs");
        let mut command = Command::new(binary());
        command.arg("run").arg(self.directory.join("service.yaml"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.child = Some(command.spawn().expect("it starts"));
        eventually("the service to listen", || TcpStream::connect(self.address).is_ok());
    }

    /// Kills the service with SIGKILL, as the kernel does when memory is short. Its connections are reset or
    /// closed.
    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.wait();
    }

    /// Ends the service with SIGTERM, and waits for the process. Requests in progress are answered.
    pub fn end(&mut self) {
        self.signal(Signal::TERM);
        self.wait();
    }

    /// Stops the service with SIGSTOP: the kernel still accepts connections for it, but no answer comes.
    pub fn hang(&self) {
        self.signal(Signal::STOP);
    }

    /// Resumes the service after [`hang`](Self::hang).
    pub fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let child = self.child.as_ref().expect("it runs");
        send_signal(Pid::from_child(child), signal);
    }

    fn wait(&mut self) {
        let mut child = self.child.take().expect("it runs");
        child.wait().expect("the child is ours");
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if self.child.is_some() {
            self.kill();
        }
        let _ = fs::remove_dir_all(&self.directory);
    }
}
