//! Describes the machine, for the record of a result's origin.

use super::cores::CoreTimes;
use super::topology::allowed_cores;
use crate::cgroup::OwnLimits;
use rustix::process::{Resource, getrlimit};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::time::Duration;

/// The machine as this process sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// The CPU model that the kernel reports; without one, the architecture.
    pub cpu: String,
    /// The kernel's release.
    pub kernel: String,
    /// Main memory in KiB.
    pub memory_kib: u64,
    /// The cores on which this process may run.
    pub cores: Vec<usize>,
    /// How many cores it may use: the number of `cores`, or less under a CPU quota. A quota can make it a
    /// fraction.
    pub usable_cores: f64,
    /// The CPU quota in cores that was set on this process or a group around it from outside. Such a limit,
    /// unnoticed, has spoilt published comparisons.
    pub cpu_quota: Option<f64>,
    /// The memory limit on this process or a group around it, in KiB.
    pub memory_limit_kib: Option<u64>,
    /// The soft limit of open files of a process, which bounds its connections.
    pub file_limit: u64,
    /// Whether the kernel counts the time of interrupts apart from the tasks that they interrupt; `None` if
    /// its configuration cannot be read.
    pub irq_time_accounting: Option<bool>,
    /// The frequency governors of `cores`; empty if the kernel sets no frequency.
    pub governor: String,
    /// The hypervisor, by vendor and product where the machine names them; empty on bare metal.
    pub hypervisor: String,
    /// The mitigations of CPU vulnerabilities in force, each as "name: what".
    pub mitigations: Vec<String>,
}

impl Facts {
    /// Reads the facts. Facts that the kernel does not report stay empty or 0.
    pub fn read() -> Self {
        let cores = allowed_cores().unwrap_or_default();
        let limits = OwnLimits::read();
        let quota = limits.cpu_quota.as_ref().map(|quota| quota.cores);
        Self {
            cpu: cpu_name(&read("/proc/cpuinfo")),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            memory_kib: crate::process::number_after(&read("/proc/meminfo"), "MemTotal:").unwrap_or(0),
            usable_cores: quota.unwrap_or(f64::INFINITY).min(cores.len() as f64),
            governor: governor(&cores),
            hypervisor: hypervisor(&read("/proc/cpuinfo")),
            irq_time_accounting: kernel_config().map(|config| is_set(&config, "CONFIG_IRQ_TIME_ACCOUNTING")),
            mitigations: mitigations(),
            cores,
            cpu_quota: quota,
            memory_limit_kib: limits.memory_bytes.map(|bytes| bytes / 1024),
            file_limit: file_limit(),
        }
    }
}

/// Returns the kernel's configuration; `None` if neither the kernel nor the distribution publishes it.
fn kernel_config() -> Option<String> {
    let release = read("/proc/sys/kernel/osrelease");
    if let Ok(text) = fs::read_to_string(format!("/boot/config-{}", release.trim())) {
        return Some(text);
    }
    let mut text = String::new();
    let packed = fs::File::open("/proc/config.gz").ok()?;
    flate2::read::GzDecoder::new(packed).read_to_string(&mut text).ok()?;
    Some(text)
}

fn is_set(config: &str, option: &str) -> bool {
    config.lines().any(|line| line.strip_prefix(option) == Some("=y"))
}

fn governor(cores: &[usize]) -> String {
    let of = |core: &usize| read(&format!("/sys/devices/system/cpu/cpu{core}/cpufreq/scaling_governor"));
    let all: BTreeSet<String> = cores.iter().map(|core| of(core).trim().to_owned()).collect();
    all.into_iter().filter(|name| !name.is_empty()).collect::<Vec<_>>().join(", ")
}

fn hypervisor(info: &str) -> String {
    let flagged = info.lines().any(|line| {
        line.starts_with("flags") && line.split_ascii_whitespace().any(|flag| flag == "hypervisor")
    });
    let kind = read("/sys/hypervisor/type");
    if !flagged && kind.is_empty() {
        return String::new();
    }
    let dmi = |name: &str| read(&format!("/sys/class/dmi/id/{name}")).trim().to_owned();
    let names = [kind.trim().to_owned(), dmi("sys_vendor"), dmi("product_name")];
    let named: Vec<String> = names.into_iter().filter(|name| !name.is_empty()).collect();
    if named.is_empty() { "unnamed".to_owned() } else { named.join(" ") }
}

fn mitigations() -> Vec<String> {
    let files = fs::read_dir("/sys/devices/system/cpu/vulnerabilities").into_iter().flatten().flatten();
    let reported = files.filter_map(|file| {
        let text = read(file.path().to_str()?);
        let what = text.trim().strip_prefix("Mitigation: ")?;
        Some(format!("{}: {what}", file.file_name().to_string_lossy()))
    });
    let mut all: Vec<String> = reported.collect();
    all.sort();
    all
}

/// Returns how many cores are in use while this thread sleeps for `span`. Before a run starts anything, these
/// are the cores of other programs.
pub fn busy_cores(span: Duration) -> f64 {
    let before = CoreTimes::read();
    std::thread::sleep(span);
    CoreTimes::read().since(&before).iter().map(|share| share.busy()).sum()
}

/// Returns the load averages over 1, 5 and 15 minutes: how many threads wanted a CPU. 0 if the kernel does
/// not report them.
pub fn load_average() -> [f64; 3] {
    parse_load(&read("/proc/loadavg"))
}

fn parse_load(text: &str) -> [f64; 3] {
    let mut words = text.split_ascii_whitespace();
    [(); 3].map(|()| {
        words.next().and_then(|word| word.parse().ok()).filter(|load: &f64| load.is_finite()).unwrap_or(0.0)
    })
}

/// Returns this process's soft limit of open files; `u64::MAX` if there is none.
pub fn file_limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

fn cpu_name(info: &str) -> String {
    info.lines().find_map(|line| line.strip_prefix("model name")).map_or_else(
        || std::env::consts::ARCH.to_owned(),
        |rest| rest.trim_start_matches([':', '\t', ' ']).to_owned(),
    )
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_described() {
        let facts = Facts::read();
        assert!(!facts.cpu.is_empty() && facts.kernel.contains('.'), "{facts:?}");
        assert!(facts.memory_kib > 1_024 && facts.file_limit > 0, "{facts:?}");
        assert!(facts.usable_cores > 0.0 && facts.usable_cores <= facts.cores.len() as f64, "{facts:?}");
    }

    #[test]
    fn what_figures_depend_on_is_read_from_texts() {
        let config = "# CONFIG_IRQ_TIME_ACCOUNTING is not set\nCONFIG_HAVE_IRQ_TIME_ACCOUNTING=y\n";
        assert!(!is_set(config, "CONFIG_IRQ_TIME_ACCOUNTING"));
        assert!(is_set("CONFIG_IRQ_TIME_ACCOUNTING=y\n", "CONFIG_IRQ_TIME_ACCOUNTING"));
        assert!(!hypervisor("flags\t\t: fpu hypervisor avx\n").is_empty());
        let busy = busy_cores(Duration::from_millis(50));
        assert!((0.0..=4096.0).contains(&busy), "{busy}");
        assert!(mitigations().iter().all(|reported| reported.contains(": ")));
    }

    #[test]
    fn names_and_loads() {
        assert_eq!(cpu_name("processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\n"), "Some CPU @ 2 GHz");
        assert_eq!(cpu_name("nothing"), std::env::consts::ARCH);
        assert_eq!(parse_load("0.22 0.49 0.92 3/114 20486\n"), [0.22, 0.49, 0.92]);
        assert_eq!(parse_load("NaN"), [0.0; 3]);
    }
}
