//! Services that features call (an authorizer, Redis). They run on the origin's cores, so their cost does not
//! count as the system's.

use crate::environment::{Environment, tail};
use crate::failure::Failure;
use crate::http::get_raw;
use crate::server::Server;
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};
use tollgate_lab_meter::child::Launch;
use tollgate_lab_meter::ports::free_ports;
use tollgate_lab_system::{Feature, Partners as Ports};

/// How long a service may take to start.
const START_LIMIT: Duration = Duration::from_secs(10);

/// The services that features call.
#[derive(Debug, Default)]
pub struct Partners {
    /// Their ports.
    pub ports: Ports,
    servers: Vec<Server>,
}

impl Partners {
    /// Starts the services that these features need.
    ///
    /// # Errors
    /// If a service is missing or does not start.
    pub fn start(environment: &Environment, features: &[String], cores: &[usize]) -> Result<Self, Failure> {
        let mut partners = Self::default();
        let wanted = |feature: Feature| features.iter().any(|name| name == feature.name());
        if wanted(Feature::ExtAuthz) {
            partners.ports.authorizer = partners.authorizer(environment, cores)?;
        }
        if wanted(Feature::SharedRateLimit) {
            partners.ports.redis = partners.redis(environment, cores)?;
        }
        Ok(partners)
    }

    /// Returns whether these features need a service.
    pub(crate) fn needed(features: &[String]) -> bool {
        let needs = [Feature::ExtAuthz, Feature::SharedRateLimit];
        features.iter().any(|name| needs.iter().any(|feature| feature.name() == name))
    }

    /// Starts a gRPC authorizer that allows every request.
    fn authorizer(&mut self, environment: &Environment, cores: &[usize]) -> Result<u16, Failure> {
        let (ports, folder) = (free_ports(2)?, environment.folder("authorizer")?);
        let address = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let settings = tollgate_lab_origin::Settings::authorizer(address(ports[0]), address(ports[1]));
        let file = folder.join("origin.json");
        let text =
            serde_json::to_vec(&settings).map_err(|error| Failure::of("the authorizer's settings", error))?;
        fs::write(&file, text).map_err(|error| Failure::of(file.display(), error))?;
        let launch = Launch::new(&environment.exe).arguments(["origin".as_ref(), file.as_os_str()]);
        // Its counters answer once it listens.
        self.wait("the authorizer", launch, &folder, cores, || get_raw(ports[1], "/counters").is_ok())?;
        Ok(ports[0])
    }

    /// Starts a Redis without persistence.
    fn redis(&mut self, environment: &Environment, cores: &[usize]) -> Result<u16, Failure> {
        let (port, folder) = (free_ports(1)?[0], environment.folder("redis")?);
        let number = port.to_string();
        let launch = Launch::new("redis-server").folder(&folder).arguments([
            "--bind",
            "127.0.0.1",
            "--port",
            &number,
            "--save",
            "",
            "--appendonly",
            "no",
        ]);
        let ready = || TcpStream::connect(("127.0.0.1", port)).is_ok();
        self.wait("redis-server", launch, &folder, cores, ready).map_err(|failure| {
            Failure(format!("{failure} (`shared_rate_limit` needs one: apt-get install redis-server)"))
        })?;
        Ok(port)
    }

    fn wait(
        &mut self,
        name: &str,
        launch: Launch<'_>,
        folder: &Path,
        cores: &[usize],
        ready: impl Fn() -> bool,
    ) -> Result<(), Failure> {
        let output = folder.join("output.log");
        let mut server = Server::new(launch.cores(cores).output(&output, &output).start()?);
        let started = Instant::now();
        while !ready() {
            if let Some(how) = server.ended()? {
                return Err(Failure(format!("{name} did not start ({how}): {}", tail(&output, 4))));
            }
            if started.elapsed() > START_LIMIT {
                return Err(Failure(format!("{name} does not answer: {}", tail(&output, 4))));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        self.servers.push(server);
        Ok(())
    }
}
