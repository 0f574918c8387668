//! Reads the timeouts that routes and upstreams have of their own.

use crate::model::{RouteStay, RouteTimeouts};
use crate::reader::{Field, Fields, Reader};
use crate::spec::{EXCHANGE_TIMEOUTS, ROUTE_TIMEOUTS};

/// Reads the timeouts of a route's exchanges and of the client connections that carry them.
pub(super) fn of_route(reader: &mut Reader, field: Field<'_>) -> (RouteTimeouts, RouteStay) {
    let Some(fields) = reader.fields(field.node, &ROUTE_TIMEOUTS) else { return Default::default() };
    let stay = RouteStay {
        idle: reader.duration(fields.get("idle")),
        // A route can shorten the listener's maximum age; `off` leaves it unchanged.
        age: reader.duration(fields.get("age")).flatten(),
    };
    (exchange_timeouts(reader, &fields), stay)
}

/// Reads the timeouts of an upstream.
pub(super) fn of_upstream(reader: &mut Reader, field: Field<'_>) -> RouteTimeouts {
    match reader.fields(field.node, &EXCHANGE_TIMEOUTS) {
        Some(fields) => exchange_timeouts(reader, &fields),
        None => RouteTimeouts::default(),
    }
}

fn exchange_timeouts(reader: &mut Reader, fields: &Fields<'_>) -> RouteTimeouts {
    RouteTimeouts {
        connect: reader.duration(fields.get("connect")),
        response_header: reader.duration(fields.get("response_header")),
        response_body: reader.duration(fields.get("response_body")),
        total: reader.duration(fields.get("total")),
    }
}
