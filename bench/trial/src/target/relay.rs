//! The slow link in front of a system.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use tollgate_lab_meter::child::Launch;
use tollgate_lab_meter::ports::free_ports;
use tollgate_lab_origin::Link;
use tollgate_lab_study::Relay;

use crate::environment::{Environment, tail};
use crate::failure::Failure;
use crate::server::Server;

/// How long the slow link may take to start.
const RELAY_LIMIT: Duration = Duration::from_secs(5);

/// Starts a slow link in front of `port` and sets `port` to the link's port.
pub(super) fn relay(environment: &Environment, settings: &Relay, port: &mut u16) -> Result<Server, Failure> {
    let own = free_ports(1)?[0];
    let folder = environment.folder("relay")?;
    let file = folder.join("link.json");
    let address = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
    let link = Link {
        listen: address(own),
        to: address(*port),
        round_trip_ms: settings.round_trip_ms,
        bytes_per_second: settings.bytes_per_second,
    };
    let text = serde_json::to_vec(&link).map_err(|error| Failure::of("the link's settings", error))?;
    fs::write(&file, text).map_err(|error| Failure::of(file.display(), error))?;
    let output = folder.join("output.log");
    let group = Launch::new(&environment.exe)
        .arguments(["relay".as_ref(), file.as_os_str()])
        .cores(&environment.cores.load)
        .output(&output, &output)
        .start()?;
    let mut server = Server::new(group);
    let started = Instant::now();
    while TcpStream::connect(address(own)).is_err() {
        if server.ended()?.is_some() || started.elapsed() > RELAY_LIMIT {
            return Err(Failure(format!("the slow link did not start: {}", tail(&output, 4))));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    *port = own;
    Ok(server)
}
