//! A client of the admin API, for commands that ask a running gateway.

use std::io;
use std::time::Duration;

use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, AUTHORIZATION, HOST};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::Runtime;

/// For a whole question and its answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Bytes of an answer.
const LIMIT: usize = 16 << 20;

/// Who asks, and whom.
#[derive(Debug)]
pub struct Client {
    address: String,
    token: Option<String>,
    runtime: Runtime,
}

impl Client {
    /// `address` is `host:port`, `http://host:port` or `unix:/path`; `token` is sent as a bearer token.
    ///
    /// # Errors
    /// A message, when the address is of no such form, or the kernel gives no poller.
    pub fn new(address: &str, token: Option<String>) -> Result<Self, String> {
        let plain = address.strip_prefix("http://").unwrap_or(address).trim_end_matches('/');
        if plain.starts_with("https://") || plain.is_empty() || plain.contains(char::is_whitespace) {
            return Err(format!(
                "`{address}` is not the address of an admin listener: write `127.0.0.1:9901`"
            ));
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        Ok(Self { address: plain.to_owned(), token, runtime })
    }

    /// The address, as it was understood.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// What a `GET` of this path brings.
    ///
    /// # Errors
    /// A message that says what to do: nobody answers, or another status than 200.
    pub fn get(&self, path: &str) -> Result<Bytes, String> {
        let asked = async { tokio::time::timeout(PATIENCE, self.ask(path)).await };
        let (status, body) = match self.runtime.block_on(asked) {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => return Err(format!("{} does not answer: {error}", self.address)),
            Err(_) => return Err(format!("{} does not answer within {PATIENCE:?}", self.address)),
        };
        match status {
            StatusCode::OK => Ok(body),
            StatusCode::UNAUTHORIZED => Err("a token is wanted: set TOLLGATE_TOKEN".to_owned()),
            status => {
                let value: Option<Value> = serde_json::from_slice(&body).ok();
                let message = value.as_ref().and_then(|value| value["message"].as_str()).unwrap_or_default();
                Err(format!("{} answers {status} {message}", self.address).trim_end().to_owned())
            }
        }
    }

    async fn ask(&self, path: &str) -> Result<(StatusCode, Bytes), Box<dyn std::error::Error>> {
        match self.address.strip_prefix("unix:") {
            Some(file) => self.exchange(UnixStream::connect(file).await?, path, "localhost").await,
            None => self.exchange(TcpStream::connect(&self.address).await?, path, &self.address).await,
        }
    }

    async fn exchange(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        path: &str,
        host: &str,
    ) -> Result<(StatusCode, Bytes), Box<dyn std::error::Error>> {
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let mut request = Request::get(path).header(HOST, host).header(ACCEPT, "application/json");
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let response = sender.send_request(request.body(Empty::<Bytes>::new())?).await?;
        let status = response.status();
        let body = Limited::new(response.into_body(), LIMIT).collect().await.map_err(io::Error::other)?;
        Ok((status, body.to_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let address = |text| Client::new(text, None).map(|client| client.address().to_owned());
        assert_eq!(address("127.0.0.1:9901").as_deref(), Ok("127.0.0.1:9901"));
        assert_eq!(address("http://localhost:9901/").as_deref(), Ok("localhost:9901"));
        assert_eq!(address("unix:/run/tollgate.sock").as_deref(), Ok("unix:/run/tollgate.sock"));
        assert!(address("").is_err() && address("a b:1").is_err() && address("https://x").is_err());
    }
}
