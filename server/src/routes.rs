//! [`router`]: all routes.

mod agents;
mod audit;
mod event_streams;
mod events;
mod health;
mod inbox;
#[cfg(feature = "long-term")]
mod memory;
mod metrics;
mod openapi;
mod page;
mod page_query;
mod protocols;
mod schedules;
mod search;
mod sessions;

use std::sync::Arc;

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};

pub(crate) use self::health::is_health_path;
pub(crate) use self::page::is_file as is_page_file;
pub(crate) use self::protocols::a2a::is_card as is_agent_card;
pub(crate) use self::protocols::openai::error_form;
use crate::access::refusal_log::log_refusals;
use crate::error::{ApiError, ErrorKind};
use crate::limits::body_limit::limit_bodies;
use crate::limits::long_reads::{LongReads, bound_long_reads};
use crate::server::Server;

/// Returns all routes, for nesting into an axum app. Bodies are bounded and must be JSON.
///
/// The routes check neither authentication nor `Host` and `Origin`: the app that mounts them must
/// add its own checks as layers. [`serve`](crate::serve) adds the usual ones.
///
/// To name the caller, a layer inserts a [`Caller`](crate::Caller), or a
/// [`Principal`](loopwright_core::Principal), into the extensions of a request. This
/// principal owns the sessions that the request creates. It is the principal of prompts and
/// decisions, and `/api/memory` shows its facts. Steers and follow-ups belong to the run that they
/// change, and so to the principal of that run's request. The log of the session records it, for
/// calls that are decided later.
///
/// The server's [policy](crate::ServerBuilder::policy) decides what each caller may do. A request
/// without a caller is the operator's, who may do everything: the layer must refuse unknown
/// callers. A request with an empty principal is refused.
///
/// The work that sessions have to do ([`Server::keep_running_due`]) is done in a task until the
/// server and its routes are dropped. Outside of a Tokio runtime, the app
/// calls it.
///
/// Refusals by the policy or a quota, and bodies that are too large, are logged as warnings. A
/// warning has the caller, the client's address if there is a
/// [`ConnectInfo`](axum::extract::ConnectInfo), and the reason.
///
/// ```
/// use axum::Router;
/// use axum::extract::Request;
/// use axum::http::StatusCode;
/// use axum::middleware::{Next, from_fn};
/// use axum::response::{IntoResponse, Response};
/// use loopwright_core::log::InMemoryStore;
/// use loopwright_core::testing::{Script, ScriptedModel};
/// use loopwright_core::{GenericAgent, Principal};
/// use loopwright_patterns::PiPattern;
/// use loopwright_server::{Server, router};
///
/// /// The proxy in front of this app has checked who the user is.
/// async fn authenticate(mut request: Request, next: Next) -> Response {
///     let user = request.headers().get("x-user").and_then(|user| user.to_str().ok());
///     let Some(principal) = user.map(Principal::new) else {
///         return StatusCode::UNAUTHORIZED.into_response();
///     };
///     request.extensions_mut().insert(principal);
///     next.run(request).await
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let model = ScriptedModel::new([Script::text("Nine.")]);
/// let agent = GenericAgent::builder(model, PiPattern).build()?;
/// let server = Server::builder(InMemoryStore::new()).agent("shepherd", agent).build()?;
/// let app: Router =
///     Router::new().nest("/agent", router(server)).layer(from_fn(authenticate));
/// # Ok(()) }
/// ```
pub fn router(server: Server) -> Router {
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(server.in_background());
    }
    routes(server)
}

/// Returns all routes, and does nothing else.
pub(crate) fn routes(server: Server) -> Router {
    let long_reads = Router::new().merge(audit::routes()).merge(schedules::list_routes());
    let long_reads = long_reads.merge(search::routes());
    #[cfg(feature = "long-term")]
    let long_reads = long_reads.merge(memory::routes());
    let long_reads = long_reads
        .route_layer(from_fn_with_state(Arc::new(LongReads::default()), bound_long_reads));
    // Without users, everybody who reaches the server may read everything in any case.
    let shared = server.shared();
    let workers = shared.cluster.router(shared.users.is_empty());
    Router::new()
        .merge(protocols::a2a::routes())
        .merge(protocols::agent_chat::routes())
        .merge(protocols::ag_ui::routes())
        .merge(agents::routes())
        .merge(protocols::ai_sdk::routes())
        .merge(long_reads)
        .merge(schedules::routes())
        .merge(sessions::routes())
        .merge(events::routes())
        .merge(event_streams::routes())
        .merge(health::routes())
        .merge(inbox::routes())
        .merge(metrics::routes())
        .merge(protocols::openai::routes())
        .merge(openapi::routes())
        .merge(page::routes())
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .layer(from_fn_with_state(server.clone(), limit_bodies))
        .layer(from_fn_with_state(server.clone(), log_refusals))
        .layer(from_fn(error_form))
        .with_state(server)
        .merge(workers)
}

async fn no_route() -> ApiError {
    ApiError::new(
        ErrorKind::NotFound,
        "There is nothing at this address; /api/openapi.json lists what there is.",
    )
}

async fn no_method() -> ApiError {
    let why = "This address does not support this method; /api/openapi.json lists them.";
    ApiError::new(ErrorKind::BadRequest, why)
        .with_status(axum::http::StatusCode::METHOD_NOT_ALLOWED)
}
