//! `run --kubernetes`: puts the roles of a study and the systems of its manifests into a cluster, after which the
//! run is one on several hosts. `kubernetes-job` prints the manifest of such a run inside the cluster.

use crate::command::{JobOptions, RunOptions};
use crate::lists::{catalogue, study};
use crate::print;
use std::fs;
use std::path::{Path, PathBuf};
use tollgate_lab_cluster::{Cluster, Created, Job, job};
use tollgate_lab_meter::Scratch;
use tollgate_lab_study::{Deployed, Hosts, Kubernetes, Plan, Study};
use tollgate_lab_trial::agent::Identity;

/// The cluster of a run.
pub struct InCluster {
    cluster: Cluster,
    wanted: Kubernetes,
    /// Holds the key of this run's agents.
    scratch: Scratch,
}

/// Returns where the agents of a study run in a cluster; `None` without `--kubernetes`. Gives the study hosts
/// that stand for the pods, so that it is planned as one on several hosts.
pub fn wanted(study: &mut Study, options: &RunOptions) -> Result<Option<Kubernetes>, String> {
    if !options.kubernetes {
        return Ok(None);
    }
    if !study.hosts.is_empty() {
        return Err("`--kubernetes` and `hosts` of the study exclude each other".into());
    }
    let mut wanted = study.kubernetes.clone().unwrap_or_default();
    wanted.image = options.image.clone().or(wanted.image);
    if wanted.image.is_none() {
        return Err(
            "which image has the laboratory? `--image IMAGE`, or `kubernetes: {image: IMAGE}` of the study"
                .into(),
        );
    }
    let pod = |name: &str| Some(format!("the pod {name}"));
    study.hosts = Hosts { client: pod("client"), gateway: pod("gateway"), origin: pod("origin") };
    Ok(Some(wanted))
}

/// Returns the systems of the plan that manifests deploy, with their names.
pub fn deployed<'a>(study: &'a Study, plan: &Plan) -> Vec<(&'a str, &'a Deployed)> {
    let planned =
        |name: &str| plan.cells.iter().any(|cell| cell.cell.systems.iter().any(|other| other == name));
    let arms = study.arms.iter().filter(|(name, _)| planned(name));
    arms.filter_map(|(name, arm)| Some((name.as_str(), arm.kubernetes.as_ref()?))).collect()
}

impl InCluster {
    /// Connects to the cluster. Nothing is created yet.
    pub fn connect(wanted: Kubernetes, plan: &Plan) -> Result<Self, String> {
        let image = wanted.image.clone().unwrap_or_default();
        let cluster = Cluster::connect(&wanted, &image, plan.seconds)?;
        let scratch = Scratch::create("cluster").map_err(|error| error.to_string())?;
        Ok(Self { cluster, wanted, scratch })
    }

    /// Returns the list of what the run creates, for the signal handler.
    pub fn created(&self) -> Created {
        self.cluster.created()
    }

    /// Creates agents and systems, and writes their addresses into the study. Returns the file with the agents'
    /// key, and sentences for the report.
    pub fn start(&mut self, study: &mut Study, plan: &Plan) -> Result<(PathBuf, Vec<String>), String> {
        let key = self.scratch.path().join("lab.pem");
        Identity::create(&key).map_err(|failure| failure.to_string())?;
        let text = fs::read_to_string(&key).map_err(|error| format!("{}: {error}", key.display()))?;
        say!("  cluster: creating the agents in the namespace {}", self.cluster.namespace());
        study.hosts = self.cluster.start(&self.wanted, &text)?;
        let folder = study.file.parent().unwrap_or(Path::new("")).to_owned();
        let systems = deployed(study, plan);
        if !systems.is_empty() {
            let names: Vec<&str> = systems.iter().map(|(name, _)| *name).collect();
            say!("  cluster: creating {}", names.join(", "));
        }
        let descriptions: Vec<&Deployed> = systems.iter().map(|(_, system)| *system).collect();
        let placed = self.cluster.deploy(&folder, &descriptions)?;
        let names: Vec<String> = systems.iter().map(|(name, _)| (*name).to_owned()).collect();
        for (name, placed) in names.iter().zip(placed) {
            if let Some(arm) = study.arms.get_mut(name) {
                arm.target = Some(placed.url);
                arm.cpu = placed.cpu;
                arm.version = placed.version;
            }
        }
        Ok((
            key,
            vec![format!("The roles ran as pods of a Kubernetes cluster: {}.", self.cluster.describe())],
        ))
    }
}

/// Implements `tollgate bench kubernetes-job`.
pub fn print_job(data: &Path, options: &JobOptions) -> Result<(), String> {
    let catalogue = catalogue(data, None)?;
    let study = study(data, &catalogue, &options.study)?;
    let mut manifests: Vec<PathBuf> = Vec::new();
    for file in study.arms.values().filter_map(|arm| arm.kubernetes.as_ref()).flat_map(|arm| &arm.manifests) {
        if !manifests.contains(file) {
            manifests.push(file.clone());
        }
    }
    let image = options.image.clone().or_else(|| study.kubernetes.as_ref()?.image.clone());
    let wanted = Job {
        study: study.file.clone(),
        manifests,
        image: image.ok_or("which image has the laboratory? `--image IMAGE`")?,
        namespace: options.namespace.clone(),
        claim: options.claim.clone(),
        options: options.options.clone(),
    };
    print(&job(&wanted)?)
}
