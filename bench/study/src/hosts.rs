//! The hosts of a study whose roles run on several: `hosts: {gateway: 10.0.0.2, origin: 10.0.0.3}`.

use serde::{Deserialize, Serialize};

/// The port of an agent unless its address names another.
pub const AGENT_PORT: u16 = 7921;

/// The address of each role's agent; a role without one runs on the host of the laboratory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Hosts {
    /// The load generator.
    pub client: Option<String>,
    /// The system under test.
    pub gateway: Option<String>,
    /// The origin.
    pub origin: Option<String>,
}

impl Hosts {
    /// Returns whether every role runs on the host of the laboratory.
    pub fn is_empty(&self) -> bool {
        self.client.is_none() && self.gateway.is_none() && self.origin.is_none()
    }
}

/// Returns the address of an agent with its port.
pub fn agent_address(host: &str) -> String {
    let has_port = host.rsplit_once(':').is_some_and(|(name, port)| {
        port.parse::<u16>().is_ok() && (!name.contains(':') || name.ends_with(']'))
    });
    match (has_port, host.contains(':') && !host.starts_with('[')) {
        (true, _) => host.to_owned(),
        (false, true) => format!("[{host}]:{AGENT_PORT}"),
        (false, false) => format!("{host}:{AGENT_PORT}"),
    }
}

#[cfg(test)]
mod tests {
    use super::agent_address;

    #[test]
    fn an_address_without_a_port_gets_the_usual_one() {
        assert_eq!(agent_address("10.0.0.2"), "10.0.0.2:7921");
        assert_eq!(agent_address("gateway.example:99"), "gateway.example:99");
        assert_eq!(agent_address("fd00::2"), "[fd00::2]:7921");
        assert_eq!(agent_address("[fd00::2]:99"), "[fd00::2]:99");
    }
}
