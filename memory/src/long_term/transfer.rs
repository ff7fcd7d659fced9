//! Export of a scope's facts as JSON Lines, and import.

use loopwright_core::log::MemoryError;
use loopwright_core::message::MessageId;
use serde::{Deserialize, Serialize};

use super::error::LongTermError;
use super::fact::{NewFact, Scope};
use super::facts;
use super::store::LongTerm;

/// The format that is written, and the newest that can be read.
const VERSION: u64 = 1;

/// The first line of an export.
#[derive(Serialize, Deserialize)]
struct Header {
    /// The kind of file: `facts`.
    loopwright: String,
    version: u64,
    scope: Scope,
}

/// A line of an export after the first.
#[derive(Serialize, Deserialize)]
struct Line {
    text: String,
    created: u64,
    refreshed: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    message: Option<MessageId>,
}

impl LongTerm {
    /// Exports all facts of a scope as JSON Lines: a header, then one line for each fact, in the
    /// order of storing. Vectors are left out, since they are computed from the texts.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use loopwright_memory::long_term::{LongTerm, Scope};
    /// # let folder = tempfile::tempdir()?;
    ///
    /// let memory = LongTerm::open(folder.path().join("facts.db"))?;
    /// let ann = Scope::user("ann");
    /// memory.remember(&ann, "Ann has a cat.").await?;
    /// let export = memory.export(&ann).await?;
    /// memory.forget_all(&ann).await?;
    /// assert_eq!(memory.import(&ann, &export).await?, 1);
    /// # Ok(()) }
    /// ```
    pub async fn export(&self, scope: &Scope) -> Result<String, LongTermError> {
        let facts = self.facts(std::slice::from_ref(scope), 0, usize::MAX).await?;
        let header = Header { loopwright: "facts".into(), version: VERSION, scope: scope.clone() };
        let mut text = line(&header)?;
        for fact in facts {
            text += &line(&Line {
                text: fact.text,
                created: fact.created,
                refreshed: fact.refreshed,
                session: fact.session,
                message: fact.message,
            })?;
        }
        Ok(text)
    }

    /// Stores the facts of an export in `scope`, regardless of their original scope, all or none.
    /// Returns their number. They get new ids and keep their times. A fact that is already stored
    /// keeps its id.
    ///
    /// # Errors
    ///
    /// Returns [`LongTermError::Import`] for a text that is not an export, and for a fact that
    /// cannot be stored, and the errors of [`LongTerm::remember`].
    pub async fn import(&self, scope: &Scope, export: &str) -> Result<u64, LongTermError> {
        let bad = |line, why: String| LongTermError::Import { line, why };
        let mut lines = export.lines().enumerate().map(|(at, line)| (at + 1, line));
        let header = lines.next().map(|(_, line)| serde_json::from_str::<Header>(line));
        match header {
            Some(Ok(header)) if header.loopwright != "facts" => {
                return Err(bad(1, format!("it is an export of `{}`", header.loopwright)));
            }
            Some(Ok(header)) if header.version > VERSION => {
                let why = "a newer version of loopwright wrote it: update loopwright".into();
                return Err(bad(1, why));
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(bad(1, error.to_string())),
            None => return Err(bad(1, "it is empty".into())),
        }
        let mut new = Vec::new();
        for (number, text) in lines.filter(|(_, line)| !line.trim().is_empty()) {
            let line: Line =
                serde_json::from_str(text).map_err(|error| bad(number, error.to_string()))?;
            let (created, refreshed) = (line.created, line.refreshed);
            let fact = NewFact { text: line.text, session: line.session, message: line.message };
            fact.check().map_err(|error| bad(number, error.to_string()))?;
            new.push((fact, created, refreshed));
        }
        scope.check()?;
        let scope = scope.clone();
        let store = move |tx: &_| {
            let mut stored = Vec::new();
            for (fact, created, refreshed) in new {
                let first = facts::remember(tx, &scope, &fact, created)?;
                stored.push(match refreshed > first.refreshed {
                    true => facts::remember(tx, &scope, &fact, refreshed)?,
                    false => first,
                });
            }
            Ok(stored)
        };
        let facts = self.file.write(store).await?;
        self.embed(&facts).await;
        Ok(facts.len() as u64)
    }
}

/// Returns the value as a line of JSON.
fn line(value: &impl Serialize) -> Result<String, MemoryError> {
    serde_json::to_string(value).map(|json| json + "\n").map_err(MemoryError::failed)
}
