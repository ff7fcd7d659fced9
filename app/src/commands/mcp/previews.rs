//! Previews of calls, for the users of MCP clients.

use loopwright_mcp::server::HostSession;

use crate::session::Previews;

impl Previews {
    /// Has a session show these previews to the client's user.
    pub(super) fn show_in(self, session: HostSession) -> HostSession {
        session.preview(move |action| {
            let previews = self.clone();
            async move { previews.of(&action).await.ok().flatten() }
        })
    }
}
