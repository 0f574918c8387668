//! A gateway of Pingora's proxy service and nothing else. Its settings come from the environment, see
//! system.yaml.

use async_trait::async_trait;
use pingora::proxy::{ProxyHttp, Session, http_proxy_service};
use pingora::server::{Server, configuration::ServerConf};
use pingora::upstreams::peer::HttpPeer;
use pingora::{Error, Result, http::RequestHeader};
use std::time::Duration;

struct Gateway {
    origin: HttpPeer,
    forwarded: bool,
    retries: bool,
    scheme: &'static str,
}

#[async_trait]
impl ProxyHttp for Gateway {
    /// Whether a connection to the origin has failed before.
    type CTX = bool;

    fn new_ctx(&self) -> bool {
        false
    }

    async fn upstream_peer(&self, _session: &mut Session, _failed: &mut bool) -> Result<Box<HttpPeer>> {
        Ok(Box::new(self.origin.clone()))
    }

    fn fail_to_connect(
        &self,
        _session: &mut Session,
        _peer: &HttpPeer,
        failed: &mut bool,
        mut error: Box<Error>,
    ) -> Box<Error> {
        error.set_retry(self.retries && !*failed);
        *failed = true;
        error
    }

    async fn upstream_request_filter(
        &self,
        session: &mut Session,
        request: &mut RequestHeader,
        _failed: &mut bool,
    ) -> Result<()> {
        if !self.forwarded {
            return Ok(());
        }
        if let Some(client) = session.client_addr().and_then(|address| address.as_inet()) {
            request.insert_header("X-Forwarded-For", client.ip().to_string())?;
        }
        if let Some(host) = request.headers.get("Host").cloned() {
            request.insert_header("X-Forwarded-Host", host)?;
        }
        request.insert_header("X-Forwarded-Proto", self.scheme)
    }
}

fn text(name: &str) -> Result<String, String> {
    std::env::var(name).map_err(|_| format!("{name} is not set in the environment"))
}

fn number(name: &str) -> Result<usize, String> {
    text(name)?.parse().map_err(|_| format!("{name} must be a whole number"))
}

fn seconds(name: &str) -> Result<Option<Duration>, String> {
    Ok(Some(Duration::from_secs(number(name)? as u64)))
}

fn on(name: &str) -> bool {
    text(name).is_ok_and(|value| value == "on")
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let workers = number("WORKERS")?;
    let mut server = Server::new_with_opt_and_conf(
        None,
        ServerConf {
            threads: workers,
            // Each thread keeps this number of connections.
            upstream_keepalive_pool_size: number("KEEPALIVE")?.div_ceil(workers),
            // Otherwise it would wait for five minutes at SIGTERM.
            grace_period_seconds: Some(0),
            graceful_shutdown_timeout_seconds: Some(0),
            ..ServerConf::default()
        },
    );
    server.bootstrap();
    let mut origin = HttpPeer::new(text("ORIGIN")?, false, String::new());
    origin.options.connection_timeout = seconds("CONNECT_SECONDS")?;
    origin.options.read_timeout = seconds("RESPONSE_SECONDS")?;
    origin.options.idle_timeout = seconds("IDLE_SECONDS")?;
    let listen = text("LISTEN")?;
    let certificate = text("TLS_CERTIFICATE").ok();
    let scheme = if certificate.is_some() { "https" } else { "http" };
    let gateway = Gateway { origin, forwarded: on("FORWARDED"), retries: on("RETRIES"), scheme };
    let mut service = http_proxy_service(&server.configuration, gateway);
    match certificate {
        Some(certificate) => service.add_tls(&listen, &certificate, &text("TLS_KEY")?)?,
        None => service.add_tcp(&listen),
    }
    server.add_service(service);
    server.run_forever()
}
