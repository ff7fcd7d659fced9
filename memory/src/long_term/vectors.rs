//! Vectors of facts: exact search by cosine similarity.
//!
//! The vectors of a scope are read once into one contiguous block of RAM. Before each search the
//! block is updated from the file, which other processes may have written to: new vectors have
//! higher numbers, and the scope counts removed vectors.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use rusqlite::{Connection, OptionalExtension, params};

use super::error::FileError;
use super::fact::ScopeId;

type Result<T> = std::result::Result<T, FileError>;

/// The vector of a query, of length 1, and the id of its embedder.
#[derive(Clone)]
pub(super) struct QueryVector {
    pub(super) embedder: Arc<str>,
    pub(super) values: Vec<f32>,
}

/// Stores the vector of a fact, replacing an older one, if the fact still exists.
pub(super) fn store(
    connection: &Connection,
    fact: u64,
    embedder: &str,
    vector: &[f32],
) -> Result<()> {
    let fact = fact as i64;
    let mut of_fact = connection.prepare("SELECT scope FROM fact WHERE id = ?")?;
    let scope: Option<i64> = of_fact.query_row((fact,), |row| row.get(0)).optional()?;
    let Some(scope) = scope else { return Ok(()) };
    let mut delete = connection.prepare("DELETE FROM vector WHERE fact = ?")?;
    let removed = delete.execute((fact,))?;
    connection
        .prepare("UPDATE scope SET removals = removals + ? WHERE id = ?")?
        .execute((removed as i64, scope))?;
    let data: Vec<u8> = vector.iter().flat_map(|value| value.to_le_bytes()).collect();
    let sql = "INSERT INTO vector (scope, fact, embedder, data) VALUES (?, ?, ?, ?)";
    connection.prepare(sql)?.execute(params![scope, fact, embedder, data])?;
    Ok(())
}

/// Returns at most `limit` facts without a vector of this embedder, with their texts.
pub(super) fn missing(
    connection: &Connection,
    embedder: &str,
    after: u64,
    limit: usize,
) -> Result<Vec<(u64, String)>> {
    let sql = "SELECT id, text FROM fact WHERE id > ?1 AND NOT EXISTS \
        (SELECT 1 FROM vector AS v WHERE v.fact = fact.id AND v.embedder = ?2) \
        ORDER BY id LIMIT ?3";
    let mut statement = connection.prepare(sql)?;
    let values = params![after as i64, embedder, limit as i64];
    let rows =
        statement.query_map(values, |row| Ok((row.get::<_, i64>(0)? as u64, row.get(1)?)))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Returns the vector scaled to length 1, or `None` if it has another number of dimensions, no
/// direction, or a number that is not finite.
pub(super) fn normalised(mut vector: Vec<f32>, dimensions: usize) -> Option<Vec<f32>> {
    let length = vector.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
    if vector.len() != dimensions || !length.is_finite() || length == 0.0 {
        return None;
    }
    vector.iter_mut().for_each(|value| *value = (f64::from(*value) / length) as f32);
    Some(vector)
}

/// The vectors in RAM, by scope. If they exceed their limit, the least recently used scopes are
/// removed.
pub(super) struct VectorCache {
    max_bytes: usize,
    scopes: Mutex<Scopes>,
}

#[derive(Default)]
struct Scopes {
    /// By scope and embedder.
    blocks: HashMap<(ScopeId, Arc<str>), Cached>,
    /// The number of searches so far, the clock of the least recently used order.
    searches: u64,
}

#[derive(Default)]
struct Cached {
    block: Arc<RwLock<Block>>,
    /// The number of the search that last used it.
    used: u64,
}

impl VectorCache {
    pub(super) fn new(max_bytes: usize) -> Self {
        VectorCache { max_bytes, scopes: Mutex::default() }
    }

    /// Returns at most `limit` facts of the scope whose vectors have a cosine similarity above
    /// `min` with the query, closest first.
    pub(super) fn search(
        &self,
        connection: &Connection,
        scope: ScopeId,
        query: &QueryVector,
        min: f32,
        limit: usize,
    ) -> Result<Vec<(u64, f32)>> {
        let state = FileState::read(connection, scope, &query.embedder)?;
        let dimensions = query.values.len();
        if state.count.saturating_mul(dimensions * size_of::<f32>()) > self.max_bytes {
            return search_file(connection, scope, query, min, limit);
        }
        let block = self.block(scope, &query.embedder);
        let is_current =
            |block: &Block| block.removals == state.removals && block.last >= state.last;
        let read = block.read().unwrap_or_else(PoisonError::into_inner);
        if is_current(&read) {
            return Ok(read.search(&query.values, min, limit));
        }
        drop(read);
        let mut write = block.write().unwrap_or_else(PoisonError::into_inner);
        if !is_current(&write) {
            write.update(connection, scope, &query.embedder, dimensions, &state)?;
        }
        let found = write.search(&query.values, min, limit);
        drop(write);
        self.evict(scope, &query.embedder);
        Ok(found)
    }

    /// Removes the vectors of a deleted scope. A search that has already begun may read them once
    /// more, and other processes keep them until they need the room.
    pub(super) fn remove(&self, scope: ScopeId) {
        let mut scopes = self.scopes.lock().unwrap_or_else(PoisonError::into_inner);
        scopes.blocks.retain(|(of, _), _| *of != scope);
    }

    fn block(&self, scope: ScopeId, embedder: &Arc<str>) -> Arc<RwLock<Block>> {
        let mut scopes = self.scopes.lock().unwrap_or_else(PoisonError::into_inner);
        scopes.searches += 1;
        let now = scopes.searches;
        let cached = scopes.blocks.entry((scope, embedder.clone())).or_default();
        cached.used = now;
        cached.block.clone()
    }

    /// Removes the least recently used scopes until the others fit, but never this one.
    fn evict(&self, scope: ScopeId, embedder: &Arc<str>) {
        let mut scopes = self.scopes.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = |cached: &Cached| cached.block.try_read().map_or(0, |block| block.bytes());
        let current = (scope, embedder.clone());
        loop {
            let total: usize = scopes.blocks.values().map(bytes).sum();
            let others = scopes.blocks.iter().filter(|(key, _)| **key != current);
            let oldest = others.min_by_key(|(_, cached)| cached.used).map(|(key, _)| key.clone());
            match oldest {
                Some(key) if total > self.max_bytes => scopes.blocks.remove(&key),
                _ => return,
            };
        }
    }

    /// Returns the size of all vectors in RAM, in bytes.
    #[cfg(test)]
    fn bytes(&self) -> usize {
        let scopes = self.scopes.lock().unwrap();
        scopes.blocks.values().map(|cached| cached.block.read().unwrap().bytes()).sum()
    }
}

/// The state of a scope's vectors in the file.
struct FileState {
    removals: i64,
    /// The number of the newest vector.
    last: i64,
    /// An upper bound of the number of vectors.
    count: usize,
}

impl FileState {
    fn read(connection: &Connection, scope: ScopeId, embedder: &str) -> Result<Self> {
        let sql = "SELECT removals, facts, (SELECT coalesce(max(number), 0) FROM vector \
            WHERE scope = ?1 AND embedder = ?2) FROM scope WHERE id = ?1";
        let mut statement = connection.prepare(sql)?;
        let read = statement.query_row(params![scope.0, embedder], |row| {
            let count = row.get::<_, i64>(1)? as usize;
            Ok(FileState { removals: row.get(0)?, last: row.get(2)?, count })
        });
        Ok(read?)
    }
}

/// The vectors of a scope.
#[derive(Default)]
struct Block {
    facts: Vec<u64>,
    /// The components of all vectors, one vector after the other.
    values: Vec<f32>,
    /// The scope's count of removed vectors at the last update of the block.
    removals: i64,
    /// The number of the newest vector.
    last: i64,
}

const READ_VECTORS: &str = "SELECT number, fact, data FROM vector \
    WHERE scope = ?1 AND embedder = ?2 AND number > ?3 ORDER BY number";

impl Block {
    /// Adds the new vectors, or reads all of them if some were removed.
    fn update(
        &mut self,
        connection: &Connection,
        scope: ScopeId,
        embedder: &str,
        dimensions: usize,
        state: &FileState,
    ) -> Result<()> {
        if self.removals != state.removals {
            *self = Block { removals: state.removals, ..Block::default() };
        }
        if self.facts.is_empty() {
            self.values.reserve_exact(state.count * dimensions);
        }
        let mut statement = connection.prepare(READ_VECTORS)?;
        let mut rows = statement.query(params![scope.0, embedder, self.last])?;
        while let Some(row) = rows.next()? {
            let data = row.get_ref(2)?.as_blob().map_err(rusqlite::Error::from)?;
            if data.len() == dimensions * size_of::<f32>() {
                self.values.extend(floats(data));
                self.facts.push(row.get::<_, i64>(1)? as u64);
            }
            self.last = row.get(0)?;
        }
        Ok(())
    }

    fn search(&self, query: &[f32], min: f32, limit: usize) -> Vec<(u64, f32)> {
        let vectors = self.values.chunks_exact(query.len().max(1));
        let scored = self.facts.iter().zip(vectors).map(|(fact, v)| (*fact, dot(query, v)));
        best(scored.filter(|(_, score)| *score > min).collect(), limit)
    }

    fn bytes(&self) -> usize {
        self.values.capacity() * size_of::<f32>() + self.facts.capacity() * size_of::<u64>()
    }
}

/// Searches the file, for a scope whose vectors do not fit into RAM.
fn search_file(
    connection: &Connection,
    scope: ScopeId,
    query: &QueryVector,
    min: f32,
    limit: usize,
) -> Result<Vec<(u64, f32)>> {
    let mut statement = connection.prepare(READ_VECTORS)?;
    let mut rows = statement.query(params![scope.0, query.embedder, 0])?;
    let mut scored = Vec::new();
    let mut vector = Vec::new();
    while let Some(row) = rows.next()? {
        vector.clear();
        vector.extend(floats(row.get_ref(2)?.as_blob().map_err(rusqlite::Error::from)?));
        if vector.len() == query.values.len() {
            let score = dot(&query.values, &vector);
            if score > min {
                scored.push((row.get::<_, i64>(1)? as u64, score));
            }
        }
    }
    Ok(best(scored, limit))
}

/// Returns the best `limit` of these facts, best first, and newer first among equals.
fn best(mut scored: Vec<(u64, f32)>, limit: usize) -> Vec<(u64, f32)> {
    let by_score = |a: &(u64, f32), b: &(u64, f32)| b.1.total_cmp(&a.1).then(b.0.cmp(&a.0));
    if limit < scored.len() {
        scored.select_nth_unstable_by(limit, by_score);
        scored.truncate(limit);
    }
    scored.sort_by(by_score);
    scored
}

fn floats(data: &[u8]) -> impl Iterator<Item = f32> + '_ {
    let (chunks, _) = data.as_chunks::<4>();
    chunks.iter().map(|bytes| f32::from_le_bytes(*bytes))
}

/// Returns the scalar product. Separate sums let the compiler use vector instructions. The loop
/// calls no closure, since not every build inlines closures.
#[allow(clippy::needless_range_loop, reason = "an iterator has closures")]
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let (chunks_a, rest_a) = a.as_chunks::<16>();
    let (chunks_b, rest_b) = b.as_chunks::<16>();
    let mut sums = [0.0; 16];
    for at in 0..chunks_a.len().min(chunks_b.len()) {
        let (a, b) = (&chunks_a[at], &chunks_b[at]);
        for n in 0..16 {
            sums[n] += a[n] * b[n];
        }
    }
    let mut sum = 0.0;
    for at in 0..rest_a.len().min(rest_b.len()) {
        sum += rest_a[at] * rest_b[at];
    }
    for part in sums {
        sum += part;
    }
    sum
}

#[cfg(test)]
mod tests;
