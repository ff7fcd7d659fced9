//! Facts in PostgreSQL with the extension [pgvector](https://github.com/pgvector/pgvector): an
//! adapter to copy for any other vector store.
//!
//! [`PgFacts`] stores and deletes facts by scope. [`PgFacts::scoped`] returns a
//! [`Retriever`](loopwright_core::retrieval::Retriever) for one scope: a pattern or a tool that
//! uses it reaches no other. The scope is a condition of every statement.

use std::sync::Arc;

use async_trait::async_trait;
use loopwright_core::retrieval::{Embedder, Passage, RetrievalError, Retriever};
use tokio_postgres::{Client, NoTls};

/// A store of facts with their vectors in PostgreSQL. Clones share the connection.
#[derive(Clone)]
pub struct PgFacts {
    client: Arc<Client>,
    embedder: Arc<dyn Embedder>,
}

impl PgFacts {
    /// Connects to the server, and creates the table for the embedder's number of dimensions unless
    /// it exists. Must be called within a tokio runtime, which runs the connection.
    ///
    /// # Errors
    ///
    /// Fails if the server cannot be reached, or if it lacks the extension `vector`.
    pub async fn connect(
        config: &str,
        embedder: impl Embedder + 'static,
    ) -> Result<Self, RetrievalError> {
        let connected = tokio_postgres::connect(config, NoTls).await;
        let (client, connection) = connected.map_err(RetrievalError::failed)?;
        // It ends when the client is dropped. Each statement reports an error of the connection.
        tokio::spawn(async move { drop(connection.await) });
        let dimensions = embedder.dimensions();
        let schema = format!(
            "CREATE EXTENSION IF NOT EXISTS vector;
            CREATE TABLE IF NOT EXISTS fact_{dimensions} (
                id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
                scope text NOT NULL, embedder text NOT NULL, text text NOT NULL,
                embedding vector({dimensions}) NOT NULL,
                UNIQUE (scope, embedder, text));"
        );
        client.batch_execute(&schema).await.map_err(RetrievalError::failed)?;
        Ok(PgFacts { client: Arc::new(client), embedder: Arc::new(embedder) })
    }

    /// Stores a fact, unless the scope has it, and returns its id.
    ///
    /// # Errors
    ///
    /// Fails if the embedder or the server does.
    pub async fn store(&self, scope: &str, text: &str) -> Result<i64, RetrievalError> {
        let vector = self.vector(text).await?;
        let sql = format!(
            "INSERT INTO {} (scope, embedder, text, embedding) VALUES ($1, $2, $3, $4::text::vector)
            ON CONFLICT (scope, embedder, text) DO UPDATE SET text = excluded.text RETURNING id",
            self.table()
        );
        let row = self.client.query_one(&sql, &[&scope, &self.embedder.id(), &text, &vector]).await;
        Ok(row.map_err(RetrievalError::failed)?.get(0))
    }

    /// Deletes a fact of the scope. Returns whether it existed.
    ///
    /// # Errors
    ///
    /// Fails if the server does.
    pub async fn delete(&self, scope: &str, id: i64) -> Result<bool, RetrievalError> {
        let sql = format!("DELETE FROM {} WHERE scope = $1 AND id = $2", self.table());
        let deleted = self.client.execute(&sql, &[&scope, &id]).await;
        Ok(deleted.map_err(RetrievalError::failed)? > 0)
    }

    /// Deletes all facts of the scope. Returns their number.
    ///
    /// # Errors
    ///
    /// Fails if the server does.
    pub async fn delete_all(&self, scope: &str) -> Result<u64, RetrievalError> {
        let sql = format!("DELETE FROM {} WHERE scope = $1", self.table());
        self.client.execute(&sql, &[&scope]).await.map_err(RetrievalError::failed)
    }

    /// Returns a retriever that finds facts of this scope only.
    pub fn scoped(&self, scope: impl Into<String>) -> PgScope {
        PgScope { facts: self.clone(), scope: scope.into() }
    }

    fn table(&self) -> String {
        format!("fact_{}", self.embedder.dimensions())
    }

    /// Returns the vector of a text in the form that PostgreSQL reads, `[1,2,3]`.
    async fn vector(&self, text: &str) -> Result<String, RetrievalError> {
        let vectors = self.embedder.embed(&[text.to_owned()]).await?;
        let values = vectors.first().into_iter().flatten().map(f32::to_string);
        Ok(format!("[{}]", values.collect::<Vec<_>>().join(",")))
    }
}

/// A retriever for the facts of one scope. Built by [`PgFacts::scoped`].
#[derive(Clone)]
pub struct PgScope {
    facts: PgFacts,
    scope: String,
}

#[async_trait]
impl Retriever for PgScope {
    async fn retrieve(&self, query: &str, limit: usize) -> Result<Vec<Passage>, RetrievalError> {
        if query.trim().is_empty() || limit == 0 {
            return Ok(Vec::new());
        }
        let vector = self.facts.vector(query).await?;
        let sql = format!(
            "SELECT id, text, 1 - (embedding <=> $3::text::vector) FROM {}
            WHERE scope = $1 AND embedder = $2 ORDER BY embedding <=> $3::text::vector LIMIT $4",
            self.facts.table()
        );
        let (embedder, limit) =
            (self.facts.embedder.id(), i64::try_from(limit).unwrap_or(i64::MAX));
        let rows = self.facts.client.query(&sql, &[&self.scope, &embedder, &vector, &limit]).await;
        let passage = |row: &tokio_postgres::Row| {
            let score = row.get::<_, f64>(2) as f32;
            let source = format!("fact {}", row.get::<_, i64>(0));
            Passage::new(row.get::<_, String>(1)).source(source).score(score)
        };
        Ok(rows.map_err(RetrievalError::failed)?.iter().map(passage).collect())
    }
}
