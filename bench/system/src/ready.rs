//! Waits until a system is ready: until a request through it returns the right status and the right body from
//! the origin.

use crate::credentials::header_lines;
use crate::error::SystemError;
use crate::launch::Launch;
use crate::setting::TlsFiles;
use std::fmt;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig};

/// Bytes of a log that are read for a quotation, at most.
const TAIL_BYTES: u64 = 16 * 1024;

/// Lines of a log that are quoted, at most.
const TAIL_LINES: usize = 12;

/// The request of the readiness check, sent with the [credentials](crate::credentials) of a known client, and
/// the expected answer.
#[derive(Debug, Clone)]
pub struct Probe<'a> {
    /// The path, from `/`.
    pub path: &'a str,
    /// The Host header; `None` sends the address.
    pub host: Option<&'a str>,
    /// The body that a 200 must have.
    pub body: &'a [u8],
    /// The time limit for readiness.
    pub within: Duration,
    /// The certificate to trust; `None` means plain text.
    pub tls: Option<&'a TlsFiles>,
}

/// Sends requests until the right answer arrives, and returns the time that it took. `ended` returns how the
/// process ended, if it has.
///
/// # Errors
/// If the process ends or the time limit passes; the message has the last answer and the last lines of the
/// log.
pub fn wait(
    name: &str,
    launch: &Launch,
    probe: &Probe<'_>,
    mut ended: impl FnMut() -> Option<String>,
) -> Result<Duration, SystemError> {
    let agent = agent(probe).map_err(|error| SystemError::new(name, error))?;
    let scheme = if probe.tls.is_some() { "https" } else { "http" };
    let url = format!("{scheme}://{}{}", launch.target, probe.path);
    let log = launch.command.as_ref().map(|command| command.output.as_path());
    let started = Instant::now();
    loop {
        let seen = ask(&agent, &url, probe);
        if matches!(seen, Seen::Right) {
            return Ok(started.elapsed());
        }
        if let Some(how) = ended() {
            return Err(SystemError::new(name, format!("it ended during its start ({how}){}", tail(log))));
        }
        if started.elapsed() >= probe.within {
            let seconds = probe.within.as_secs_f64();
            let message =
                format!("no right answer from {url} within {seconds:.0} s; the last: {seen}{}", tail(log));
            return Err(SystemError::new(name, message));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The outcome of one request.
enum Seen {
    Right,
    Status(u16, String),
    Body(String),
    Nothing(String),
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Right => f.write_str("200 with the right body"),
            Self::Status(status, body) => write!(f, "status {status}, body {body:?}"),
            Self::Body(body) => write!(f, "200 with a wrong body {body:?}"),
            Self::Nothing(error) => f.write_str(error),
        }
    }
}

fn ask(agent: &ureq::Agent, url: &str, probe: &Probe<'_>) -> Seen {
    let mut request = agent.get(url).header("connection", "close");
    for (name, value) in header_lines() {
        request = request.header(name, value);
    }
    if let Some(host) = probe.host {
        request = request.header("host", host);
    }
    let mut answer = match request.call() {
        Ok(answer) => answer,
        Err(error) => return Seen::Nothing(error.to_string()),
    };
    let limit = probe.body.len() as u64 + 4_096;
    let body = match answer.body_mut().with_config().limit(limit).read_to_vec() {
        Ok(body) => body,
        Err(error) => return Seen::Nothing(error.to_string()),
    };
    let start = || String::from_utf8_lossy(&body).chars().take(80).collect();
    match answer.status().as_u16() {
        200 if body == probe.body => Seen::Right,
        200 => Seen::Body(start()),
        status => Seen::Status(status, start()),
    }
}

fn agent(probe: &Probe<'_>) -> Result<ureq::Agent, String> {
    let mut config = ureq::Agent::config_builder()
        .timeout_global(Some(Duration::from_secs(5)))
        .max_redirects(0)
        .http_status_as_error(false)
        .proxy(None)
        .max_idle_connections(0);
    if let Some(files) = probe.tls {
        let path = files.certificate.display();
        let pem = std::fs::read(&files.certificate).map_err(|error| format!("{path}: {error}"))?;
        let certificate = Certificate::from_pem(&pem).map_err(|error| format!("{path}: {error}"))?;
        let path = files.key.display();
        let pem = std::fs::read(&files.key).map_err(|error| format!("{path}: {error}"))?;
        let key = PrivateKey::from_pem(&pem).map_err(|error| format!("{path}: {error}"))?;
        // A server that asks for a client certificate gets the same one, which it trusts.
        let own = ClientCert::new_with_certs(std::slice::from_ref(&certificate), key);
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::new_with_certs(&[certificate]))
            .client_cert(Some(own))
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .build();
        config = config.tls_config(tls);
    }
    Ok(config.build().new_agent())
}

/// Returns the last lines of a log, each on its own line, or a remark if there are none.
fn tail(log: Option<&Path>) -> String {
    let Some(log) = log else { return String::new() };
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(log)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
        let mut bytes = Vec::new();
        file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    if lines.is_empty() {
        return "; it printed nothing".to_owned();
    }
    let last = &lines[lines.len().saturating_sub(TAIL_LINES)..];
    format!("; the last lines of {}:\n  {}", log.display(), last.join("\n  "))
}
