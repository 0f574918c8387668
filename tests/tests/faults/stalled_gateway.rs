//! The gateway stops for seconds under load, as on a machine that is suspended or short of processors.

use std::thread;
use std::time::Duration;

use tollgate_tests::{Gateway, Service, Signal};

use super::load::Load;

#[test]
#[ignore = "a fault test: `make faults`"]
fn it_stands_still_and_goes_on() {
    let service = Service::start("a");
    let gateway = Gateway::start(&format!(
        "workers: 2\naccess_log: off\nroutes: [{{match: \"/*\", to: \"{}\"}}]\n",
        service.address()
    ));
    let load = Load::start(gateway.address(), 16, Duration::from_millis(2));
    for _ in 0..3 {
        thread::sleep(Duration::from_secs(1));
        gateway.signal(Signal::STOP);
        thread::sleep(Duration::from_secs(3));
        gateway.signal(Signal::CONT);
    }
    thread::sleep(Duration::from_secs(1));
    let answers = load.end();
    eprintln!(
        "gateway stopped three times for 3 s: {} requests, {} failed; p50 {:?}, longest {:?}",
        answers.count(),
        answers.failures.len(),
        answers.percentile(0.5),
        answers.percentile(1.0),
    );
    assert_eq!(answers.failures, Vec::<String>::new());
    assert!(answers.percentile(1.0) > Duration::from_secs(2), "it did not stand still");
}
