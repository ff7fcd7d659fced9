//! `/` and `/inbox`: the web pages, a few files embedded in the binary.
//!
//! The page inserts the text of models only as text nodes. The policy below enforces this even if
//! the page has a bug: it allows only the page's own scripts, nothing from other hosts, and no
//! markup made from strings (trusted types).

use axum::Router;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::get;

use crate::server::Server;

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
     img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; \
     frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// A file of the page: its path, its media type, its text.
type File = (&'static str, &'static str, &'static str);

const FILES: [File; 21] = [
    ("/", "text/html; charset=utf-8", include_str!("../../page/index.html")),
    ("/style.css", "text/css; charset=utf-8", include_str!("../../page/style.css")),
    ("/icon.svg", "image/svg+xml", include_str!("../../page/icon.svg")),
    ("/app.js", JAVASCRIPT, include_str!("../../page/app.js")),
    ("/api.js", JAVASCRIPT, include_str!("../../page/api.js")),
    ("/card.js", JAVASCRIPT, include_str!("../../page/card.js")),
    ("/dom.js", JAVASCRIPT, include_str!("../../page/dom.js")),
    ("/frames.js", JAVASCRIPT, include_str!("../../page/frames.js")),
    ("/inbox", "text/html; charset=utf-8", include_str!("../../page/inbox.html")),
    ("/inbox.js", JAVASCRIPT, include_str!("../../page/inbox.js")),
    ("/terms.js", JAVASCRIPT, include_str!("../../page/terms.js")),
    ("/token.js", JAVASCRIPT, include_str!("../../page/token.js")),
    ("/events.js", JAVASCRIPT, include_str!("../../page/events.js")),
    ("/images.js", JAVASCRIPT, include_str!("../../page/images.js")),
    ("/markdown.js", JAVASCRIPT, include_str!("../../page/markdown.js")),
    ("/memory.js", JAVASCRIPT, include_str!("../../page/memory.js")),
    ("/question.js", JAVASCRIPT, include_str!("../../page/question.js")),
    ("/settings.js", JAVASCRIPT, include_str!("../../page/settings.js")),
    ("/work.js", JAVASCRIPT, include_str!("../../page/work.js")),
    ("/tool.js", JAVASCRIPT, include_str!("../../page/tool.js")),
    ("/view.js", JAVASCRIPT, include_str!("../../page/view.js")),
];

const JAVASCRIPT: &str = "text/javascript; charset=utf-8";

pub(crate) fn routes() -> Router<Server> {
    FILES.iter().fold(Router::new(), |router, file| router.route(file.0, get(async || send(file))))
}

/// Returns whether the page has a file at this path.
pub(crate) fn is_file(path: &str) -> bool {
    FILES.iter().any(|file| file.0 == path)
}

fn send(&(_, media_type, text): &File) -> impl IntoResponse {
    let headers = [
        (header::CONTENT_TYPE, media_type),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        // A new version of the server has a new page.
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (headers, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_the_page_loads_is_part_of_the_binary_and_small() {
        let mut count = 0;
        for (path, _, text) in FILES {
            let after = |marker: &'static str| {
                text.split(marker).skip(1).filter_map(|rest| rest.split(['"', '\'']).next())
            };
            for wanted in after("from './")
                .chain(after("src=\""))
                .chain(after("href=\"").filter(|to| to.contains('.')))
            {
                assert!(is_file(&format!("/{wanted}")), "{path} wants {wanted}");
                count += 1;
            }
        }
        assert!(count > 10, "only {count} were found");
        let bytes: usize = FILES.iter().map(|file| file.2.len()).sum();
        assert!(bytes < 124 * 1024, "{bytes} bytes");
    }
}
