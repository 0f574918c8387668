//! Files and sockets that policies name.

use std::path::PathBuf;
use std::{env, fs, process};

use serde_json::json;
use tollgate_config::file_access::Scope;
use tollgate_config::{Documents, ResourceKind, kind, load};

fn routes() -> &'static ResourceKind {
    kind("routes").expect("a kind")
}

#[test]
fn files_that_a_document_names_are_read() {
    tollgate_policy::register();
    let mut documents = Documents::new("store", PathBuf::from("/etc/tollgate"), Scope::default());
    let jwt = json!({"match": "/x", "respond": "x", "policies": {"jwt": {"jwks": "no-such-file.pem"}}});
    let problems = documents.put(routes(), "x", jwt).expect_err("there is no such file");
    assert_eq!(problems[0].pointer, "/policies/jwt/jwks");
    assert!(problems[0].message.contains("there is no such file"), "{problems:?}");
}

#[test]
fn a_socket_in_a_url_is_read_as_the_library_does() {
    tollgate_policy::register();
    let scope = Scope::below(&[std::env::temp_dir()]);
    let mut documents = Documents::new("store", PathBuf::from("/"), scope);
    let folder = std::env::temp_dir();
    let mut put = |url: String| {
        let limit = json!({"rate": "1/s", "redis": {"url": url}});
        documents.put(
            routes(),
            "x",
            json!({"match": "/x", "respond": "x", "policies": {"rate_limit": limit}}),
        )
    };
    let within = format!("unix://{}/tollgate-no-such.sock", folder.display());
    let good = put(within.clone());
    assert!(good.is_ok(), "{good:?}");
    for url in [
        "unix:///run/docker.sock".to_owned(),
        format!("unix://{}/..%2frun%2fdocker.sock", folder.display()),
        format!("redis+unix://{}/%2e%2e/run/docker.sock?db=1", folder.display()),
        format!("valkey+unix://{}/../run/docker.sock", folder.display()),
    ] {
        let problems = put(url.clone()).expect_err(&url);
        assert!(problems[0].message.contains("this file is not allowed here"), "{url}: {problems:?}");
    }
}

#[test]
fn files_of_policies_and_of_the_admin_listener_are_watched_too() {
    tollgate_policy::register();
    let folder = env::temp_dir().join(format!("tollgate-watched-{}", process::id()));
    fs::create_dir_all(&folder).unwrap();
    // Reading does not check the content of these files.
    for name in ["authority.pem", "admin.pem", "admin.key"] {
        fs::write(folder.join(name), "-----BEGIN\n").unwrap();
    }
    let file = folder.join("tollgate.yaml");
    let text = "listen: 127.0.0.1:8080\nadmin: {bind: 127.0.0.1:9911, tls: {certificate: admin.pem, key: admin.key}}\n\
        routes:\n- match: /*\n  to: 127.0.0.1:1\n  \
        policies: {forward_auth: {url: \"https://auth.internal/verify\", ca: authority.pem}}\n";
    fs::write(&file, text).unwrap();
    let loaded = load(&file);
    let config = loaded.config.unwrap_or_else(|| panic!("{:?}", loaded.problems));
    let sources = config.sources();
    for name in ["tollgate.yaml", "authority.pem", "admin.pem", "admin.key"] {
        assert!(sources.contains(&folder.join(name)), "{name}: {sources:?}");
    }
    fs::remove_dir_all(&folder).unwrap();
}
