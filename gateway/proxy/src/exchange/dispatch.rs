//! Carries out the action of a request's route: forwards the request, or answers it.
//!
//! The front calls [`dispatch`] for a request that needs nothing more from its policies. A request whose
//! policies delay it or change its bodies comes here from [`policy`](crate::policy).

use std::rc::Rc;

use tollgate_observe::Reason;
use tollgate_plan::Action;
use tollgate_upstream::Connection;

use crate::exchange::choose_fallback::choose_fallback;
use crate::exchange::files;
use crate::exchange::forward::{fall_back, forward};
use crate::exchange::forward_target::{self, Destination, RoutedRequest};
use crate::exchange::grpc::translate;
use crate::exchange::http2_endpoint::EndpointStream;
use crate::exchange::respond;
use crate::exchange::skip_body::{skip_body, skip_rest_of_body};
use crate::state::active::ActivePlan;
use crate::state::client::Client;
use crate::state::client_side::ClientSide;
use crate::state::connection_fate::ConnectionFate;
use crate::state::fallback_state::FallbackChosen;
use crate::state::request_state::RequestState;
use crate::state::worker::Worker;

/// Carries out the action of a route. `close`: the client's connection closes after this request.
pub(crate) async fn dispatch<S: ClientSide>(
    client: &mut Client<S>,
    worker: &Rc<Worker>,
    state: &mut RequestState,
    active: &Rc<ActivePlan>,
    routed: RoutedRequest,
    close: bool,
) -> ConnectionFate {
    let settings = &active.plan.settings;
    let route = routed.route;
    let chosen = active.route(route);
    let forwarded = match &chosen.action {
        Action::Forward(_) if worker.rejects(chosen.priority) => {
            worker.stats.shed(chosen.priority as usize);
            let close = skip_body(state, close);
            Ok(respond::error(client, worker, state, settings, Reason::Overload, close).await)
        }
        Action::Forward(_) => {
            match forward_target::choose(state, active, routed, &client.peer) {
                Ok(Destination::Answer(answer)) => {
                    let close = skip_body(state, close);
                    Ok(respond::fixed(client, worker, state, settings, answer, close).await)
                }
                Ok(Destination::Forward(to)) if chosen.grpc_web && translate::is_web(&state.request) => {
                    Ok(Box::pin(translate::forward_web(client, worker, state, active, to)).await)
                }
                Ok(Destination::Forward(to)) if to.upstream.is_http2() => {
                    // Smaller than the future for HTTP/1 below (2.9 and 3.6 KB), with which it shares its memory.
                    forward::<S, EndpointStream>(client, worker, state, active, to).await
                }
                Ok(Destination::Forward(_)) if client.stream.may_be_grpc() && state.grpc.is_some() => {
                    let close = skip_body(state, close);
                    Ok(respond::error(client, worker, state, settings, Reason::GrpcNeedsHttp2, close).await)
                }
                Ok(Destination::Forward(to)) => {
                    forward::<S, Connection>(client, worker, state, active, to).await
                }
                Err(reason)
                    if chosen.fallback.is_some()
                        && !(client.stream.may_be_grpc() && state.grpc.is_some())
                        && choose_fallback(state, reason.status(), reason, true) =>
                {
                    Err(FallbackChosen)
                }
                Err(reason) => {
                    let close = skip_rest_of_body(state, reason, close);
                    Ok(respond::error(client, worker, state, settings, reason, close).await)
                }
            }
        }
        Action::Respond(answer) => {
            let close = skip_body(state, close);
            Ok(respond::fixed(client, worker, state, settings, answer, close).await)
        }
        Action::Redirect(redirect) => {
            let close = skip_body(state, close);
            Ok(respond::redirect(client, worker, state, settings, redirect, close).await)
        }
        // In a box of its own, so that it does not enlarge the future of every request.
        Action::Files(files) => {
            Box::pin(files::serve(client, worker, state, active, (chosen, files), close)).await
        }
    };
    match forwarded {
        Ok(next) => next,
        Err(FallbackChosen) => Box::pin(fall_back(client, worker, state, active, route)).await,
    }
}
