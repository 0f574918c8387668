//! Measures the generator against its bars: at least wrk's requests per second on one core, at most 0.93 of wrk's
//! CPU time per request, with HTTP/2 at most h2load's, and constant rates within 0.5 %.
//!
//! nginx serves two bytes on core 0; the generators take turns on core 1, in alternating order. The program
//! needs `nginx`, `wrk`, `h2load` and `taskset` on the path, two cores, and a quiet machine. Usage: `load-check
//! [ROUNDS [SECONDS]]`; the default is 9 rounds of 3 seconds. `load-check plan` runs the one plan that it reads as
//! JSON from standard input.

use std::env;
use std::error::Error;
use std::fs;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;
use tollgate_lab_load::{Length, Plan, Protocol, run};
use tollgate_lab_record::{LoadModel, LoadResult};

/// The cores of nginx and of the generators.
const SERVER_CORE: u32 = 0;
const LOAD_CORE: u32 = 1;

/// Connections of each run.
const CONNECTIONS: u32 = 64;

/// Connections and streams on each of them of a run with HTTP/2.
const HTTP2: (u32, u32) = (8, 32);

/// The highest allowed CPU time per request, over wrk's and over h2load's with HTTP/2.
const BARS: (f64, f64) = (0.93, 1.0);

/// The constant rates to test, in requests per second.
const RATES: [f64; 4] = [100.0, 1_000.0, 10_000.0, 50_000.0];

/// Clock ticks of `/proc` in a second: Linux's `USER_HZ`, 100 on x86 and Arm.
const TICKS: f64 = 100.0;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let mut out = io::stdout().lock();
    if arguments.first().is_some_and(|word| word == "plan") {
        let plan: Plan = serde_json::from_reader(io::stdin())?;
        serde_json::to_writer(&mut out, &run(&plan)?)?;
        return Ok(writeln!(out)?);
    }
    let rounds: usize = arguments.first().map_or(Ok(9), |text| text.parse())?;
    let seconds: u32 = arguments.get(1).map_or(Ok(3), |text| text.parse())?;
    let server = Nginx::start()?;
    let over_http1 =
        pairs(&mut out, rounds, "wrk", || wrk(&server, seconds), || ours(&plan(&server, seconds)))?;
    let http2 = Plan {
        protocol: Protocol::Http2,
        connections: HTTP2.0,
        streams: HTTP2.1,
        ..plan_to(server.http2, seconds)
    };
    let over_http2 = pairs(&mut out, rounds, "h2load", || h2load(&server, seconds), || ours(&http2))?;
    for (ratio, tool, bar) in [(&over_http1, "wrk", BARS.0), (&over_http2, "h2load", BARS.1)] {
        writeln!(
            out,
            "built-in / {tool}, median of {rounds} pairs: requests a second {:.3}, CPU a request {:.3} (bar: at most \
             {bar})",
            ratio.rps, ratio.cpu_us
        )?;
    }
    let mut kept = true;
    for rate in RATES {
        let plan = Plan { model: LoadModel::Constant { rps: rate }, ..plan(&server, seconds) };
        let result = ran(&plan)?;
        let off = result.rps() / rate - 1.0;
        let lag = result.send_lag.as_ref().and_then(|lag| lag.percentile(99.0)).unwrap_or(f64::NAN);
        writeln!(out, "constant {rate}/s: {:+.3} % (bar: 0.5 %), send lag p99 {lag:.1} us", off * 100.0)?;
        kept &= off.abs() <= 0.005 && result.failures.total() == 0;
    }
    if over_http1.rps < 1.0 || over_http1.cpu_us > BARS.0 || over_http2.cpu_us > BARS.1 || !kept {
        return Err("a bar was missed".into());
    }
    Ok(())
}

/// Runs a tool and the built-in generator in turns. Returns the median of the ratios within the rounds.
fn pairs(
    out: &mut impl Write,
    rounds: usize,
    name: &str,
    tool: impl Fn() -> Outcome<Ran>,
    own: impl Fn() -> Outcome<Ran>,
) -> Outcome<Ran> {
    let (mut rps, mut cpu) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let mut sides = [None, None];
        for turn in [round % 2, (round + 1) % 2] {
            sides[turn] = Some(if turn == 0 { tool()? } else { own()? });
        }
        let [Some(tool), Some(own)] = sides else { continue };
        writeln!(
            out,
            "round {}: {name} {:.0}/s {:.3} us, built-in {:.0}/s {:.3} us",
            round + 1,
            tool.rps,
            tool.cpu_us,
            own.rps,
            own.cpu_us
        )?;
        rps.push(own.rps / tool.rps);
        cpu.push(own.cpu_us / tool.cpu_us);
    }
    Ok(Ran { rps: median(&mut rps), cpu_us: median(&mut cpu) })
}

/// The result of a run.
struct Ran {
    rps: f64,
    /// The generator's CPU time for each request, in microseconds.
    cpu_us: f64,
}

fn plan(server: &Nginx, seconds: u32) -> Plan {
    Plan { connections: CONNECTIONS, ..plan_to(server.address, seconds) }
}

fn plan_to(address: SocketAddr, seconds: u32) -> Plan {
    let length = Length::Seconds(f64::from(seconds));
    Plan { cores: vec![LOAD_CORE], length, ..Plan::new(address) }
}

/// Runs a plan in a child process, so that its CPU time can be read separately.
fn ran(plan: &Plan) -> Outcome<LoadResult> {
    let mut child =
        Command::new(env::current_exe()?).arg("plan").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    if let Some(input) = child.stdin.take() {
        serde_json::to_writer(input, plan)?;
    }
    let output = child.wait_with_output()?;
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn ours(plan: &Plan) -> Outcome<Ran> {
    let before = children_cpu()?;
    let result = ran(plan)?;
    let cpu = children_cpu()? - before;
    if result.failures.total() > 0 {
        return Err(format!("requests failed: {:?}", result.failures).into());
    }
    Ok(Ran { rps: result.rps(), cpu_us: cpu * 1e6 / result.ok as f64 })
}

fn wrk(server: &Nginx, seconds: u32) -> Outcome<Ran> {
    let before = children_cpu()?;
    let output = Command::new("taskset")
        .args([
            "-c",
            &LOAD_CORE.to_string(),
            "wrk",
            "-t1",
            &format!("-c{CONNECTIONS}"),
            &format!("-d{seconds}"),
        ])
        .arg(format!("http://{}/", server.address))
        .output()?;
    let cpu = children_cpu()? - before;
    let text = String::from_utf8(output.stdout)?;
    let number = |before: &str, after: &str| -> Option<f64> {
        text.lines()
            .find_map(|line| line.trim().strip_prefix(before)?.split(after).next()?.trim().parse().ok())
    };
    let rps = number("Requests/sec:", " requests").ok_or("wrk printed no Requests/sec")?;
    let count = number("", " requests in").ok_or("wrk printed no number of requests")?;
    Ok(Ran { rps, cpu_us: cpu * 1e6 / count })
}

fn h2load(server: &Nginx, seconds: u32) -> Outcome<Ran> {
    let before = children_cpu()?;
    let output = Command::new("taskset")
        .args(["-c", &LOAD_CORE.to_string(), "h2load", "-t1", &format!("-c{}", HTTP2.0)])
        .args([format!("-m{}", HTTP2.1), format!("-D{seconds}")])
        .arg(format!("http://{}/", server.http2))
        .output()?;
    let cpu = children_cpu()? - before;
    let text = String::from_utf8(output.stdout)?;
    // requests: 9 total, 9 started, 9 done, 9 succeeded, 0 failed, 0 errored, 0 timeout
    let line =
        text.lines().find_map(|line| line.strip_prefix("requests: ")).ok_or("h2load printed no requests")?;
    let count: f64 = line
        .split(", ")
        .find_map(|part| part.strip_suffix(" succeeded")?.parse().ok())
        .filter(|count| *count > 0.0)
        .ok_or("no request of h2load succeeded")?;
    Ok(Ran { rps: count / f64::from(seconds), cpu_us: cpu * 1e6 / count })
}

/// Returns the CPU time in seconds of all finished children: fields 16 and 17 of `stat` (proc(5)).
fn children_cpu() -> Outcome<f64> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let after_name = stat.rsplit_once(')').ok_or("/proc/self/stat has no name")?.1;
    let fields: Vec<&str> = after_name.split_ascii_whitespace().collect();
    let ticks: u64 = fields[13].parse::<u64>()? + fields[14].parse::<u64>()?;
    Ok(ticks as f64 / TICKS)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// nginx with one worker and one fixed response; stopped when dropped.
struct Nginx {
    process: Child,
    folder: PathBuf,
    address: SocketAddr,
    /// Its address for HTTP/2 in plain text.
    http2: SocketAddr,
}

impl Nginx {
    fn start() -> Outcome<Self> {
        let free = [TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?];
        let (address, http2) = (free[0].local_addr()?, free[1].local_addr()?);
        drop(free);
        let folder = env::temp_dir().join(format!("tollgate-load-check-{}", std::process::id()));
        fs::create_dir_all(&folder)?;
        let config = folder.join("nginx.conf");
        let text = format!(
            "worker_processes 1;\ndaemon off;\npid {0}/pid;\nerror_log {0}/log;\nevents {{ worker_connections 4096; }}\n\
             http {{ access_log off; keepalive_requests 1000000000;\n\
             server {{ listen {address}; listen {http2} http2; location / {{ return 200 \"ok\"; }} }} }}\n",
            folder.display()
        );
        fs::write(&config, text)?;
        let process = Command::new("taskset")
            .args(["-c", &SERVER_CORE.to_string(), "nginx", "-e"])
            .arg(folder.join("log"))
            .arg("-c")
            .arg(&config)
            .stderr(Stdio::null())
            .spawn()?;
        let server = Self { process, folder, address, http2 };
        for _ in 0..50 {
            if TcpStream::connect(address).is_ok() {
                return Ok(server);
            }
            thread::sleep(Duration::from_millis(100));
        }
        Err(format!("nginx did not listen on {address} within 5 s").into())
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // SIGTERM makes the master end its worker too.
        if let Some(pid) = i32::try_from(self.process.id()).ok().and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}
