//! What a run stands on: cores, folders, the catalogue of systems and the places of load tools.

use crate::failure::Failure;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::cell::{Cell, OnceCell};
use std::fs;
use std::path::{Path, PathBuf};
use tollgate_lab_meter::Scratch;
use tollgate_lab_meter::machine::{CorePair, Facts};
use tollgate_lab_record::Host;
use tollgate_lab_system::{Catalogue, TlsFiles};
use tollgate_lab_tools::Places;

/// Everything that trials share.
#[derive(Debug)]
pub struct Ground {
    /// The laboratory's own program, which is also generator, origin and relay.
    pub exe: PathBuf,
    /// Systems under test.
    pub catalogue: Catalogue,
    /// Where load tools are.
    pub places: Places,
    /// Cores of the system and of everything else.
    pub cores: CorePair,
    /// The machine.
    pub facts: Facts,
    scratch: Scratch,
    certificate: OnceCell<TlsFiles>,
    arrivals: Cell<u64>,
    folders: Cell<u32>,
}

impl Ground {
    /// Prepares the ground and moves this process off the core of the system under test.
    ///
    /// # Errors
    /// Without two cores, or without a folder to write to.
    pub fn prepare(exe: PathBuf, catalogue: Catalogue, places: Places) -> Result<Self, Failure> {
        // With less than the most, cells with many connections are made smaller.
        let _ = tollgate_lab_load::raise_limit();
        let facts = Facts::read();
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
            scratch,
            certificate: OnceCell::new(),
            arrivals: Cell::new(0),
            folders: Cell::new(0),
        })
    }

    /// A fresh folder for a server or a generator.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn folder(&self, purpose: &str) -> Result<PathBuf, Failure> {
        let number = self.folders.get() + 1;
        self.folders.set(number);
        let folder = self.scratch.path().join(format!("{number:04}-{}", purpose.replace(['/', '#'], "-")));
        fs::create_dir_all(&folder).map_err(|error| Failure::of(folder.display(), error))?;
        Ok(folder)
    }

    /// The certificate of all systems of this run, self-signed, with an ECDSA key on P-256, as public servers have.
    ///
    /// # Errors
    /// When it cannot be made or written.
    pub fn certificate(&self) -> Result<TlsFiles, Failure> {
        if let Some(files) = self.certificate.get() {
            return Ok(files.clone());
        }
        let folder = self.folder("certificate")?;
        let files = TlsFiles { certificate: folder.join("certificate.pem"), key: folder.join("key.pem") };
        // rcgen's keys are ECDSA on P-256 unless told otherwise.
        let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()])
            .map_err(|error| Failure::of("the certificate", error))?;
        for (file, text) in
            [(&files.certificate, made.cert.pem()), (&files.key, made.signing_key.serialize_pem())]
        {
            fs::write(file, text).map_err(|error| Failure::of(file.display(), error))?;
        }
        Ok(self.certificate.get_or_init(|| files).clone())
    }

    /// Begins a round: its random arrivals are the same for every system, and others than those of the other rounds.
    pub fn begin_round(&self, seed: u64, round: u32) {
        self.arrivals.set(fastrand::Rng::with_seed(seed ^ (u64::from(round) << 32)).u64(..));
    }

    /// The seed of random arrivals in this round.
    pub fn arrivals(&self) -> u64 {
        self.arrivals.get()
    }

    /// Cores for a system that may have so many.
    pub fn target_cores(&self, count: u32) -> Vec<usize> {
        if count <= 1 { vec![self.cores.target] } else { vec![self.cores.target, self.cores.load] }
    }

    /// A text without the folders of this run, which tell a reader nothing.
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

    /// For the record.
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
        }
    }
}

/// The end of a text file, for messages.
pub fn tail(file: &Path, lines: usize) -> String {
    let text = fs::read(file).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}
