//! Tests the merge of documents with the file, and their changes.

use serde_json::json;

use super::*;

fn documents() -> Documents {
    Documents::new("store", PathBuf::from("/etc/tollgate"), Scope::default())
}

fn routes() -> &'static ResourceKind {
    kind("routes").expect("a kind")
}

fn upstreams() -> &'static ResourceKind {
    kind("upstreams").expect("a kind")
}

fn config(text: &str) -> Config {
    let text = format!("listen: 127.0.0.1:0\n{text}");
    crate::from_text("tollgate.yaml", &text, &|_| None).config.expect("a good config")
}

fn put(documents: &mut Documents, kind: &'static ResourceKind, name: &str, value: Value) -> Undo {
    documents.put(kind, name, value).expect("a good document")
}

#[test]
fn a_document_is_read_as_its_like_in_the_file() {
    let mut documents = documents();
    let _ = put(
        &mut documents,
        routes(),
        "users",
        json!({"match": "/users/*", "to": [{"upstream": "a", "weight": 3}]}),
    );
    let _ = put(&mut documents, upstreams(), "a", json!(["10.0.0.1:80", "10.0.0.2:80"]));
    let base = config(
        "routes: [{name: users, match: /users/*, to: {upstream: a, weight: 3}}]\nupstreams: {a: [\"10.0.0.1:80\", \"10.0.0.2:80\"]}",
    );
    let empty = config("routes: []");
    let parts = CombinedResources::of(&empty).with(&documents);
    let (one, other) = (parts.routes[0], &base.routes[0]);
    assert_eq!(one.name.as_ref().map(|name| &name.value), other.name.as_ref().map(|name| &name.value));
    assert_eq!(one.display_name(), "users");
    assert_eq!(parts.upstreams[0].endpoints.len(), base.upstreams[0].endpoints.len());
    assert_eq!((parts.routes.len(), parts.upstreams.len(), documents.len()), (1, 1, 2));
}

#[test]
fn a_problem_has_a_pointer_and_the_words_of_the_file() {
    let mut documents = documents();
    let wrong = json!({"match": {"path": "/x", "methd": "GET"}, "to": ["nowhere:80:80"]});
    let problems = documents.put(routes(), "x", wrong).expect_err("two mistakes");
    let pointers: Vec<&str> = problems.iter().map(|problem| problem.pointer.as_str()).collect();
    assert_eq!(pointers, ["/match/methd", "/to/0"]);
    assert!(problems[0].message.contains("unknown key `methd`"), "{problems:?}");
    assert_eq!(problems[0].help, ["did you mean `method`?"]);
    assert_eq!(problems[0].place, "routes/x");
    assert!(
        problems[0].text.contains("store: routes/x:4:5") && problems[0].text.contains("^^^"),
        "{}",
        problems[0].text
    );
    assert!(documents.is_empty() && documents.free.len() == 1);
    let name = documents.put(routes(), "x", json!({"name": "y", "respond": 204})).expect_err("another name");
    assert_eq!(name[0].pointer, "/name");
    let variable = documents.put(routes(), "x", json!({"match": "/x", "respond": "${HOME}"}));
    assert!(variable.is_err(), "documents see no variables");
}

#[test]
fn no_secret_stands_in_the_lines_of_a_problem() {
    let mut documents = documents();
    let consumer = json!({"hmac_keys": {"a": "swordfish"}, "grups": []});
    let problems =
        documents.put(kind("consumers").expect("a kind"), "a", consumer).expect_err("two mistakes");
    let text: String = problems.iter().map(|problem| problem.text.as_str()).collect();
    assert!(text.contains("\"(secret)\"") && text.contains("grups") && !text.contains("swordfish"), "{text}");
}

#[test]
fn an_undone_change_leaves_no_trace() {
    let mut documents = documents();
    let respond = |text: &str| json!({"match": "/x", "respond": text});
    let _ = put(&mut documents, routes(), "a", respond("1"));
    let first = put(&mut documents, routes(), "a", respond("2"));
    let second = put(&mut documents, routes(), "b", respond("3"));
    let third = documents.remove(routes(), "a").expect("it is there");
    assert!(documents.get(routes(), "a").is_none());
    documents.undo(third);
    assert_eq!(documents.get(routes(), "a").expect("back").value(), respond("2"));
    documents.undo(second);
    documents.undo(first);
    assert_eq!(documents.get(routes(), "a").expect("back").value(), respond("1"));
    assert!(documents.get(routes(), "b").is_none());
    let used = documents.slots.iter().flatten().count();
    assert_eq!((used, documents.free.len() + used), (1, documents.slots.len()));
}

#[test]
fn duplicate_and_missing_names_are_reported() {
    let mut documents = documents();
    let _ = put(&mut documents, routes(), "a", json!({"match": "/x", "to": "userz"}));
    let base = config("routes: [{name: a, match: /y, respond: 204}]\nupstreams: {users: [\"h:1\"]}");
    let twice = documents.duplicate_names(&base);
    assert_eq!(twice.len(), 1);
    let rendered = {
        let mut problems = Problems::new(base.files.clone());
        problems.extend(twice);
        documents.collect(problems).render(false)
    };
    assert!(
        rendered.contains("two routes are named `a`") && rendered.contains("store: routes/a:1:1"),
        "{rendered}"
    );
    let parts = || CombinedResources::of(&base).with(&documents);
    let document = documents.get(routes(), "a").expect("there").clone();
    let unknown = documents.unknown([&*document], |name| name == "users", parts);
    assert_eq!((unknown.len(), unknown[0].pointer.as_str()), (1, "/to"));
    assert_eq!(unknown[0].help, ["did you mean `users`?"]);
}
