//! `tollgate demo`: starts two small services with the gateway in front of them, and prints commands to try.

mod config;
mod service;

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::ExitCode;
use std::time::SystemTime;
use std::{fs, io};

use tempfile::TempDir;
use tollgate_config::ListenAddress;
use tollgate_store::{DocumentChange, NewVersion, Store};

use crate::cli::DemoArgs;
use crate::control::{Upgradable, control};
use crate::gateway::Gateway;
use crate::listeners::InheritedSockets;
use crate::print::{print, print_error};
use crate::run::{Role, exit_code, start};

/// The file name of the configuration in the demo's directory.
const FILE: &str = "gateway.yaml";

/// Runs the demo until a signal stops it.
pub fn demo(args: &DemoArgs) -> ExitCode {
    let folder = match set_up(args) {
        Ok(folder) => folder,
        Err(message) => {
            print_error(format_args!("error: {message}"));
            return ExitCode::FAILURE;
        }
    };
    let file = folder.path().join(FILE);
    let Some(started) = start(&file, InheritedSockets::default(), None, Role::Gateway) else {
        return ExitCode::FAILURE;
    };
    // A failure to print is ignored: the gateway runs all the same.
    let _ = print(&what_to_try(&started.gateway, &file), ExitCode::SUCCESS);
    exit_code(control(started, Upgradable::No("the demo's services would end with this process")))
}

/// Starts the services, and writes the configuration and the store. Dropping the result deletes both.
fn set_up(args: &DemoArgs) -> Result<TempDir, String> {
    // Checked first, so that the message names the option and not the key of a file that the user has not
    // written.
    for (option, other, address) in
        [("--listen", "127.0.0.1:8081", args.listen), ("--admin", "127.0.0.1:9902", args.admin)]
    {
        if let Err(error) = TcpListener::bind(address) {
            return Err(match error.kind() {
                io::ErrorKind::AddrInUse => {
                    format!(
                        "{address} is in use: choose another address, `tollgate demo {option} {other}` for example"
                    )
                }
                _ => format!("cannot listen on {address}: {error}; choose another address with {option}"),
            });
        }
    }
    let services =
        service::start(["one", "two"]).map_err(|error| format!("cannot start the services: {error}"))?;
    let folder = write(args, services).map_err(|error| format!("cannot write the configuration: {error}"))?;
    create_store(&folder.path().join(config::STORE))
        .map_err(|error| format!("cannot make the store: {error}"))?;
    Ok(folder)
}

fn write(args: &DemoArgs, services: [SocketAddr; 2]) -> io::Result<TempDir> {
    let folder = tempfile::Builder::new().prefix("tollgate-demo-").tempdir()?;
    let text = config::text(args, services, &folder.path().join(config::ACCESS_LOG));
    fs::write(folder.path().join(FILE), text)?;
    Ok(folder)
}

/// Creates a store with one route.
fn create_store(path: &Path) -> Result<(), tollgate_store::Error> {
    let (name, value) = config::stored();
    let change = DocumentChange {
        kind: "routes".to_owned(),
        name: name.to_owned(),
        before: None,
        after: Some(value.to_string()),
    };
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let version = NewVersion {
        at: u64::try_from(now.as_millis()).unwrap_or_default(),
        who: "demo".to_owned(),
        what: format!("put routes/{name}"),
        changes: vec![change],
    };
    Store::open(path, 1)?.commit(&[version]).map(drop)
}

/// Returns text with commands that can be copied to another terminal.
fn what_to_try(gateway: &Gateway, file: &Path) -> String {
    let missing = || SocketAddr::from(([127, 0, 0, 1], 0));
    let listen = gateway.listeners.addresses().find_map(ListenAddress::tcp).unwrap_or_else(missing);
    let admin = gateway.admin.address().unwrap_or_else(missing);
    // The name by which this program was called, since `tollgate` may not be on PATH.
    let program = std::env::args().next().unwrap_or_else(|| "tollgate".to_owned());
    let access_log = file.with_file_name(config::ACCESS_LOG);
    let (file, access_log) = (file.display(), access_log.display());
    let tries = [
        (format!("curl -i http://{listen}/"), "a page of service `one`"),
        (
            format!("curl http://{listen}/api/hello"),
            "three of four answers from `one`, the others from `two`",
        ),
        (format!("curl -H 'X-Beta: yes' http://{listen}/api/hello"), "always `two`"),
        (format!("curl 'http://{listen}/echo/some/path?x=1'"), "the request as the service got it"),
        (format!("curl -i http://{listen}/old/page"), "a redirect"),
        (format!("curl -i http://{listen}/status"), "an answer of the gateway itself"),
        (format!("curl -i http://{listen}/nowhere"), "no route"),
        (format!("{program} top --admin {admin}"), "live figures"),
        (format!("curl http://{admin}/metrics"), "counters and histograms"),
        (format!("{program} cost --admin {admin}"), "CPU time per request, and remaining headroom"),
    ];
    let width = tries.iter().map(|(command, _)| command.len()).max().unwrap_or_default();
    let tries: String =
        tries.iter().map(|(command, shows)| format!("  {command:width$}  {shows}\n")).collect();
    format!(
        "
The dashboard is http://{admin}/: open it in a browser, and send requests. There are some with

  while sleep 0.02; do curl -s http://{listen}/api/hello; done

Change the share of `two` there (Routes, api), add a route, break one, and go back (Changes).

Try in another terminal, or open http://{listen}/ in a browser:

{tries}
  {program} explain {file} GET http://{listen}/echo/some/path

The access log is {access_log}: `tail -f` shows it.
The configuration is {file}, and a store beside it. Change it, and then

  {program} reload --admin {admin}

reads it again while requests go on. Ctrl-C ends the demo.

"
    )
}
