//! Search for facts by words and by meaning. Both rankings are merged.

use std::collections::HashMap;

use rusqlite::Connection;

use super::error::FileError;
use super::fact::{Fact, Scope};
use super::vectors::{QueryVector, VectorCache};
use super::{facts, words};

type Result<T> = std::result::Result<T, FileError>;

/// The constant of reciprocal rank fusion. The larger it is, the less the first ranks stand out.
/// The value is from G. V. Cormack, C. L. A. Clarke and S. Büttcher, "Reciprocal Rank Fusion
/// outperforms Condorcet and individual Rank Learning Methods", SIGIR 2009.
const FUSION_CONSTANT: f32 = 60.0;

/// The number of merged facts of each ranking, as a multiple of the requested facts.
const POOL: usize = 4;

/// Returns at most `limit` facts of the scopes with their scores, best first.
pub(super) fn search(
    connection: &Connection,
    scopes: &[Scope],
    query: &str,
    vector: Option<&QueryVector>,
    vectors: &VectorCache,
    min_similarity: f32,
    limit: usize,
) -> Result<Vec<(Fact, f32)>> {
    let pool = limit.saturating_mul(POOL);
    let (mut by_words, mut by_meaning) = (Vec::new(), Vec::new());
    for scope in facts::distinct(scopes) {
        let Some(scope) = facts::scope_id(connection, scope)? else { continue };
        by_words.extend(words::search(connection, scope, query, pool)?);
        if let Some(vector) = vector {
            let found = vectors.search(connection, scope, vector, min_similarity, pool)?;
            by_meaning.extend(found.into_iter().map(|(id, score)| (id, f64::from(score))));
        }
    }
    let mut scores: HashMap<u64, f32> = HashMap::new();
    for mut ranking in [by_words, by_meaning] {
        ranking.sort_by(|(a, score_a), (b, score_b)| score_b.total_cmp(score_a).then(b.cmp(a)));
        for (rank, (id, _)) in ranking.into_iter().take(pool).enumerate() {
            *scores.entry(id).or_default() += 1.0 / (FUSION_CONSTANT + 1.0 + rank as f32);
        }
    }
    let mut fused: Vec<(u64, f32)> = scores.into_iter().collect();
    fused.sort_by(|(a, score_a), (b, score_b)| score_b.total_cmp(score_a).then(b.cmp(a)));
    fused.truncate(limit);
    let ids: Vec<u64> = fused.iter().map(|(id, _)| *id).collect();
    let scores: HashMap<u64, f32> = fused.into_iter().collect();
    let found = facts::by_ids(connection, scopes, &ids)?;
    let scored = found.into_iter().map(|fact| {
        let score = scores.get(&fact.id).copied().unwrap_or_default();
        (fact, score)
    });
    Ok(scored.collect())
}
