//! The arguments of commands that run by themselves, and of `top` and `trace`. The doc comments are the texts that `--help`
//! prints.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use clap::Args;

use crate::admin_client::AdminOptions;

/// The secret to hash.
#[derive(Clone, Copy, Debug, Args)]
pub struct HashArgs {
    /// Print the SHA-256 of a key, for `api_keys` and for tokens of the admin API (the default).
    #[arg(long, group = "algorithm")]
    pub sha256: bool,
    /// Print an argon2id hash of a password, for `password` of a consumer.
    #[arg(long, group = "algorithm")]
    pub argon2: bool,
    /// Print a bcrypt hash of a password, for `password` of a consumer.
    #[arg(long, group = "algorithm")]
    pub bcrypt: bool,
    /// Make a random key instead of reading one. Standard error gets the key, standard output its hash.
    #[arg(long)]
    pub generate: bool,
}

/// The request to explain.
#[derive(Clone, Debug, Args)]
#[command(
    override_usage = "tollgate explain [OPTIONS] [FILE] <METHOD> <URL>\n       tollgate explain [FILE] --listener <NAME> [--sni <HOST>]"
)]
pub struct ExplainArgs {
    /// `[FILE] METHOD URL`: the configuration file (`-` is standard input; without it, the file that `run`
    /// would find), the method, in which case matters (RFC 9110, 9.1), and the URL: `/path?query`, `host/path`
    /// or `http://host:port/path`. Without a host, the first `listen` address is used.
    // One list: clap allows no optional argument before required ones. As names of single values, it would show all
    // three as required.
    #[arg(required_unless_present = "listener", num_args = 1..=3, value_name = "REQUEST")]
    pub words: Vec<OsString>,
    /// A header field of the request; may be given more than once. `Host` replaces the one from the URL.
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    pub headers: Vec<String>,
    /// The client's address, which decides whether it is a trusted proxy.
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    pub from: IpAddr,
    /// The name of the listener at which the request arrives. Without it, the port and the scheme of the URL decide.
    /// Without a method and a URL: explain which stream takes what arrives at this listener, and where it goes.
    #[arg(long, value_name = "NAME")]
    pub listener: Option<String>,
    /// The server name that the client of a stream asks for in its TLS handshake.
    #[arg(long, value_name = "HOST", requires = "listener")]
    pub sni: Option<String>,
    /// Show every route that does not win, not only the nearest.
    #[arg(long)]
    pub all: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// The gateway to watch.
#[derive(Clone, Debug, Args)]
pub struct TopArgs {
    /// The gateway to ask.
    #[command(flatten)]
    pub remote: AdminOptions,
    /// Print one page and end.
    #[arg(long)]
    pub once: bool,
}

/// The requests to follow. Every condition that is given must hold.
#[derive(Clone, Debug, Args)]
pub struct TraceArgs {
    /// The gateway to ask.
    #[command(flatten)]
    pub remote: AdminOptions,
    /// Only requests for this host, written as in the `match` of a route: `api.example.com`, `*.example.com`; and streams
    /// for this server name.
    #[arg(long, value_name = "HOST")]
    pub host: Option<String>,
    /// Only the stream of layer 4 with this name, or `*` for all streams.
    #[arg(long, value_name = "NAME")]
    pub stream: Option<String>,
    /// Only requests for this path, written as in the `match` of a route: `/v1/users`, `/v1/*`, `/users/{id}`.
    #[arg(long, value_name = "PATH")]
    pub path: Option<String>,
    /// Only requests of this client: an address, or a block such as `10.0.0.0/8`.
    #[arg(long, value_name = "ADDRESS")]
    pub client: Option<String>,
    /// Only requests that got this status: `404`, `5xx`, `400-499`, or several with commas; `0`: no response.
    #[arg(long, value_name = "STATUS")]
    pub status: Option<String>,
    /// Only requests that the gateway ended for this reason, spelled as in the access log.
    #[arg(long, value_name = "REASON")]
    pub reason: Option<String>,
    /// End after this number of requests and streams.
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    /// Print each request and each stream as one line of JSON.
    #[arg(long)]
    pub json: bool,
}

/// The addresses of the demo.
#[derive(Clone, Copy, Debug, Args)]
pub struct DemoArgs {
    /// The address of the gateway; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS:PORT", default_value_t = SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)))]
    pub listen: SocketAddr,
    /// The address of the admin listener; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS:PORT", default_value_t = SocketAddr::from((Ipv4Addr::LOCALHOST, 9911)))]
    pub admin: SocketAddr,
}
