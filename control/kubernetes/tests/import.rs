//! The import as a table: `import/NAME.yaml` has manifests, `import/NAME.out.yaml` the report and the configuration
//! that they become. `BLESS=1` writes the latter. Each configuration is valid.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tollgate_kubernetes::import;

fn cases() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/import");
    let files = std::fs::read_dir(folder).expect("cases").map(|entry| entry.expect("a file").path());
    let mut cases: Vec<_> = files.filter(|file| !file.to_string_lossy().ends_with(".out.yaml")).collect();
    cases.sort();
    assert!(!cases.is_empty());
    cases
}

/// Returns what a file of manifests becomes.
fn imported(file: &Path) -> String {
    let text = std::fs::read_to_string(file).expect("a case");
    let imported = import(&[("manifests".to_owned(), text)], None).expect("imported");
    let report: String = imported.report().lines().map(|line| format!("# {line}\n")).collect();
    format!("{report}\n{}", tollgate_config::to_yaml(&Value::Object(imported.config)))
}

#[test]
fn manifests_become_a_report_and_a_configuration() {
    for case in cases() {
        let shown = imported(&case);
        let expected = case.with_extension("out.yaml");
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&expected, &shown).expect("written");
        }
        assert_eq!(std::fs::read_to_string(&expected).unwrap_or_default(), shown, "{}", expected.display());
    }
}

#[test]
fn the_configurations_compile() {
    tollgate_plan::register_policies();
    for case in cases() {
        let loaded = tollgate_config::from_text("imported", &imported(&case), &|_| None);
        let config = loaded.config.unwrap_or_else(|| panic!("{}", loaded.problems.render(false)));
        if let Err(problems) = tollgate_plan::compile(&config) {
            panic!("{}: {problems:?}", case.display());
        }
    }
}

#[test]
fn other_classes_are_named_or_left_out() {
    let ingress = |class: &str| {
        let spec = "{defaultBackend: {service: {name: a, port: {number: 80}}}, ingressClassName: CLASS}";
        let spec = spec.replace("CLASS", class);
        vec![("m".to_owned(), format!("kind: Ingress\nmetadata: {{name: i}}\nspec: {spec}\n"))]
    };
    assert!(import(&ingress("traefik"), None).is_err());
    assert_eq!(import(&ingress("traefik"), Some("traefik")).expect("imported").objects.len(), 1);
    assert_eq!(import(&ingress("nginx"), None).expect("imported").objects.len(), 1);
    assert!(import(&[("m".to_owned(), "a: [".to_owned())], None).is_err_and(|why| why.starts_with("m: ")));
}
