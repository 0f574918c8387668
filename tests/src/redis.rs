//! A Redis that a test starts, kills and starts again.

use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::address::free_address;
use crate::eventually;

/// A Redis that keeps nothing on disk (`redis-server`, or `valkey-server` where that is there instead).
#[derive(Debug)]
pub struct Redis {
    address: SocketAddr,
    password: String,
    child: Option<Child>,
}

impl Redis {
    /// Starts one on an address of its own, which wants this password; an empty one: none.
    ///
    /// # Panics
    /// When there is none, or it does not start: `scripts/install-test-tools` installs it.
    #[must_use]
    pub fn start(password: &str) -> Self {
        let mut redis = Self { address: free_address(), password: password.to_owned(), child: None };
        redis.restart();
        redis
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Starts it where it was, empty, after [`kill`](Self::kill), and waits until it listens.
    ///
    /// # Panics
    /// When it does not come up.
    pub fn restart(&mut self) {
        assert!(self.child.is_none(), "it runs");
        let (ip, port) = (self.address.ip().to_string(), self.address.port().to_string());
        let start = |program: &str| {
            let mut command = Command::new(program);
            command.args(["--bind", &ip, "--port", &port, "--save", "", "--appendonly", "no"]);
            command.args(["--dir", &std::env::temp_dir().display().to_string()]);
            if !self.password.is_empty() {
                command.args(["--requirepass", &self.password]);
            }
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
        };
        let child = start("redis-server").or_else(|_| start("valkey-server"));
        self.child = Some(child.expect("redis-server: see scripts/install-test-tools"));
        eventually("Redis to listen", || TcpStream::connect(self.address).is_ok());
    }

    /// Kills it: its connections are reset, or closed.
    ///
    /// # Panics
    /// When it does not run.
    pub fn kill(&mut self) {
        let mut child = self.child.take().expect("it runs");
        child.kill().and_then(|()| child.wait()).expect("the child is ours");
    }

    /// It hangs (SIGSTOP): the kernel still takes bytes for it, and nobody answers.
    ///
    /// # Panics
    /// When it does not run.
    pub fn hang(&self) {
        let child = self.child.as_ref().expect("it runs");
        kill_process(Pid::from_child(child), Signal::STOP).expect("the process is there");
    }

    /// It goes on after [`hang`](Self::hang).
    ///
    /// # Panics
    /// When it does not run.
    pub fn go_on(&self) {
        let child = self.child.as_ref().expect("it runs");
        kill_process(Pid::from_child(child), Signal::CONT).expect("the process is there");
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        if self.child.is_some() {
            self.kill();
        }
    }
}
