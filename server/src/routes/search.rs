//! `GET /api/search`: messages of sessions that contain words.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::routing::get;
use axum::{Json, Router};
use loopwright_core::event::Role;
use loopwright_core::log::{LogEntry, MemoryError, SearchHit, SessionQuery};
use loopwright_core::message::MessageId;
use loopwright_host::SessionSettings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;

use crate::access::{Caller, may_read};
use crate::error::{ApiError, ErrorKind};
use crate::server::Server;

/// The default number of hits per page.
pub(crate) const PAGE_HITS: u32 = 20;
pub(crate) const MAX_PAGE_HITS: u32 = 100;
/// Maximum number of hits that pages can reach.
pub(crate) const MAX_HITS: u32 = 1_000;
/// Maximum length of a query, in characters.
pub(crate) const MAX_QUERY_CHARS: usize = 500;
/// Maximum length of an excerpt, and of its part before the first word found, in characters.
const MAX_EXCERPT_CHARS: usize = 240;
const MAX_LEAD_CHARS: usize = 60;
/// The number of sessions per page of a list.
const PAGE_SESSIONS: usize = 100;

/// The query of a search.
#[derive(Deserialize)]
pub(crate) struct SearchQuery {
    q: String,
    #[serde(default)]
    after: u32,
    #[serde(default)]
    limit: Option<u32>,
}

/// Messages that contain the words.
#[derive(Serialize, JsonSchema)]
pub(crate) struct SearchResults {
    /// The messages. The session that changed last comes first, and within a session the latest
    /// message.
    hits: Vec<Hit>,
    /// The `after` of the next page. Missing on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<u32>,
}

/// A message that contains the words.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Hit {
    session: Arc<str>,
    /// The name of the session, or else the first line of its first request.
    title: String,
    message: MessageId,
    role: Role,
    /// An excerpt of its text in one line, around the first of the words.
    excerpt: String,
}

pub(crate) fn routes() -> Router<Server> {
    Router::new().route("/api/search", get(search))
}

async fn search(
    State(server): State<Server>,
    caller: Caller,
    query: Result<Query<SearchQuery>, QueryRejection>,
) -> Result<Json<SearchResults>, ApiError> {
    let Query(query) =
        query.map_err(|why| ApiError::new(ErrorKind::BadRequest, why.body_text()))?;
    let limit = query.check()?;
    let store = &server.shared().store;
    let (start, end) = (query.after as usize, query.after.saturating_add(limit).min(MAX_HITS));
    let mut found = find(&server, &caller, &query.q, end as usize + 1).await?;
    let next = (found.len() > end as usize && end < MAX_HITS).then_some(end);
    found.truncate(end as usize);
    let words: Vec<String> = query.q.split_whitespace().map(str::to_lowercase).collect();
    let mut titles = HashMap::new();
    let mut hits = Vec::new();
    for SearchHit { session, message, .. } in found.into_iter().skip(start) {
        if !titles.contains_key(&session) {
            let info = match store.session(&session).await {
                Err(MemoryError::NoSession(_)) => continue, // deleted by now
                info => info?,
            };
            let name = SessionSettings::from_stored(info.settings.as_deref()).name;
            titles.insert(session.clone(), name.unwrap_or(info.title));
        }
        let title = titles.get(&session).cloned().unwrap_or_default();
        let excerpt = excerpt(&message.text(), &words);
        hits.push(Hit { session, title, message: message.id, role: message.role(), excerpt });
    }
    Ok(Json(SearchResults { hits, next }))
}

/// Returns the first messages of sessions that the caller may read. The store's own search covers
/// all sessions, and positions in its result would reveal how many others there are.
async fn find(
    server: &Server,
    caller: &Caller,
    text: &str,
    limit: usize,
) -> Result<Vec<SearchHit>, ApiError> {
    let store = &server.shared().store;
    if caller.named().is_none() {
        return Ok(store.search(text, limit).await?);
    }
    let words: Arc<[String]> = text.split_whitespace().map(str::to_lowercase).collect();
    let mut query = SessionQuery::new(PAGE_SESSIONS).brief();
    query.owner = server.shared().policy.only_owner(caller);
    let mut hits = Vec::new();
    loop {
        let page = store.sessions_page(&query).await?;
        for info in page.sessions {
            if !may_read(server, caller, &info).await {
                continue;
            }
            let entries = match store.read(&info.id, 0).await {
                Err(MemoryError::NoSession(_)) => continue, // deleted by now
                entries => entries?,
            };
            let (words, missing) = (words.clone(), limit - hits.len());
            let found = spawn_blocking(move || {
                let messages = entries.iter().rev().filter_map(LogEntry::message);
                let found = messages.filter(|message| message.has_words(&words));
                let found = found.map(|message| SearchHit::new(info.id.clone(), message.clone()));
                found.take(missing).collect::<Vec<_>>()
            });
            hits.extend(found.await.map_err(|_| {
                ApiError::new(ErrorKind::Internal, "The messages could not be searched.")
            })?);
            if hits.len() == limit {
                return Ok(hits);
            }
        }
        match page.next {
            Some(next) => query = query.after(next),
            None => return Ok(hits),
        }
    }
}

impl SearchQuery {
    /// Checks the query, and returns the maximum number of hits on the page.
    fn check(&self) -> Result<u32, ApiError> {
        let invalid = |why: String| Err(ApiError::new(ErrorKind::BadRequest, why));
        if self.q.trim().is_empty() || self.q.chars().count() > MAX_QUERY_CHARS {
            return invalid(format!(
                "`q` must have a word, and at most {MAX_QUERY_CHARS} characters."
            ));
        }
        let limit = self.limit.unwrap_or(PAGE_HITS);
        if !(1..=MAX_PAGE_HITS).contains(&limit) {
            return invalid(format!("`limit` must be a number from 1 to {MAX_PAGE_HITS}."));
        }
        if self.after >= MAX_HITS {
            return invalid(format!("`after` must be a number from 0 to {}.", MAX_HITS - 1));
        }
        Ok(limit)
    }
}

/// Returns an excerpt of a text in one line, around the first of the words, which are in lower
/// case.
fn excerpt(text: &str, words: &[String]) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let lower = line.to_lowercase(); // it may have more characters, but hardly
    let position = |word: &String| lower.find(word).map(|at| lower[..at].chars().count());
    let found = words.iter().filter_map(position).min().unwrap_or(0);
    let start = found.saturating_sub(MAX_LEAD_CHARS).min(line.chars().count());
    let mut part: String = line.chars().skip(start).take(MAX_EXCERPT_CHARS).collect();
    if start > 0 {
        part.insert(0, '…');
    }
    if line.chars().count() > start + MAX_EXCERPT_CHARS {
        part.push('…');
    }
    part
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_is_around_the_first_word() {
        let of = |text: &str, word: &str| excerpt(text, &[word.to_owned()]);
        assert_eq!(of("Nine\n sheep", "sheep"), "Nine sheep");
        let part = of(&format!("{} Sheep {}", "a ".repeat(500), "b ".repeat(500)), "sheep");
        assert!(part.starts_with('…') && part.ends_with('…') && part.contains("a Sheep b"));
        assert_eq!(part.chars().count(), MAX_EXCERPT_CHARS + 2);
        // In lower case, each of these is two characters.
        let part = of(&format!("{}x", "\u{130}".repeat(500)), "x");
        assert!(part.chars().count() <= MAX_EXCERPT_CHARS + 2, "{part}");
    }
}
