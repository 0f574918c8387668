//! The arguments of the commands that talk to a running gateway.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use crate::admin_client::AdminOptions;
use crate::ingress_nginx::IngressNginxArgs;

/// The format of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// Readable text.
    Text,
    /// The response as JSON.
    Json,
    /// The response as YAML.
    Yaml,
}

/// The resources to show.
#[derive(Clone, Debug, Args)]
pub struct GetArgs {
    /// `routes`, `upstreams`, `consumers`, `certificates` or `policies`, or one of them: `routes/hello`.
    /// The singular is accepted too. Without it, a summary.
    #[arg(value_name = "KIND[/NAME]")]
    pub what: Option<String>,
    /// The name, if it is not written after the kind.
    pub name: Option<String>,
    /// Only resources that contain this text anywhere.
    #[arg(long, value_name = "TEXT")]
    pub search: Option<String>,
    /// Only resources from the file, or from the store.
    #[arg(long, value_parser = ["file", "store"])]
    pub source: Option<String>,
    /// The format. By default one resource is printed as YAML, and a list as a table.
    #[arg(short, long, value_name = "FORMAT")]
    pub output: Option<OutputFormat>,
    /// The gateway to ask.
    #[command(flatten)]
    pub remote: AdminOptions,
}

/// The resource to write.
#[derive(Clone, Debug, Args)]
pub struct SetArgs {
    /// The resource: `routes/hello`, `upstreams/shop`, `consumers/alice`.
    #[arg(value_name = "KIND/NAME")]
    pub what: String,
    /// The new value, in YAML or JSON, as in the configuration file but without the name.
    #[arg(required_unless_present = "file", conflicts_with = "file")]
    pub value: Option<String>,
    /// The file with the value; `-` is standard input.
    #[arg(short, long)]
    pub file: Option<PathBuf>,
    /// Merge it into the current value (RFC 7396): `null` removes a key.
    #[arg(long)]
    pub merge: bool,
    /// Conditions and output.
    #[command(flatten)]
    pub change: ResourceChangeArgs,
}

/// The resource to remove.
#[derive(Clone, Debug, Args)]
pub struct DeleteArgs {
    /// The resource: `routes/hello`.
    #[arg(value_name = "KIND/NAME")]
    pub what: String,
    /// Conditions and output.
    #[command(flatten)]
    pub change: ResourceChangeArgs,
}

/// The conditions and output of a change of one resource.
#[derive(Clone, Debug, Args)]
pub struct ResourceChangeArgs {
    /// Only if the current version is this one: `tollgate get KIND` lists versions.
    #[arg(long, value_name = "VERSION", conflicts_with = "if_new")]
    pub if_version: Option<u64>,
    /// Only if no resource has this name.
    #[arg(long)]
    pub if_new: bool,
    /// Dry run and output.
    #[command(flatten)]
    pub how: ChangeArgs,
}

/// The execution and output of a change.
#[derive(Clone, Debug, Args)]
pub struct ChangeArgs {
    /// Only report what would change.
    #[arg(long)]
    pub dry_run: bool,
    /// The format.
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub output: OutputFormat,
    /// The gateway to ask.
    #[command(flatten)]
    pub remote: AdminOptions,
}

/// The resources to export.
#[derive(Clone, Debug, Args)]
pub struct ExportArgs {
    /// Only resources from the store, not from the gateway's file.
    #[arg(long)]
    pub stored: bool,
    /// The format: `yaml` or `json`.
    #[arg(short, long, value_name = "FORMAT", default_value = "yaml")]
    pub output: OutputFormat,
    /// The gateway to ask.
    #[command(flatten)]
    pub remote: AdminOptions,
}

/// The resources to import.
#[derive(Clone, Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct ImportArgs {
    /// Another gateway's configuration, as a file.
    #[command(subcommand)]
    pub from: Option<ImportFrom>,
    /// A file with resources, as `export` writes it; `-` is standard input.
    #[arg(required = true)]
    pub file: Option<PathBuf>,
    /// Remove resources that are in the store but not in the file.
    #[arg(long)]
    pub prune: bool,
    /// Dry run and output.
    #[command(flatten)]
    pub how: ChangeArgs,
}

/// The other gateways whose configurations can be imported.
#[derive(Clone, Debug, Subcommand)]
pub enum ImportFrom {
    /// Print manifests of ingress-nginx as a configuration file, and what behaves differently.
    ///
    /// Reads Ingresses, and the Services, Endpoints, EndpointSlices, Secrets and ConfigMaps that they need. It asks
    /// no running gateway and no cluster.
    IngressNginx(IngressNginxArgs),
}

/// The state to compare with.
#[derive(Clone, Debug, Args)]
pub struct DiffArgs {
    /// A file with resources, as `export` writes it (`-` is standard input), or the number of a version.
    #[arg(value_name = "FILE|VERSION")]
    pub with: PathBuf,
    /// Also show, as removed, resources that are in the store but not in the file.
    #[arg(long)]
    pub prune: bool,
    /// The format.
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub output: OutputFormat,
    /// The gateway to ask.
    #[command(flatten)]
    pub remote: AdminOptions,
}

/// The versions to show.
#[derive(Clone, Debug, Args)]
pub struct HistoryArgs {
    /// A single version, with its changes.
    #[arg(id = "at", value_name = "VERSION")]
    pub version: Option<u64>,
    /// How many versions to show at most, the newest first.
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub limit: u32,
    /// Only versions before this one.
    #[arg(long, value_name = "VERSION")]
    pub before: Option<u64>,
    /// The format.
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub output: OutputFormat,
    /// The gateway to ask.
    #[command(flatten)]
    pub remote: AdminOptions,
}

/// The version to restore.
#[derive(Clone, Debug, Args)]
pub struct RollbackArgs {
    /// The version; 0 is the empty store.
    #[arg(id = "to", value_name = "VERSION")]
    pub version: u64,
    /// Dry run and output.
    #[command(flatten)]
    pub how: ChangeArgs,
}

/// The levels to set; without one, the command shows them.
#[derive(Clone, Debug, Args)]
pub struct LogArgs {
    /// The level of components without their own: `error`, `warn`, `info`, `debug` or `trace`.
    #[arg(long, value_name = "LEVEL")]
    pub level: Option<String>,
    /// The level of one component, such as `upstream=debug`; may be given more than once.
    #[arg(long = "component", value_name = "NAME=LEVEL")]
    pub components: Vec<String>,
    /// The format.
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub output: OutputFormat,
    /// The gateway to ask.
    #[command(flatten)]
    pub remote: AdminOptions,
}

/// The controller to run, or to ask.
#[derive(Clone, Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct ControllerArgs {
    /// What to ask a running controller.
    #[command(subcommand)]
    pub action: Option<ControllerCommand>,
    /// The configuration file, with the section `fleet`. Without it: the one that `run` would find.
    pub file: Option<PathBuf>,
}

/// A question to a running controller.
#[derive(Clone, Debug, Subcommand)]
pub enum ControllerCommand {
    /// Show the gateways of a running controller: the version that each serves, since when, and its last error.
    Status(ControllerStatusArgs),
}

/// The output of `controller status`.
#[derive(Clone, Debug, Args)]
pub struct ControllerStatusArgs {
    /// The format.
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub output: OutputFormat,
    /// The controller to ask.
    #[command(flatten)]
    pub remote: AdminOptions,
}

/// An operation on the stored responses.
#[derive(Clone, Debug, Subcommand)]
pub enum CacheCommand {
    /// Show how many responses are stored, and how many requests they have answered.
    Status(CacheStatusArgs),
    /// Remove stored responses, or mark them as stale.
    Purge(CachePurgeArgs),
}

/// The output of `cache status`.
#[derive(Clone, Debug, Args)]
pub struct CacheStatusArgs {
    /// The format.
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub output: OutputFormat,
    /// The gateway to ask.
    #[command(flatten)]
    pub remote: AdminOptions,
}

/// The responses to purge.
#[derive(Clone, Debug, Args)]
#[command(group(clap::ArgGroup::new("purged").args(["url", "prefix", "tag", "all"]).required(true)))]
pub struct CachePurgeArgs {
    /// The responses to this URL, such as `https://shop.example/products/7?x=y`.
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    /// The responses to all URLs that begin like this.
    #[arg(long, value_name = "URL")]
    pub prefix: Option<String>,
    /// The responses with this tag.
    #[arg(long, value_name = "TAG")]
    pub tag: Option<String>,
    /// All responses.
    #[arg(long)]
    pub all: bool,
    /// Mark them as stale instead of removing them: the next request validates them.
    #[arg(long)]
    pub soft: bool,
    /// The format.
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub output: OutputFormat,
    /// The gateway to ask.
    #[command(flatten)]
    pub remote: AdminOptions,
}

/// The destination of a backup.
#[derive(Clone, Debug, Args)]
pub struct BackupArgs {
    /// A file that does not exist yet, beside the store or in a directory of `admin.files`, on the gateway's machine.
    pub to: PathBuf,
    /// The gateway to ask.
    #[command(flatten)]
    pub remote: AdminOptions,
}

/// The output of `status`.
#[derive(Clone, Debug, Args)]
pub struct StatusArgs {
    /// The format.
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub output: OutputFormat,
    /// The gateway to ask.
    #[command(flatten)]
    pub remote: AdminOptions,
}

/// The output of `reload`.
#[derive(Clone, Debug, Args)]
pub struct ReloadArgs {
    /// The format.
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub output: OutputFormat,
    /// The gateway to ask.
    #[command(flatten)]
    pub remote: AdminOptions,
}

/// How to stop.
#[derive(Clone, Debug, Args)]
pub struct StopArgs {
    /// How long requests in flight may take, such as `5m`, in place of the file's `timeouts.drain`; `0` cuts
    /// them off.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub timeout: Option<Duration>,
    /// Return when the stop has begun.
    #[arg(long)]
    pub no_wait: bool,
    /// The gateway to ask.
    #[command(flatten)]
    pub remote: AdminOptions,
}

/// The output of `cost`.
#[derive(Clone, Debug, Args)]
pub struct CostArgs {
    /// The format.
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub output: OutputFormat,
    /// The gateway to ask.
    #[command(flatten)]
    pub remote: AdminOptions,
}

/// Parses a duration as the configuration writes it: `30s`, `5m`, `500ms`. A number alone means seconds.
fn duration(text: &str) -> Result<Duration, String> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let factor = match unit {
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3_600.0,
        _ => return Err("expected a duration such as `30s`, `5m` or `0`".to_owned()),
    };
    let seconds = number.parse::<f64>().map(|number| number * factor);
    seconds
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| "expected a duration such as `30s`, `5m` or `0`".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, milliseconds) in
            [("0", 0), ("30", 30_000), ("1.5s", 1_500), ("500ms", 500), ("5m", 300_000)]
        {
            assert_eq!(duration(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        assert!(["", "s", "5 m", "-1", "5x", "1e3"].iter().all(|text| duration(text).is_err()));
    }
}
