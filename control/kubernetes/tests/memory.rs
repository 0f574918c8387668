//! Counts with the allocator how much memory a route takes, from the object to the plan, and how much of it a change of
//! one route among thousands allocates again.
//!
//! This is a program without the test harness: the counter covers the whole process.
// Its result is what it prints.
#![allow(clippy::print_stdout)]

mod settings;

use std::alloc::System;
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tollgate_config::file_access::Scope;
use tollgate_config::{CombinedResources, Config, Documents, kind};
use tollgate_kubernetes::{Kind, Objects, RawObject, Translator, Update};
use tollgate_plan::{CompileCache, Plan, compile_with_cache};

use settings::settings;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const ROUTES: usize = 4800;
/// The bounds of a route, in bytes. They do not cover the allocator's overhead, statistics, the view of the API and the
/// writer of statuses: `cluster speed` measures the memory of the whole process.
const OBJECTS_MAX: usize = 1900;
const TRANSLATION_MAX: usize = 1500;
const DOCUMENTS_MAX: usize = 2100;
const PLAN_MAX: usize = 1900;

/// A gateway's source and plan.
struct World {
    objects: Objects,
    translator: Translator,
    documents: Documents,
    config: Config,
    cache: CompileCache,
}

impl World {
    fn new() -> Self {
        tollgate_plan::register_policies();
        let config = tollgate_config::from_text("t", "kubernetes: {addresses: 192.0.2.0/24}", &|_| None);
        let mut world = Self {
            objects: Objects::default(),
            translator: Translator::new(settings()),
            documents: Documents::new("kubernetes", PathBuf::new(), Scope::below(&[])),
            config: config.config.expect("a configuration"),
            cache: CompileCache::default(),
        };
        world.put(
            Kind::GatewayClass,
            "",
            "own",
            json!({"controllerName": "tollgate.dev/gateway"}),
            json!({}),
        );
        let listener = json!({"name": "http", "port": 80, "protocol": "HTTP"});
        world.put(
            Kind::Gateway,
            "speed",
            "g",
            json!({"gatewayClassName": "own", "listeners": [listener]}),
            json!({}),
        );
        let ports = json!([{"name": "http", "port": 80, "protocol": "TCP"}]);
        world.put(Kind::Service, "speed", "s", json!({ "ports": ports }), json!({}));
        world
    }

    fn put(&mut self, kind: Kind, namespace: &str, name: &str, spec: Value, status: Value) {
        let metadata = json!({
            "namespace": namespace, "name": name, "generation": 1, "resourceVersion": "123456",
            "uid": "0b5b3a9e-6d2b-4f2e-9d5f-0123456789ab", "creationTimestamp": "2026-11-27T12:34:56Z",
        });
        let object = json!({ "metadata": metadata, "spec": spec, "status": status });
        self.objects.put(kind, serde_json::from_value::<RawObject>(object).expect("an object"));
    }

    /// Adds a route as an API server sends it, with the status that the gateway wrote.
    fn route(&mut self, number: usize) {
        let group = "gateway.networking.k8s.io";
        let parent = json!({"group": group, "kind": "Gateway", "name": "g"});
        let condition = |kind: &str| {
            json!({"type": kind, "status": "True", "reason": kind, "message": "", "observedGeneration": 1,
                "lastTransitionTime": "2026-11-27T12:34:56Z"})
        };
        let status = json!({"parents": [{"parentRef": parent, "controllerName": "tollgate.dev/gateway",
            "conditions": [condition("Accepted"), condition("ResolvedRefs")]}]});
        let path = json!({"type": "PathPrefix", "value": "/"});
        let backend = json!({"group": "", "kind": "Service", "name": "s", "port": 80, "weight": 1});
        let spec = json!({"parentRefs": [parent], "hostnames": [format!("fill-{number}.example")],
            "rules": [{"matches": [{"path": path}], "backendRefs": [backend]}]});
        self.put(Kind::HttpRoute, "speed", &format!("fill-{number}"), spec, status);
    }

    fn translate(&mut self) -> Update {
        let changes = self.objects.take_changes();
        self.translator.update(&self.objects, &changes)
    }

    /// Puts the changed documents among the others.
    fn read(&mut self, update: &Update) {
        for key in &update.documents {
            let kind = kind(key.kind).expect("a kind");
            match self.translator.document(key) {
                Some(document) => {
                    drop(self.documents.put(kind, &key.name, document.value()).expect("a good document"));
                }
                None => drop(self.documents.remove(kind, &key.name)),
            }
        }
    }

    fn compile(&mut self) -> Plan {
        let parts = CombinedResources::of(&self.config).with(&self.documents);
        compile_with_cache(&parts, &mut self.cache).expect("a good plan").plan
    }
}

/// Returns what a function keeps allocated, in bytes for each route, with its result.
fn kept<T>(run: impl FnOnce() -> T) -> (usize, T) {
    let region = Region::new(ALLOCATOR);
    let result = run();
    let change = region.change();
    let bytes = change.bytes_allocated as isize - change.bytes_deallocated as isize;
    (bytes.max(0) as usize / ROUTES, result)
}

fn main() {
    let mut world = World::new();
    let (objects, ()) = kept(|| (0..ROUTES).for_each(|number| world.route(number)));
    let mut first = Update::default();
    let (translation, ()) = kept(|| {
        let update = world.translate();
        first.extend(update);
    });
    let update_size = first.documents.len() + first.statuses.len();
    assert!(update_size > 2 * ROUTES, "every route has a document and a status: {update_size}");
    // The update itself is gone when the first plan is in force.
    let (gone, ()) = kept(|| {
        let copy = first.clone();
        std::mem::forget(copy);
    });
    let translation = translation.saturating_sub(gone);
    let (documents, ()) = kept(|| world.read(&first));
    let (plan_bytes, mut plan) = kept(|| world.compile());
    let text = format!(
        "bytes for a route: {objects} in objects, {translation} in the translation, {documents} in documents, \
         {plan_bytes} in the plan; {} together",
        objects + translation + documents + plan_bytes
    );
    println!("{text}");
    assert!(objects < OBJECTS_MAX && translation < TRANSLATION_MAX, "{text}");
    assert!(documents < DOCUMENTS_MAX && plan_bytes < PLAN_MAX, "{text}");
    assert!(objects.min(translation).min(documents).min(plan_bytes) > 200, "too little to be true: {text}");

    // A change of one route: one document is made and read, one route is compiled, and the others are the same objects.
    let mut times = [0; 3];
    const CHANGES: usize = 20;
    for number in 0..CHANGES {
        world.route(ROUTES + number);
        let begin = Instant::now();
        let update = world.translate();
        let translated = begin.elapsed();
        assert_eq!(
            (update.documents.len(), update.statuses.len()),
            (1, 2),
            "a route, and its Gateway's count"
        );
        world.read(&update);
        let read = begin.elapsed();
        let next = world.compile();
        let compiled = begin.elapsed();
        let known: HashSet<_> = plan.routes.iter().map(Arc::as_ptr).collect();
        let fresh = next.routes.iter().filter(|route| !known.contains(&Arc::as_ptr(route)));
        assert_eq!((next.routes.len(), fresh.count()), (ROUTES + number + 1, 1));
        for (sum, took) in times.iter_mut().zip([translated, read - translated, compiled - read]) {
            *sum += took.as_micros();
        }
        plan = next;
    }
    let [translate, read, compile] = times.map(|sum| sum / CHANGES as u128);
    println!(
        "one route among {ROUTES}: {translate} µs to translate, {read} µs to read, {compile} µs to compile"
    );
}
