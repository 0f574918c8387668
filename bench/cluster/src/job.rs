//! The manifest of a run inside the cluster: a Job with its account and the study's files.

use crate::{MANAGED, manifests};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The name of all objects of the manifest.
const NAME: &str = "tollgate-bench";

/// The mount path of the study's files.
const STUDY: &str = "/study";

/// The folder of the results.
const RESULTS: &str = "/results";

/// The run of a Job.
#[derive(Debug, Clone)]
pub struct Job {
    /// The study's file.
    pub study: PathBuf,
    /// The manifests of its systems, relative to the study's folder.
    pub manifests: Vec<PathBuf>,
    /// The image of the laboratory, for the Job and for the agents.
    pub image: String,
    /// The namespace of the Job.
    pub namespace: String,
    /// A PersistentVolumeClaim for the result file.
    pub claim: Option<String>,
    /// Further options of `run`.
    pub options: Vec<String>,
}

/// Returns the YAML of a Job and of what it needs.
///
/// # Errors
/// If a file of the study cannot be read.
pub fn job(job: &Job) -> Result<String, String> {
    let folder = job.study.parent().unwrap_or(Path::new(""));
    let name = |file: &Path| file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned();
    let study = name(&job.study);
    let mut files = serde_json::Map::new();
    let mut items = Vec::new();
    let mut add = |file: &Path, path: String| -> Result<(), String> {
        let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
        // A key of a ConfigMap has no slashes.
        let key = path.replace('/', "__");
        files.insert(key.clone(), text.into());
        items.push(json!({"key": key, "path": path}));
        Ok(())
    };
    add(&job.study, study.clone())?;
    let mut groups = BTreeSet::new();
    for manifest in &job.manifests {
        let file = folder.join(manifest);
        if manifest.is_absolute() || manifest.components().any(|part| part.as_os_str() == "..") {
            return Err(format!("{}: expected a file below the study's folder", manifest.display()));
        }
        for object in manifests::read(&file)? {
            let version = object["apiVersion"].as_str().unwrap_or_default();
            groups.insert(version.split_once('/').map_or("", |(group, _)| group).to_owned());
        }
        add(&file, manifest.to_string_lossy().into_owned())?;
    }
    let labels = json!({MANAGED.0: MANAGED.1});
    let metadata = json!({"name": NAME, "namespace": job.namespace, "labels": labels});
    let wide = json!({"name": NAME, "labels": labels});
    let mut rules = vec![
        json!({"apiGroups": [""], "resources": ["namespaces", "pods"], "verbs": ["get", "list", "create", "delete"]}),
        json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["create", "delete"]}),
        json!({"apiGroups": [""], "resources": ["serviceaccounts", "services"], "verbs": ["get"]}),
    ];
    // Rights name resources in the plural, which manifests do not have. So the account gets whole groups.
    rules.extend(groups.iter().map(
        |group| json!({"apiGroups": [group], "resources": ["*"], "verbs": ["get", "create", "delete"]}),
    ));
    let stem = Path::new(&study).file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let mut arguments = vec!["run".to_owned(), format!("{STUDY}/{study}"), "--kubernetes".into()];
    arguments.extend(["--image".to_owned(), job.image.clone()]);
    arguments.extend(["--out".to_owned(), format!("{RESULTS}/{stem}.jsonl"), "--print-results".into()]);
    arguments.extend(job.options.iter().cloned());
    let results = match &job.claim {
        Some(claim) => json!({"name": "results", "persistentVolumeClaim": {"claimName": claim}}),
        None => json!({"name": "results", "emptyDir": {}}),
    };
    let objects: [Value; 5] = [
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": wide, "rules": rules}),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": wide,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": NAME},
            "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": job.namespace}],
        }),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": files}),
        json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": metadata,
            "spec": {
                // A second attempt would begin a file that exists.
                "backoffLimit": 0,
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {
                        "serviceAccountName": NAME,
                        "restartPolicy": "Never",
                        // After SIGTERM it deletes what it created.
                        "terminationGracePeriodSeconds": 120,
                        "containers": [{
                            "name": "laboratory",
                            "image": job.image,
                            "command": ["tollgate-lab"],
                            "args": arguments,
                            "volumeMounts": [
                                {"name": "study", "mountPath": STUDY, "readOnly": true},
                                {"name": "results", "mountPath": RESULTS},
                            ],
                        }],
                        "volumes": [{"name": "study", "configMap": {"name": NAME, "items": items}}, results],
                    },
                },
            },
        }),
    ];
    let documents: Result<Vec<String>, String> = objects
        .iter()
        .map(|object| serde_saphyr::to_string(object).map_err(|error| error.to_string()))
        .collect();
    Ok(documents?.join("---\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_job_has_the_files_of_the_study_and_rights_for_its_manifests() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let file = folder.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        write("mesh.yaml", "title: T\nabout: |\n  Two\n  lines.\n");
        write("mesh/web.yaml", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n");
        let wanted = Job {
            study: folder.path().join("mesh.yaml"),
            manifests: vec!["mesh/web.yaml".into()],
            image: "lab:1".into(),
            namespace: "bench".into(),
            claim: None,
            options: vec!["--rounds".into(), "6".into()],
        };
        let text = job(&wanted).unwrap();
        let objects: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
        let of = |kind: &str| objects.iter().find(|object| object["kind"] == kind).unwrap();
        assert_eq!(of("ConfigMap")["data"]["mesh.yaml"], "title: T\nabout: |\n  Two\n  lines.\n");
        let pod = &of("Job")["spec"]["template"]["spec"];
        let expected = ["run", "/study/mesh.yaml", "--kubernetes", "--image", "lab:1", "--out"];
        let arguments = pod["containers"][0]["args"].as_array().unwrap();
        assert_eq!(arguments[..6], expected);
        assert_eq!(arguments[arguments.len() - 2..], ["--rounds", "6"]);
        assert_eq!(
            pod["volumes"][0]["configMap"]["items"][1],
            json!({"key": "mesh__web.yaml", "path": "mesh/web.yaml"})
        );
        let rules = of("ClusterRole")["rules"].as_array().unwrap();
        assert_eq!(rules.last().unwrap()["apiGroups"], json!(["apps"]));
        assert_eq!(of("ClusterRoleBinding")["subjects"][0]["namespace"], "bench");

        let outside = Job { manifests: vec!["../web.yaml".into()], ..wanted };
        assert!(job(&outside).unwrap_err().contains("below the study's folder"));
    }
}
