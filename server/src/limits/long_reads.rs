//! [`LongReads`]: a limit on concurrent requests that read many sessions.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::sync::Semaphore;

use super::quota::{Client, Quota};
use crate::error::{ApiError, ErrorKind};

/// Maximum number of requests that run at a time. Others wait in order of arrival.
const MAX_RUNNING: usize = 2;
/// Maximum number of requests that run or wait, per client and in total.
const MAX_PER_CLIENT: usize = 8;
const MAX_TOTAL: usize = 64;

/// The requests in progress that read many sessions.
pub(crate) struct LongReads {
    quota: Quota,
    running: Semaphore,
}

impl Default for LongReads {
    fn default() -> Self {
        LongReads {
            quota: Quota::new(MAX_PER_CLIENT, MAX_TOTAL),
            running: Semaphore::new(MAX_RUNNING),
        }
    }
}

/// Runs a request when it is its turn. Refuses it if too many wait. A client that disconnects loses
/// its position.
pub(crate) async fn bound_long_reads(
    State(reads): State<Arc<LongReads>>,
    request: Request,
    next: Next,
) -> Response {
    let Some(_permit) = reads.quota.try_acquire(Client::of_request(request.extensions())) else {
        let why = "Too many searches are in progress: try again when one has ended.";
        return ApiError::new(ErrorKind::TooMany, why).into_response();
    };
    let _turn = reads.running.acquire().await; // never closed
    next.run(request).await
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use axum::Router;
    use axum::body::Body;
    use axum::extract::ConnectInfo;
    use axum::http::{StatusCode, header};
    use axum::middleware::from_fn_with_state;
    use axum::routing::get;
    use futures::poll;
    use hyper::service::Service;
    use hyper_util::service::TowerToHyperService;

    use super::*;

    /// C416: Two requests that read many sessions run at a time, and a client has at most eight. A
    /// client that disconnects loses its position.
    #[tokio::test]
    async fn long_reads_wait_for_their_turn() {
        let (started, gate) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        let handler = {
            let (started, gate) = (started.clone(), gate.clone());
            async move || {
                started.add_permits(1);
                gate.acquire().await.unwrap().forget();
            }
        };
        let layer = from_fn_with_state(Arc::new(LongReads::default()), bound_long_reads);
        let routes = Router::new().route("/api/search", get(handler)).layer(layer);
        let routes = TowerToHyperService::new(routes);
        let send = |client: u8| {
            let mut request = Request::get("/api/search").body(Body::empty()).unwrap();
            let address = SocketAddr::from(([10, 0, 0, client], 1));
            request.extensions_mut().insert(ConnectInfo(address));
            Box::pin(routes.call(request))
        };
        let mut own: Vec<_> = (0..MAX_PER_CLIENT).map(|_| send(1)).collect();
        for request in &mut own {
            assert!(poll!(request).is_pending());
        }
        assert_eq!(started.available_permits(), MAX_RUNNING);
        let refused = send(1).await.unwrap();
        assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(refused.headers()[header::RETRY_AFTER], "2");
        let mut other = send(2);
        assert!(poll!(&mut other).is_pending());
        own.pop();
        let mut later = send(1);
        assert!(poll!(&mut later).is_pending(), "there is a place again");
        gate.add_permits(MAX_PER_CLIENT + 1);
        for request in own.into_iter().chain([other, later]) {
            assert_eq!(request.await.unwrap().status(), StatusCode::OK);
        }
    }
}
