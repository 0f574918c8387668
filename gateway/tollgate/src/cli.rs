//! The command line: commands, arguments and help texts. The doc comments of this file are the texts that
//! `--help` prints.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

use crate::admin_client::AdminOptions;
use crate::build_info;
use crate::remote;

/// An API gateway that takes the lowest toll on each request, and can prove it.
#[derive(Debug, Parser)]
#[command(
    name = "tollgate",
    version = build_info::short_version(),
    long_version = build_info::long_version(),
    propagate_version = true,
    arg_required_else_help = true,
    after_help = "`tollgate demo` starts an example. `tollgate help COMMAND` describes a command in detail.",
    after_long_help = TOP
)]
pub struct Cli {
    /// The command to run.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the gateway with a configuration file.
    ///
    /// Runs in the foreground and reports start and stop on standard error. If the access log goes to
    /// `stdout`, standard output carries nothing else.
    #[command(after_long_help = RUN)]
    Run {
        /// The configuration file (YAML or JSON). Without it: the one that `TOLLGATE_CONFIG` names, else
        /// `./tollgate.yaml`, else `/etc/tollgate/tollgate.yaml`.
        file: Option<PathBuf>,
    },
    /// Check configuration files: report every problem at once, each with its position.
    ///
    /// Reports what `run` would report, and opens no socket. Also gives hints, which `run` does not repeat.
    #[command(after_long_help = CHECK)]
    Check {
        /// The configuration files; `-` is standard input. Without one, the file that `run` would find.
        #[arg(value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Explain which route takes a request and why the others do not, what is changed, and where it would go.
    ///
    /// The request goes through the same code as in a running gateway. No socket is opened.
    #[command(after_long_help = EXPLAIN)]
    Explain(ExplainArgs),
    /// Start two small services with the gateway in front of them, and print commands to try.
    ///
    /// Everything listens on this machine only, and is removed when the demo ends.
    #[command(after_long_help = DEMO)]
    Demo(DemoArgs),
    /// Print what the configuration stores in place of a key or password.
    ///
    /// Reads the key or password from standard input, or asks for it on a terminal. It is not an argument,
    /// since other users of the machine could see it there. Standard output gets exactly the text to paste.
    #[command(after_long_help = HASH)]
    Hash(HashArgs),
    /// Show the state of a running gateway: version, configuration, listeners, endpoints, last reload.
    #[command(after_long_help = STATUS)]
    Status(remote::StatusArgs),
    /// Make a running gateway read its file again, and show what changed or why it was rejected.
    ///
    /// Waits until every worker runs the new configuration. SIGHUP does the same, but reports only to the log.
    #[command(after_long_help = RELOAD)]
    Reload(remote::ReloadArgs),
    /// Stop a running gateway after the requests in flight, and wait until it has ended.
    ///
    /// Does what SIGTERM does. If a service manager would start the gateway again, stop it there instead.
    #[command(after_long_help = STOP)]
    Stop(remote::StopArgs),
    /// Show what a request costs a running gateway at this moment, and how many more it can carry.
    #[command(after_long_help = COST)]
    Cost(remote::CostArgs),
    /// Show live figures of a running gateway: requests, errors, latency, toll, routes, endpoints.
    ///
    /// Asks the admin listener once a second. `q` quits, `?` lists the keys. If the output is not a terminal,
    /// it prints one page and ends.
    #[command(after_long_help = TOP_LIVE)]
    Top(TopArgs),
    /// Follow requests of a running gateway: show for each, step by step, how it was handled.
    ///
    /// Asks the admin listener, with a token of the role `write` if it requires one. Shows requests that end
    /// from now on: connection, route and why it was chosen, policies and verdicts, attempts, what was sent
    /// and received, and how it ended, with times. Values of credentials are never shown. Ctrl-C ends.
    #[command(after_long_help = TRACE)]
    Trace(TraceArgs),
    /// Show the resources of a running gateway: routes, upstreams, consumers, certificates, policy sets, or
    /// one of them.
    #[command(after_long_help = GET)]
    Get(remote::GetArgs),
    /// Write a resource of a running gateway, such as a route. It is durable and in force when this returns.
    #[command(after_long_help = SET)]
    Set(remote::SetArgs),
    /// Remove a resource of a running gateway, such as a route.
    #[command(after_long_help = DELETE)]
    Delete(remote::DeleteArgs),
    /// Show what a file, or a version, would change in a running gateway.
    #[command(after_long_help = DIFF)]
    Diff(remote::DiffArgs),
    /// Show who changed what in a running gateway, and when.
    #[command(after_long_help = HISTORY)]
    History(remote::HistoryArgs),
    /// Restore the store of a running gateway to the state of a version.
    #[command(after_long_help = ROLLBACK)]
    Rollback(remote::RollbackArgs),
    /// Print the resources of a running gateway in the form of a file.
    #[command(after_long_help = EXPORT)]
    Export(remote::ExportArgs),
    /// Write the resources of a file to a running gateway: all of them, or none. Or import another gateway's
    /// configuration.
    #[command(after_long_help = IMPORT)]
    Import(remote::ImportArgs),
    /// Copy the store of a running gateway, on the gateway's machine.
    #[command(after_long_help = BACKUP)]
    Backup(remote::BackupArgs),
    /// Show or change the levels of a running gateway's own log, until its file is loaded again.
    #[command(after_long_help = LOG)]
    Log(remote::LogArgs),
    /// Show or purge the stored responses of a running gateway.
    #[command(after_long_help = CACHE)]
    Cache {
        /// What to do.
        #[command(subcommand)]
        action: remote::CacheCommand,
    },
    /// Measure the toll of this and other gateways, side by side.
    ///
    /// The laboratory is a separate program, `tollgate-lab`, which is looked up next to this one and on PATH.
    /// `tollgate bench --help` lists its commands, also if it is not installed.
    #[command(disable_help_flag = true, disable_version_flag = true, after_long_help = BENCH)]
    Bench {
        /// Arguments for the laboratory, passed on unchanged.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
        arguments: Vec<OsString>,
    },
    /// Print the JSON Schema of the configuration, with which editors complete and check it.
    #[command(after_long_help = SCHEMA)]
    Schema,
    /// Print every key of the configuration with its meaning, values and default, as Markdown.
    Reference,
    /// Print a shell's completion script.
    #[command(after_long_help = COMPLETIONS)]
    Completions {
        /// The name of the shell.
        shell: Shell,
    },
    /// Print the manual page of tollgate, or of one of its commands.
    #[command(after_long_help = MAN)]
    Man {
        /// The command; without it, the page of tollgate itself.
        command: Option<String>,
        /// Write all pages into this directory instead, which must exist.
        #[arg(long, value_name = "DIRECTORY", conflicts_with = "command")]
        all: Option<PathBuf>,
    },
}

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

const TOP: &str = "\
Examples:
  tollgate demo                                a gateway with two services to play with
  tollgate check tollgate.yaml                 is the file valid?
  tollgate explain tollgate.yaml GET /v1/x     where would this request go, and why?
  tollgate run tollgate.yaml                   serve
  tollgate status                              is it running, and with which configuration?
  tollgate bench run quick                     what does it cost, compared with nginx and HAProxy?

The smallest useful file:
  listen: 127.0.0.1:8080
  routes:
    - match: api.example.com/v1/*
      to: [10.0.0.1:8080, 10.0.0.2:8080]";

const BENCH: &str = "\
Examples:
  tollgate bench run quick                   three cells next to nginx and HAProxy, under 3 minutes
  tollgate bench systems                     which gateways are installed, and how to get the others
  tollgate bench run toll --html toll.html   the full comparison, as one page";

const RUN: &str = "\
Signals:
  SIGHUP           Read the file again. If it has an error, the present configuration stays.
                   `tollgate reload` does the same and reports the result.
  SIGUSR1          Reopen the access log after a rotation.
  SIGUSR2          Start the program again and let it take over without a refused connection. If it
                   fails to start, nothing changes.
  SIGTERM, SIGINT  Wait for `timeouts.drain_delay`, stop accepting, finish requests in flight for at
                   most `timeouts.drain`, exit. A second one stops at once.

Environment:
  TOLLGATE_CONFIG  the configuration file, if none is named

Exit status:
  0  stopped by a signal, or by `tollgate stop`
  1  it could not start, or a worker failed
  2  the command line is invalid, or there is no configuration file

Examples:
  tollgate run
  tollgate run /etc/tollgate/tollgate.yaml";

const HASH: &str = "\
Which hash goes where:
  consumers: {alice: {api_keys: \"sha256:...\"}}           tollgate hash
  admin: {tokens: {ops: {token: \"sha256:...\"}}}          tollgate hash
  consumers: {alice: {password: \"$argon2id$...\"}}        tollgate hash --argon2

Exit status:
  0  the hash was printed
  1  there is no key or password, or it cannot be hashed

Examples:
  tollgate hash                                   asks for a key, without showing it
  tollgate hash --generate                        makes a key
  tollgate hash --argon2 < password.txt           a newline at the end is not part of the password";

const STATUS: &str = "\
Exit status:
  0  the gateway answers
  1  it does not

Examples:
  tollgate status
  tollgate status --output json | jq .config.generation
  tollgate status --admin 10.0.0.7:9911";

const RELOAD: &str = "\
Needs a token of the role `write`, if the admin listener requires one.

Exit status:
  0  the file is in force on every worker
  1  it was rejected, and nothing changed; or the gateway does not answer

Examples:
  tollgate check && tollgate reload
  tollgate reload --output json | jq .generation";

const STOP: &str = "\
Needs a token of the role `admin`, if the admin listener requires one.

Exit status:
  0  the gateway has ended; with `--no-wait`: it is about to end
  1  it refused, or does not answer

Examples:
  tollgate stop
  tollgate stop --timeout 5m
  tollgate stop --no-wait";

const COST: &str = "\
Exit status:
  0  the figures were shown
  1  the gateway does not answer

Examples:
  tollgate cost
  tollgate cost --output json | jq '.windows[0].headroom_requests_per_second'";

const CHECK: &str = "\
Exit status:
  0  every file is valid; there may be warnings
  1  a file has an error
  2  the command line is invalid, or there is no configuration file

Examples:
  tollgate check
  tollgate check tollgate.yaml
  tollgate check sites/*.yaml
  render-config | tollgate check -";

const EXPLAIN: &str = "\
Exit status:
  0  a route takes the request, or a stream the connection
  1  none does, or the request is rejected
  2  the command line or the file has an error

Examples:
  tollgate explain GET '/v1/users?page=2'
  tollgate explain tollgate.yaml GET http://shop.example.com/ -H 'X-Canary: always'
  tollgate explain tollgate.yaml POST api.example.com/v1/orders --json
  tollgate explain tollgate.yaml GET /v1/users -H 'X-Forwarded-For: 203.0.113.7' --from 10.0.0.1
  tollgate explain tollgate.yaml --listener db --sni db.example.com";

const TOP_LIVE: &str = "\
Environment:
  TOLLGATE_TOKEN    sent as a bearer token, if the admin listener requires one
  TOLLGATE_ADMIN    the address, if no option sets it; used by every command that contacts a gateway

Exit status:
  0  the figures were shown
  1  the gateway does not answer

Examples:
  tollgate top
  tollgate top --admin 10.0.0.7:9911
  tollgate top --once | head -20";

const TRACE: &str = "\
Environment:
  TOLLGATE_TOKEN    sent as a bearer token, if the admin listener requires one
  TOLLGATE_ADMIN    the address, if no option sets it; used by every command that contacts a gateway

Exit status:
  0  the limit was reached
  1  the gateway does not answer, refuses, or has stopped

Examples:
  tollgate trace --limit 1
  tollgate trace --host api.example.com --path '/v1/*' --status 5xx
  tollgate trace --client 10.0.0.0/8 --reason rate_limited
  tollgate trace --stream mail
  tollgate trace --json | jq -r '.target + \" \" + (.total_ms | tostring)'";

const GET: &str = "\
Exit status:
  0  the resources were shown
  1  the resource does not exist, or the gateway does not answer

Examples:
  tollgate get routes
  tollgate get routes --search shop --output json
  tollgate get routes/hello > hello.yaml
  tollgate get";

const SET: &str = "\
Exit status:
  0  the change is durable, and in force on every worker
  1  the change was rejected, and nothing changed; or the gateway does not answer

Examples:
  tollgate set routes/hello '{match: /hello, respond: hello}'
  tollgate set upstreams/shop --file shop.yaml
  tollgate set upstreams/shop --merge '{balance: least_requests}' --dry-run
  tollgate set routes/hello --if-version 3 '{match: /hello, respond: good day}'";

const DELETE: &str = "\
Exit status:
  0  the removal is durable, and in force on every worker
  1  the change was rejected, and nothing changed; or the gateway does not answer

Examples:
  tollgate delete routes/hello
  tollgate delete upstreams/shop --dry-run";

const DIFF: &str = "\
Exit status:
  0  nothing would change
  1  something would change
  2  the file would be rejected, or the gateway does not answer

Examples:
  tollgate diff routes.yaml
  tollgate diff routes.yaml --prune
  tollgate diff 12                     what a rollback to version 12 would change";

const HISTORY: &str = "\
Examples:
  tollgate history
  tollgate history --limit 100 --before 200
  tollgate history 12                  what version 12 changed";

const ROLLBACK: &str = "\
A rollback is itself a version, so it can be reverted.

Exit status:
  0  the change is durable, and in force on every worker
  1  the change was rejected, and nothing changed; or the gateway does not answer

Examples:
  tollgate rollback 12 --dry-run
  tollgate rollback 12";

const EXPORT: &str = "\
Secrets are not exported: `(secret)` replaces them, and `import` into the same gateway leaves them
unchanged.

Examples:
  tollgate export > all.yaml
  tollgate export --stored | tollgate import - --admin 10.0.0.7:9911";

const IMPORT: &str = "\
Exit status:
  0  all changes are durable, and in force on every worker
  1  the change was rejected, and nothing changed; or the gateway does not answer

Examples:
  tollgate import routes.yaml
  tollgate import routes.yaml --prune --dry-run
  render-routes | tollgate import -
  kubectl get -A ingress,service,endpointslice,secret,configmap -o yaml |
    tollgate import ingress-nginx - > tollgate.yaml";

const BACKUP: &str = "\
A copy is a store: to restore it, stop the gateway, replace the store by the copy, and start the
gateway.
The copy is a new file in the directory of the store, or in a directory of `admin.files`.

Examples:
  tollgate backup /var/lib/tollgate/store.backup";

const LOG: &str = "\
Components:
  admin, discovery, etcd, gateway, health, kubernetes, listener, overload, policy, reload, tls,
  upgrade, upstream

Exit status:
  0  the levels were shown, or are in force
  1  the change was rejected, and nothing changed; or the gateway does not answer

Examples:
  tollgate log
  tollgate log --component upstream=debug --component tls=debug
  tollgate log --level warn";

const CACHE: &str = "\
Exit status:
  0  the state was shown, or the responses are purged
  1  the purge was rejected, or the gateway does not answer

Examples:
  tollgate cache status
  tollgate cache purge --url https://shop.example/products/7
  tollgate cache purge --prefix https://shop.example/images/
  tollgate cache purge --tag product-7 --soft
  tollgate cache purge --all";

const DEMO: &str = "\
Examples:
  tollgate demo
  tollgate demo --listen 127.0.0.1:8081 --admin 127.0.0.1:9902
  tollgate demo --listen 127.0.0.1:0 --admin 127.0.0.1:0";

const SCHEMA: &str = "\
Example, for an editor with the YAML language server:
  tollgate schema > tollgate.schema.json
  and as the first line of the configuration:
  # yaml-language-server: $schema=tollgate.schema.json";

const COMPLETIONS: &str = "\
Examples:
  tollgate completions bash > /etc/bash_completion.d/tollgate
  tollgate completions zsh > \"${fpath[1]}/_tollgate\"
  tollgate completions fish > ~/.config/fish/completions/tollgate.fish";

const MAN: &str = "\
Examples:
  tollgate man | man -l -
  tollgate man explain > tollgate-explain.1
  tollgate man --all /usr/local/share/man/man1";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        <Cli as clap::CommandFactory>::command().debug_assert();
    }
}
