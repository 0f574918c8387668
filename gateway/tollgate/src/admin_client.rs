//! A client of the admin API, for commands that talk to a running gateway.

use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::Runtime;
use tokio_rustls::TlsConnector;
use tollgate_tls::{ClientOptions, Pem, TlsIdentity};

/// The time limit of a request that only reads, response included.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// The time limit of a change. When it is answered, it is durable and every worker runs it; it may hold
/// 100,000 routes.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(120);

/// The largest response body, in bytes.
const RESPONSE_MAX_BYTES: usize = 256 << 20;

/// The gateway to talk to, and the credentials.
#[derive(Clone, Debug, clap::Args)]
pub struct AdminOptions {
    /// The gateway's admin listener: `host:port`, `https://host:port` or `unix:/path`.
    #[arg(long, value_name = "ADDRESS", env = "TOLLGATE_ADMIN", default_value = "127.0.0.1:9911")]
    pub admin: String,
    /// The token to send, if the listener requires one. Other users of this machine can see it in the process
    /// list: prefer the environment variable.
    #[arg(long, value_name = "TOKEN", env = "TOLLGATE_TOKEN", hide_env_values = true)]
    pub token: Option<String>,
    /// A PEM file with the authorities to trust for `https://`, instead of the system's.
    #[arg(long, value_name = "FILE", env = "TOLLGATE_CA")]
    pub ca: Option<String>,
    /// A PEM file with the client certificate, and its key if `--key` is not given.
    #[arg(long, value_name = "FILE", env = "TOLLGATE_CERTIFICATE")]
    pub certificate: Option<String>,
    /// A PEM file with the key of the client certificate.
    #[arg(long, value_name = "FILE", env = "TOLLGATE_KEY", requires = "certificate")]
    pub key: Option<String>,
}

/// A client for one gateway. It opens a connection for each request.
#[derive(Debug)]
pub struct AdminClient {
    address: String,
    token: Option<String>,
    /// The TLS configuration and the server name; `None`: plain text.
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    runtime: Runtime,
}

/// A response.
#[derive(Debug)]
pub struct AdminResponse {
    pub status: StatusCode,
    pub body: Bytes,
}

/// The body and additional header fields of a request.
#[derive(Debug, Default)]
pub struct RequestContent {
    /// The body, sent as JSON; `None`: no body, or the one in `yaml`.
    pub body: Option<Value>,
    /// The body, sent as YAML. The gateway shows mistakes in this text.
    pub yaml: Option<String>,
    /// Additional header fields.
    pub headers: Vec<(HeaderName, String)>,
}

impl AdminClient {
    /// Makes a client. It connects only when a request is sent.
    ///
    /// # Errors
    /// A message if the address is malformed, a file cannot be used, or the runtime cannot be created.
    pub fn new(remote: &AdminOptions) -> Result<Self, String> {
        let address = remote.admin.as_str();
        let secure = address.starts_with("https://");
        let plain = address.strip_prefix("https://").or(address.strip_prefix("http://")).unwrap_or(address);
        let plain = plain.trim_end_matches('/');
        let has_port = plain.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let is_address = has_port || plain.starts_with("unix:");
        if !is_address || plain.contains(char::is_whitespace) || plain.contains("://") {
            return Err(format!(
                "`{address}` is not the address of an admin listener: write `127.0.0.1:9911`"
            ));
        }
        let tls = if secure { Some(tls(remote, plain)?) } else { None };
        let token = remote.token.clone().filter(|token| !token.is_empty());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        Ok(Self { address: plain.to_owned(), token, tls, runtime })
    }

    /// Returns the address without its scheme.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns the body of a `GET` of this path.
    ///
    /// # Errors
    /// A message that says what to do: the gateway does not answer, or the status is not 200.
    pub fn get(&self, path: &str) -> Result<Bytes, String> {
        let response = self.send(&Method::GET, path, &RequestContent::default())?;
        match response.status {
            StatusCode::OK => Ok(response.body),
            _ => Err(self.error_message(&response)),
        }
    }

    /// Returns whether a program listens on the address.
    pub fn is_listening(&self) -> bool {
        self.runtime.block_on(async {
            match self.address.strip_prefix("unix:") {
                Some(file) => UnixStream::connect(file).await.is_ok(),
                None => TcpStream::connect(&self.address).await.is_ok(),
            }
        })
    }

    /// Sends a request and returns the response, whatever its status.
    ///
    /// # Errors
    /// A message that says what to do, if the gateway does not answer.
    pub fn send(
        &self,
        method: &Method,
        path: &str,
        content: &RequestContent,
    ) -> Result<AdminResponse, String> {
        let timeout = if *method == Method::GET { READ_TIMEOUT } else { CHANGE_TIMEOUT };
        let whole = async { self.request(method, path, content).await?.collect().await };
        let response = async { tokio::time::timeout(timeout, whole).await };
        match self.runtime.block_on(response) {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(format!("{} does not answer: {error}", self.address)),
            Err(_) => Err(format!("{} does not answer within {timeout:?}", self.address)),
        }
    }

    /// Returns a readable message for a response without success.
    pub fn error_message(&self, response: &AdminResponse) -> String {
        let value: Value = serde_json::from_slice(&response.body).unwrap_or_default();
        let message = value["message"].as_str().unwrap_or_default();
        match response.status {
            StatusCode::UNAUTHORIZED if self.token.is_none() => {
                "the admin listener requires a token: set TOLLGATE_TOKEN".to_owned()
            }
            StatusCode::UNAUTHORIZED => {
                "the admin listener does not know this token: check TOLLGATE_TOKEN or `--token`".to_owned()
            }
            _ if !message.is_empty() => message.to_owned(),
            status => format!("{} answers {status}", self.address),
        }
    }

    /// Sends a `GET` of this path, calls `on_open` when the response begins, and passes each of its lines to
    /// `on_line`, without the end of the line, until the response ends or `on_line` breaks. Lines may come at
    /// any time; only the head has a time limit.
    ///
    /// # Errors
    /// A message that says what to do: the gateway does not answer, or the status is not 200.
    pub fn stream_lines(
        &self,
        path: &str,
        on_open: impl FnOnce(),
        on_line: impl FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), String> {
        self.runtime.block_on(async {
            let content = RequestContent::default();
            let head = tokio::time::timeout(READ_TIMEOUT, self.request(&Method::GET, path, &content)).await;
            let opened = match head {
                Ok(Ok(opened)) => opened,
                Ok(Err(error)) => return Err(format!("{} does not answer: {error}", self.address)),
                Err(_) => return Err(format!("{} does not answer within {READ_TIMEOUT:?}", self.address)),
            };
            if opened.response.status() != StatusCode::OK {
                let response = opened.collect().await;
                let response =
                    response.map_err(|error| format!("{} does not answer: {error}", self.address))?;
                return Err(self.error_message(&response));
            }
            on_open();
            let lost = |error| format!("{} has closed the connection: {error}", self.address);
            opened.lines(on_line).await.map_err(lost)
        })
    }

    async fn request(
        &self,
        method: &Method,
        path: &str,
        content: &RequestContent,
    ) -> Result<OpenedResponse, Box<dyn std::error::Error>> {
        let parts = (method, path, content);
        if let Some(file) = self.address.strip_prefix("unix:") {
            return self.exchange(UnixStream::connect(file).await?, parts, "localhost").await;
        }
        let stream = TcpStream::connect(&self.address).await?;
        match &self.tls {
            None => self.exchange(stream, parts, &self.address).await,
            Some((config, name)) => {
                let stream = TlsConnector::from(config.clone()).connect(name.clone(), stream).await?;
                self.exchange(stream, parts, &self.address).await
            }
        }
    }

    async fn exchange(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        (method, path, content): (&Method, &str, &RequestContent),
        host: &str,
    ) -> Result<OpenedResponse, Box<dyn std::error::Error>> {
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let mut request = Request::builder().method(method).uri(path);
        request = request.header(HOST, host).header(ACCEPT, "application/json");
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        for (name, value) in &content.headers {
            request = request.header(name, value);
        }
        let (media_type, body) = match (&content.yaml, &content.body) {
            (Some(text), _) => (Some("application/yaml"), text.clone()),
            (None, Some(value)) => (Some("application/json"), value.to_string()),
            (None, None) => (None, String::new()),
        };
        if let Some(media_type) = media_type {
            request = request.header(CONTENT_TYPE, media_type);
        }
        let response = sender.send_request(request.body(Full::new(Bytes::from(body)))?).await?;
        Ok(OpenedResponse { response, _sender: sender })
    }
}

/// A response whose head has arrived.
struct OpenedResponse {
    response: Response<Incoming>,
    /// Keeps the connection open.
    _sender: SendRequest<Full<Bytes>>,
}

impl OpenedResponse {
    /// Reads the whole body.
    async fn collect(self) -> Result<AdminResponse, Box<dyn std::error::Error>> {
        let status = self.response.status();
        let body = Limited::new(self.response.into_body(), RESPONSE_MAX_BYTES)
            .collect()
            .await
            .map_err(io::Error::other)?;
        Ok(AdminResponse { status, body: body.to_bytes() })
    }

    /// Passes each line of the body to `on_line`, until the body ends or `on_line` breaks.
    async fn lines(mut self, mut on_line: impl FnMut(&[u8]) -> ControlFlow<()>) -> Result<(), hyper::Error> {
        let mut pending = Vec::new();
        while let Some(frame) = self.response.frame().await {
            let Ok(data) = frame?.into_data() else { continue };
            pending.extend_from_slice(&data);
            let end = pending.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
            for line in pending[..end].split_inclusive(|byte| *byte == b'\n') {
                if on_line(line.strip_suffix(b"\n").unwrap_or(line)).is_break() {
                    return Ok(());
                }
            }
            pending.drain(..end);
        }
        Ok(())
    }
}

/// Returns the TLS configuration and the name of the server.
fn tls(remote: &AdminOptions, address: &str) -> Result<(Arc<ClientConfig>, ServerName<'static>), String> {
    let read = |path: &String| {
        let bytes = std::fs::read(path).map_err(|error| format!("cannot read {path}: {error}"))?;
        Ok::<_, String>(Pem::from(bytes.as_slice()))
    };
    let chain = remote.certificate.as_ref().map(read).transpose()?;
    let key = remote.key.as_ref().map(read).transpose()?;
    let identity = chain.map(|chain| TlsIdentity { key: key.unwrap_or_else(|| chain.clone()), chain });
    let authorities = remote.ca.as_ref().map(read).transpose()?;
    let files =
        ClientOptions { authorities, identity, alpn: vec![b"http/1.1".to_vec()], ..ClientOptions::default() };
    let client = tollgate_tls::TlsClientConfig::new(&files).map_err(|problems| {
        let messages: Vec<_> = problems.into_iter().map(|problem| problem.message).collect();
        format!("cannot use the certificates: {}", messages.join("; "))
    })?;
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let name = ServerName::try_from(host.to_owned()).map_err(|_| format!("`{host}` is not a host"))?;
    Ok((client.config(), name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let address = |text: &str| {
            let remote =
                AdminOptions { admin: text.to_owned(), token: None, ca: None, certificate: None, key: None };
            AdminClient::new(&remote).map(|client| client.address().to_owned())
        };
        assert_eq!(address("127.0.0.1:9911").as_deref(), Ok("127.0.0.1:9911"));
        assert_eq!(address("http://localhost:9911/").as_deref(), Ok("localhost:9911"));
        assert_eq!(address("unix:/run/tollgate.sock").as_deref(), Ok("unix:/run/tollgate.sock"));
        assert_eq!(address("https://gateway.example:9911/").as_deref(), Ok("gateway.example:9911"));
        assert!(address("").is_err() && address("a b:1").is_err() && address("ftp://x").is_err());
    }
}
