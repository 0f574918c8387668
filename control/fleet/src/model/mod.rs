//! Model tests: whatever happens to connections and processes, every gateway catches up with its controller.
//!
//! A test case drives the real parts of one controller and [`GATEWAYS`] gateways through random steps, as the
//! [server](crate::server) and the [client](crate::client) would. [`documents`] adds changes of documents to these
//! steps, [`purges`] adds purges. At the end every gateway catches up, and must have missed nothing.

mod documents;
mod purges;

use proptest::prelude::*;

/// How many gateways follow the controller.
const GATEWAYS: usize = 3;

/// A step of a connection or a process. Gateways are numbered from 0.
#[derive(Clone, Debug)]
enum ConnectionStep {
    /// A gateway connects, if it is not connected.
    Connect(usize),
    /// The controller sends a connected gateway everything that it lacks. The gateway receives this many lines.
    Receive(usize, usize),
    /// A connection breaks. Lines in flight are lost.
    Disconnect(usize),
    /// A gateway starts again. All its connections break.
    RestartGateway(usize),
    /// The controller starts again. All connections break.
    RestartController,
}

/// Generates a step of a connection, with fewer than `lines_max` lines at a time.
fn connection_step(lines_max: usize) -> impl Strategy<Value = ConnectionStep> {
    let gateway = || 0..GATEWAYS;
    prop_oneof![
        2 => gateway().prop_map(ConnectionStep::Connect),
        6 => (gateway(), 0..lines_max).prop_map(|(gateway, lines)| ConnectionStep::Receive(gateway, lines)),
        1 => gateway().prop_map(ConnectionStep::Disconnect),
        1 => gateway().prop_map(ConnectionStep::RestartGateway),
        1 => Just(ConnectionStep::RestartController),
    ]
}
