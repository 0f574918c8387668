//! The environment that all trials of a run share: cores, folders, the catalogue of systems and the locations
//! of load tools.

use crate::failure::Failure;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::cell::{Cell, OnceCell};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tollgate_lab_meter::Scratch;
use tollgate_lab_meter::machine::{CorePair, Facts, busy_cores, load_average};
use tollgate_lab_record::Host;
use tollgate_lab_system::{Catalogue, TlsFiles};
use tollgate_lab_tools::Places;

/// How long the run watches the machine before it starts anything.
const LOOK_AT_START: Duration = Duration::from_millis(300);

/// Cores in use by other programs from which a machine counts as busy.
const BUSY: f64 = 0.2;

/// The environment of a run.
#[derive(Debug)]
pub struct Ground {
    /// The laboratory's own program, which also runs as generator, origin and relay.
    pub exe: PathBuf,
    /// The systems under test.
    pub catalogue: Catalogue,
    /// Locations of the load tools.
    pub places: Places,
    /// The core of the system under test, and the core of everything else.
    pub cores: CorePair,
    /// Facts about this machine.
    pub facts: Facts,
    /// Cores that other programs used before this run started anything.
    pub busy: f64,
    /// The load average over one minute at that time.
    pub load: f64,
    scratch: Scratch,
    certificate: OnceCell<TlsFiles>,
    arrivals: Cell<u64>,
    folders: Cell<u32>,
}

impl Ground {
    /// Prepares the environment and moves this process off the core of the system under test.
    ///
    /// # Errors
    /// If the machine has fewer than two usable cores, or no folder can be created.
    pub fn prepare(exe: PathBuf, catalogue: Catalogue, places: Places) -> Result<Self, Failure> {
        // The result is ignored: if the limit stays low, plans shrink the cells with many connections.
        let _ = tollgate_lab_load::raise_limit();
        let facts = Facts::read();
        let (busy, load) = (busy_cores(LOOK_AT_START), load_average()[0]);
        let cores = CorePair::choose()?;
        let mut set = CpuSet::new();
        set.set(cores.load);
        sched_setaffinity(None, &set)
            .map_err(|error| Failure::of("moving to the generator's core", error))?;
        let scratch = Scratch::create("run")?;
        Ok(Self {
            exe,
            catalogue,
            places,
            cores,
            facts,
            busy,
            load,
            scratch,
            certificate: OnceCell::new(),
            arrivals: Cell::new(0),
            folders: Cell::new(0),
        })
    }

    /// Creates a new folder for a server or a generator.
    ///
    /// # Errors
    /// If the file system refuses.
    pub fn folder(&self, purpose: &str) -> Result<PathBuf, Failure> {
        let number = self.folders.get() + 1;
        self.folders.set(number);
        let folder = self.scratch.path().join(format!("{number:04}-{}", purpose.replace(['/', '#'], "-")));
        fs::create_dir_all(&folder).map_err(|error| Failure::of(folder.display(), error))?;
        Ok(folder)
    }

    /// Returns the certificate that all systems of this run use; creates it at the first call. It is
    /// self-signed, with an ECDSA key on P-256, as most public servers have.
    ///
    /// # Errors
    /// If it cannot be created or written.
    pub fn certificate(&self) -> Result<TlsFiles, Failure> {
        if let Some(files) = self.certificate.get() {
            return Ok(files.clone());
        }
        let folder = self.folder("certificate")?;
        let files = TlsFiles { certificate: folder.join("certificate.pem"), key: folder.join("key.pem") };
        // rcgen's default key is ECDSA on P-256.
        let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()])
            .map_err(|error| Failure::of("the certificate", error))?;
        for (file, text) in
            [(&files.certificate, made.cert.pem()), (&files.key, made.signing_key.serialize_pem())]
        {
            fs::write(file, text).map_err(|error| Failure::of(file.display(), error))?;
        }
        Ok(self.certificate.get_or_init(|| files).clone())
    }

    /// Begins a round: derives the seed of its random arrivals, which all systems share. Each round has
    /// another seed.
    pub fn begin_round(&self, seed: u64, round: u32) {
        self.arrivals.set(fastrand::Rng::with_seed(seed ^ (u64::from(round) << 32)).u64(..));
    }

    /// Returns the seed of the random arrivals of this round.
    pub fn arrivals(&self) -> u64 {
        self.arrivals.get()
    }

    /// Returns the cores for a system that may use `count` of them: one, or both.
    pub fn target_cores(&self, count: u32) -> Vec<usize> {
        if count <= 1 { vec![self.cores.target] } else { vec![self.cores.target, self.cores.load] }
    }

    /// Replaces this run's own paths in a text, which mean nothing to a reader.
    pub fn without_paths(&self, text: &str) -> String {
        let home = self.places.home.to_string_lossy();
        let mut text = text
            .replace(self.scratch.path().to_string_lossy().as_ref(), "RUN")
            .replace(home.as_ref(), "LAB_HOME");
        for system in self.catalogue.systems() {
            let short = format!("bench/systems/{}", system.name());
            text = text.replace(system.folder().to_string_lossy().as_ref(), &short);
        }
        text
    }

    /// Returns the description of this machine for the result file.
    pub fn host(&self) -> Host {
        Host {
            cpu: self.facts.cpu.clone(),
            cores: self.facts.usable_cores,
            memory_kib: self.facts.memory_kib,
            kernel: self.facts.kernel.clone(),
            open_files: self.facts.file_limit,
            own_quota: self.facts.cpu_quota,
            placement: format!(
                "system under test on core {}, origin and generator on core {}",
                self.cores.target, self.cores.load
            ),
            irq_time_accounting: self.facts.irq_time_accounting,
            governor: self.facts.governor.clone(),
            hypervisor: self.facts.hypervisor.clone(),
            mitigations: self.facts.mitigations.clone(),
            busy_at_start: Some(self.busy),
            load_at_start: self.load,
        }
    }

    /// Returns a warning if other programs used the machine before this run started anything.
    pub fn is_busy(&self) -> Option<String> {
        (self.busy > BUSY).then(|| {
            format!(
                "this machine is busy: other programs use {:.1} of its cores (load average {:.1}), so that figures scatter \
                 and rounds may be dropped",
                self.busy, self.load
            )
        })
    }
}

/// Returns the last lines of a text file, for messages; an unreadable file yields an empty string.
pub fn tail(file: &Path, lines: usize) -> String {
    let text = fs::read(file).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}
