//! The services that features call.

use crate::process::Process;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};
use tollgate_lab_meter::ports::free_ports;
use tollgate_lab_origin::{Origin, Settings};
use tollgate_lab_system::{CommandSpec, Partners};

/// How long a Redis may take to start.
const START_LIMIT: Duration = Duration::from_secs(10);

/// An authorizer that allows every request, and a Redis if one is on PATH.
pub struct Services {
    pub ports: Partners,
    _authorizer: Origin,
    _redis: Option<Process>,
}

impl Services {
    pub fn start(folder: &Path) -> Self {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let authorizer = Origin::start(&Settings::authorizer(any, any)).expect("an authorizer");
        let (redis, port) = match redis(folder) {
            Some((process, port)) => (Some(process), port),
            None => (None, 0),
        };
        Self {
            ports: Partners { authorizer: authorizer.address().port(), redis: port },
            _authorizer: authorizer,
            _redis: redis,
        }
    }
}

fn redis(folder: &Path) -> Option<(Process, u16)> {
    let folders = std::env::var_os("PATH")?;
    let program = std::env::split_paths(&folders)
        .map(|folder| folder.join("redis-server"))
        .find(|file| file.is_file())?;
    let port = free_ports(1).expect("a port")[0];
    let number = port.to_string();
    let args = ["--bind", "127.0.0.1", "--port", &number, "--save", "", "--appendonly", "no"];
    let process = Process::start(&CommandSpec {
        program,
        args: args.map(str::to_owned).to_vec(),
        env: Default::default(),
        directory: folder.to_owned(),
        output: folder.join("redis.log"),
    });
    let started = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(started.elapsed() < START_LIMIT, "the Redis does not listen");
        std::thread::sleep(Duration::from_millis(5));
    }
    Some((process, port))
}
